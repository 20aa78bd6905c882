"""One optimizer step over packed rows, and the log-prob passes without gradient.

Shape letters: N sequences (completions), C completion tokens, L loss tokens of a micro-batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from mmrl.algorithms.batch import MicroBatch, Row
from mmrl.models.logprobs import LogprobResult
from mmrl.models.packing import pack, plan_micro_batches
from mmrl.training import distributed

# (policy log-probs (N', C), indices of those N' sequences) -> (loss contribution, statistics)
LossFunction = Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, dict[str, float]]]


@dataclass(frozen=True)
class LogprobSettings:
    """How log-probs are taken, the same for old, policy and reference: the sampler's temperature and bans."""

    processor: Any
    temperature: float
    banned_ids: tuple[int, ...]
    chunk: int
    micro_batch_tokens: int

    def run(self, model: Any, micro: MicroBatch, *, want_entropy: bool = False) -> LogprobResult:
        """`model` is a LogprobModule, or the DeepSpeed engine around one."""
        return model(
            micro,
            self.processor,
            temperature=self.temperature,
            banned_ids=self.banned_ids,
            chunk=self.chunk,
            want_entropy=want_entropy,
        )


def scatter(values_L: torch.Tensor, micro: MicroBatch, *, num_tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Loss-token values of a micro-batch as an (N', C) grid, with the N' sequence indices it covers.

    Cells without a token are 0. Differentiable in the values.
    """
    sequences, local_L = micro.sequence_L.unique(return_inverse=True)
    grid = values_L.new_zeros(len(sequences), num_tokens)
    return grid.index_put((local_L, micro.token_L), values_L), sequences


def optimizer_step(
    engine: Any, rows: Sequence[Row], loss_function: LossFunction, *, settings: LogprobSettings, num_tokens: int
) -> dict[str, float]:
    """Forward and backward over all micro-batches of `rows`, then one step. Returns summed statistics.

    DeepSpeed averages gradients over ranks while the loss is already a share of the global sum, hence the factor
    world size. Only the last micro-batch is an accumulation boundary.
    """
    groups = plan_micro_batches(rows, settings.micro_batch_tokens)
    totals: dict[str, float] = {}
    for index, group in enumerate(groups):
        micro = pack(group, settings.processor)
        engine.set_gradient_accumulation_boundary(index == len(groups) - 1)
        grid_NC, sequences = scatter(settings.run(engine, micro).logprobs_L.cpu(), micro, num_tokens=num_tokens)
        loss, stats = loss_function(grid_NC, sequences)
        engine.backward(loss * distributed.world_size())
        for key, value in {"loss/total": float(loss.detach()), **stats}.items():
            totals[key] = totals.get(key, 0.0) + value
    totals["grad_norm"] = distributed.apply_step(engine)
    return totals


@torch.no_grad()
def logprob_pass(
    model: Any, rows: Sequence[Row], *, settings: LogprobSettings, shape: tuple[int, int], entropy: bool
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Log-probs (N, C) of all sequences without gradient, and their entropies when asked; 0 off the tokens."""
    logprobs_NC = torch.zeros(shape)
    entropy_NC = torch.zeros(shape) if entropy else None
    for group in plan_micro_batches(rows, settings.micro_batch_tokens):
        micro = pack(group, settings.processor)
        result = settings.run(model, micro, want_entropy=entropy)
        place = (micro.sequence_L.cpu(), micro.token_L.cpu())
        logprobs_NC[place] = result.logprobs_L.float().cpu()
        if entropy_NC is not None and result.entropy_L is not None:
            entropy_NC[place] = result.entropy_L.float().cpu()
    return logprobs_NC, entropy_NC
