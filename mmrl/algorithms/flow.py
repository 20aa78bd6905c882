"""A flow over hidden states of a layer, learnt by matching velocities: how unlike right answers a token's state is.

    x = t h + (1 - t) e, e normal            target velocity h - e
    error of a token = mean square of (velocity(x, condition, layer) - (h - e)) over the dimensions

The velocity is a multilayer perceptron of blocks with adaptive normalisation; t is one constant, so its embedding is
part of the biases. Its last layer begins at zero.

Shape letters: L tokens, D hidden size, W width.
"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import torch
from torch import nn

_CHUNK = 16384  # tokens at a time


class Flow(nn.Module):
    """velocity(x_LD, condition_LD, layer) -> (L, D)."""

    def __init__(self, size: int, *, width: int, blocks: int, layers: int) -> None:
        super().__init__()
        self.input, self.condition = nn.Linear(size, width), nn.Linear(size, width)
        self.layer = nn.Embedding(layers, width)
        self.blocks = nn.ModuleList(_Block(width) for _ in range(blocks))
        self.output = _Output(width, size)

    def forward(self, x_LD: torch.Tensor, condition_LD: torch.Tensor, layer: int) -> torch.Tensor:
        x_LW, given_LW = self.input(x_LD), self.condition(condition_LD) + self.layer.weight[layer]
        for block in self.blocks:
            x_LW = block(x_LW, given_LW)
        return self.output(x_LW, given_LW)


class _Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(width, eps=1e-6)
        self.mlp = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
        self.modulation = _zeros(nn.Linear(width, 3 * width))

    def forward(self, x_LW: torch.Tensor, given_LW: torch.Tensor) -> torch.Tensor:
        shift_LW, scale_LW, gate_LW = self.modulation(nn.functional.silu(given_LW)).chunk(3, -1)
        return x_LW + gate_LW * self.mlp(self.norm(x_LW) * (1 + scale_LW) + shift_LW)


class _Output(nn.Module):
    def __init__(self, width: int, size: int) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(width, eps=1e-6)
        self.linear, self.modulation = _zeros(nn.Linear(width, size)), _zeros(nn.Linear(width, 2 * width))

    def forward(self, x_LW: torch.Tensor, given_LW: torch.Tensor) -> torch.Tensor:
        shift_LW, scale_LW = self.modulation(nn.functional.silu(given_LW)).chunk(2, -1)
        return self.linear(self.norm(x_LW) * (1 + scale_LW) + shift_LW)


def _zeros(linear: nn.Linear) -> nn.Linear:
    nn.init.zeros_(linear.weight)
    nn.init.zeros_(linear.bias)
    return linear


class FlowTrainer:
    """A flow with its optimizer. shape: arguments of `Flow`; equal seeds give equal flows."""

    def __init__(self, shape: dict[str, int], *, time: float, lr: float, seed: int) -> None:
        self.shape, self.time = shape, time
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.flow = Flow(**shape)
        self.optimizer = torch.optim.Adam(self.flow.parameters(), lr=lr)

    @torch.no_grad()
    def errors(
        self, states_LD: torch.Tensor, conditions_LD: torch.Tensor, layer: int, noise_D: torch.Tensor
    ) -> torch.Tensor:
        """(L,) float64. All tokens share one noise, so that they are compared on the same terms."""
        parts = zip(states_LD.split(_CHUNK), conditions_LD.split(_CHUNK), strict=True)
        found = [self._error(h_LD, c_LD, layer, noise_D.expand_as(h_LD)).double() for h_LD, c_LD in parts]
        return torch.cat(found)

    @torch.enable_grad()
    def learn(self, pairs: list[tuple[torch.Tensor, torch.Tensor]], generator: torch.Generator) -> float:
        """One optimizer step on states and conditions, a pair for each layer; the mean error before it."""
        losses = [
            self._error(h_LD, c_LD, layer, torch.randn(h_LD.shape, generator=generator)).mean()
            for layer, (h_LD, c_LD) in enumerate(pairs)
        ]
        loss = torch.stack(losses).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def _error(self, h_LD: torch.Tensor, c_LD: torch.Tensor, layer: int, noise_LD: torch.Tensor) -> torch.Tensor:
        x_LD = self.time * h_LD + (1 - self.time) * noise_LD
        return ((self.flow(x_LD, c_LD, layer) - (h_LD - noise_LD)) ** 2).mean(1)

    def state_dict(self) -> dict[str, Any]:
        """JSON values: weights, and the optimizer's two means and its count."""
        moments = self.optimizer.state_dict()["state"]
        return {
            "shape": dict(self.shape),
            "weights": [_text(value) for value in self.flow.state_dict().values()],
            "means": [[_text(of["exp_avg"]), _text(of["exp_avg_sq"])] for of in moments.values()],
            "steps": int(moments[0]["step"]) if moments else 0,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        shapes = {name: value.shape for name, value in self.flow.state_dict().items()}
        values = zip(shapes.items(), state["weights"], strict=True)
        self.flow.load_state_dict({name: _tensor(text).reshape(shape) for (name, shape), text in values})
        kept = self.optimizer.state_dict()
        of_parameters = zip(self.flow.parameters(), state["means"], strict=True) if state["means"] else ()
        kept["state"] = {
            number: {
                "step": torch.tensor(float(state["steps"])),
                "exp_avg": _tensor(mean).reshape(parameter.shape),
                "exp_avg_sq": _tensor(square).reshape(parameter.shape),
            }
            for number, (parameter, (mean, square)) in enumerate(of_parameters)
        }
        self.optimizer.load_state_dict(kept)


def _text(values: torch.Tensor) -> str:
    return base64.b64encode(values.detach().numpy().astype("<f4").tobytes()).decode()


def _tensor(text: str) -> torch.Tensor:
    return torch.from_numpy(np.frombuffer(base64.b64decode(text), dtype="<f4").copy())
