"""RLFR: tokens whose hidden states a flow, learnt on right answers, finds unlike them cost a little.

    error   of the flow (mmrl/algorithms/flow.py) at t = `time` for the state of a token, given the next token's state
    score   t / (1 - t) * error, mean over the layers at .25, .5 and .75 of the depth; min-max over the completion
    kept    scores above `floor`, of these the `top` highest; others are 0, and so are all where scores are equal
    A_t     = GRPO + sum over tokens u >= t of -coef * score_u

States are those from which the model says a token, pictures and clips before it included, of the policy before the
update. After each step the flow makes one step on at most `tokens` tokens of the answers with a reward of at least
`threshold`. In the first `warmup_steps` it only learns: the source begins with a flow learnt from expert data. Each
process has a flow of its own; it is part of the checkpoint's JSON, 4 / 3 of 12 bytes a weight.

coef .01, time .8, floor .6, top 15, lr 1e-4, blocks 4 (for models of 1.5B and 3B; 6 for larger ones), n 8. Source:
Jinghaoleven/RLFR@1589879, read in code; there the width is the model's hidden size, each token has a noise of its own,
and min-max of equal scores is NaN. warmup_steps and the smaller width are this project's. coef 0: GRPO.

Errors [.2, .5, .9, .4]: scores [.8, 2, 3.6, 1.6], scaled [0, .4286, 1, .2857], kept [0, 0, 1, 0]: A of a group of equal
rewards -.01, -.01, -.01, 0.

Shape letters: N completions, C completion tokens, D hidden size, L tokens.
"""

from typing import Any

import torch

from mmrl.algorithms.advantages import grpo
from mmrl.algorithms.flow import FlowTrainer
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.schema import AlgorithmSection
from mmrl.config.section import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, Probability
from mmrl.errors import ConfigError

LAYERS = ("hidden:0.25", "hidden:0.5", "hidden:0.75")
NEEDS = LAYERS
NEUTRAL: dict[str, Any] = {"coef": 0.0}
CONSTANT_GROUP = "what the flow charges from each token on"


class Plugin:
    """width, blocks: of the flow; None: a quarter of the hidden size. tokens: most that it learns from in a step.

    threshold: the least reward of a right answer.
    """

    def __init__(
        self,
        *,
        coef: NonNegativeFloat = 0.01,
        time: Probability = 0.8,
        floor: Probability = 0.6,
        top: PositiveInt = 15,
        lr: PositiveFloat = 1e-4,
        width: PositiveInt | None = None,
        blocks: PositiveInt = 4,
        tokens: PositiveInt = 4096,
        warmup_steps: NonNegativeInt = 50,
        threshold: float = 0.5,
        seed: int = 0,
    ) -> None:
        if not 0 < time < 1:
            raise ConfigError(f"rlfr: time ({time:g}) must lie between 0 and 1")
        self._coef, self._time, self._floor, self._top, self._lr = coef, time, floor, top, lr
        self._width, self._blocks, self._tokens, self._warmup = width, blocks, tokens, warmup_steps
        self._threshold, self._seed = threshold, seed
        self._trainer: FlowTrainer | None = None
        self._steps = 0

    def advantage(self, rewards_N: torch.Tensor, batch: RolloutBatch, settings: AlgorithmSection) -> torch.Tensor:
        advantage_NC = grpo(rewards_N, batch, settings)
        if not self._coef or self._steps < self._warmup:
            return advantage_NC
        cost_NC = torch.zeros(batch.mask_NC.shape, dtype=torch.float64)
        cost_NC[_given(batch)] = self._time / (1 - self._time) * self._errors(batch)
        cost_NC = self._coef * kept_scores(cost_NC, _given(batch), floor=self._floor, top=self._top)
        to_go_NC = cost_NC.flip(1).cumsum(1).flip(1)
        return (advantage_NC - torch.where(rewards_N.isnan()[:, None], 0.0, to_go_NC)).float()

    def on_step_end(self, batch: RolloutBatch, rewards_N: torch.Tensor, metrics: dict[str, float]) -> None:
        self._steps += 1
        given_NC = _given(batch) & (rewards_N >= self._threshold)[:, None]
        count = int(given_NC.sum())
        if not self._coef or not count:
            return
        generator = torch.Generator().manual_seed(self._seed + self._steps)
        chosen = torch.randperm(count, generator=generator)[: self._tokens]
        pairs = [tuple(part[chosen] for part in _pairs(batch, name, given_NC)) for name in LAYERS]
        metrics["rlfr/error"] = self._flow(batch).learn(pairs, generator)  # type: ignore[arg-type]

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self._steps, "flow": self._trainer.state_dict() if self._trainer else None}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._steps, self._trainer = state["steps"], None
        if state["flow"]:
            self._trainer = self._new(state["flow"]["shape"])
            self._trainer.load_state_dict(state["flow"])

    def _errors(self, batch: RolloutBatch) -> torch.Tensor:
        """(L,) errors of the tokens that have a next one, mean over the layers."""
        flow, found = self._flow(batch), []
        for layer, name in enumerate(LAYERS):
            states_LD, next_LD = _pairs(batch, name, _given(batch))
            generator = torch.Generator().manual_seed(self._seed + 3 * self._steps + layer)
            found.append(flow.errors(states_LD, next_LD, layer, torch.randn(states_LD.shape[1], generator=generator)))
        return torch.stack(found).mean(0)

    def _flow(self, batch: RolloutBatch) -> FlowTrainer:
        if self._trainer is None:
            size = _grid(batch, LAYERS[0]).shape[2]
            width = self._width or max(size // 4, 1)
            self._trainer = self._new({"size": size, "width": width, "blocks": self._blocks, "layers": len(LAYERS)})
        return self._trainer

    def _new(self, shape: dict[str, int]) -> FlowTrainer:
        return FlowTrainer(shape, time=self._time, lr=self._lr, seed=self._seed)


def kept_scores(score_NC: torch.Tensor, given_NC: torch.Tensor, *, floor: float, top: int) -> torch.Tensor:
    """Scores scaled to 0..1 over each completion's cells, those that are not kept 0."""
    low_N1 = torch.where(given_NC, score_NC, torch.inf).amin(1, keepdim=True)
    high_N1 = torch.where(given_NC, score_NC, -torch.inf).amax(1, keepdim=True)
    scaled_NC = torch.where(given_NC & (high_N1 > low_N1), (score_NC - low_N1) / (high_N1 - low_N1), 0.0)
    scaled_NC = torch.where(scaled_NC > floor, scaled_NC, 0.0)
    if scaled_NC.shape[1] > top:
        least_N1 = scaled_NC.topk(top, dim=1).values[:, -1:]
        scaled_NC = torch.where(scaled_NC >= least_N1, scaled_NC, 0.0)
    return scaled_NC


def _given(batch: RolloutBatch) -> torch.Tensor:
    """(N, C) bool: tokens with a next one, whose state is the condition."""
    return batch.mask_NC & torch.nn.functional.pad(batch.mask_NC[:, 1:], (0, 1))


def _grid(batch: RolloutBatch, name: str) -> torch.Tensor:
    states = batch.meta[name].detach()
    return states if states.dim() == 3 else states[..., None]


def _pairs(batch: RolloutBatch, name: str, given_NC: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(L, D) states of the given tokens, and of those behind them."""
    grid_NCD, rows, columns = _grid(batch, name), *given_NC.nonzero(as_tuple=True)
    return grid_NCD[rows, columns], grid_NCD[rows, columns + 1]
