"""One optimizer step over packed rows, and the log-prob passes without gradient.

Shape letters: N sequences (completions), C completion tokens, L loss tokens of a micro-batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from mmrl.algorithms.batch import MicroBatch, Row, Segment
from mmrl.data.sample import MediaKind
from mmrl.models.encode import idle_medium
from mmrl.models.logprobs import LogprobResult
from mmrl.models.packing import pack, plan_micro_batches
from mmrl.training import distributed
from mmrl.training.metrics import sums_over_ranks
from mmrl.training.zero import apply_step

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
    world size. Only the last micro-batch is an accumulation boundary. Ranks may have different numbers of rows, none
    included; the statistics are summed over all of them.
    """
    totals: dict[str, float] = {}
    for micro, is_last in micro_batches(rows, settings, completes=bool(engine.zero_offload_optimizer())):
        engine.set_gradient_accumulation_boundary(is_last)
        logprobs_L = settings.run(engine, micro).logprobs_L.cpu()
        if len(logprobs_L):
            loss, stats = loss_function(*scatter(logprobs_L, micro, num_tokens=num_tokens))
        else:
            loss, stats = 0.0 * logprobs_L.sum(), {}
        engine.backward(loss * distributed.world_size())
        for key, value in {"loss/total": float(loss.detach()), **stats}.items():
            totals[key] = totals.get(key, 0.0) + value
    return {**sums_over_ranks(totals), "grad_norm": apply_step(engine)}


def micro_batches(
    rows: Sequence[Row], settings: LogprobSettings, *, completes: bool = False
) -> Iterator[tuple[MicroBatch, bool]]:
    """The packed micro-batches of `rows`, each with whether it is the last: as many on every rank.

    ZeRO's collectives are those of the modules that ran, so the k-th micro-batches of all ranks must take the same way
    through the model: a rank that has fewer goes on with tokens without loss, and one whose k-th micro-batch has no
    pictures (or clips) where another's has some sends a black one through the tower (faults 53 and 54).

    completes: the last one runs every module that an earlier one ran. DeepSpeed's optimizer in host memory takes over
    the gradients of those parameters only that have one in the last backward pass; the others' would be lost.
    """
    groups = plan_micro_batches(rows, settings.micro_batch_tokens)
    plans = distributed.gather_objects([sorted({m.kind for row in group for m in row.media}) for group in groups])
    count = max(map(len, plans))
    for index in range(count):
        micro = pack(groups[index] if index < len(groups) else [_EMPTY_ROW], settings.processor)
        first = 0 if completes and index == count - 1 else index
        kinds: set[MediaKind] = {kind for plan in plans for part in plan[first : index + 1] for kind in part}
        idle = [idle_medium(kind, settings.processor) for kind in sorted(kinds - {m.kind for m in micro.media})]
        yield replace(micro, media=(*micro.media, *idle)), index == count - 1


_EMPTY_ROW = Row((Segment(torch.zeros(1, dtype=torch.long), torch.zeros(3, 1, dtype=torch.long)),), media=())


@torch.no_grad()
def logprob_pass(
    model: Any, rows: Sequence[Row], *, settings: LogprobSettings, shape: tuple[int, int], entropy: bool
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Log-probs (N, C) of all sequences without gradient, and their entropies when asked; 0 off the tokens."""
    logprobs_NC = torch.zeros(shape)
    entropy_NC = torch.zeros(shape) if entropy else None
    for micro, _ in micro_batches(rows, settings):
        result = settings.run(model, micro, want_entropy=entropy)
        place = (micro.sequence_L.cpu(), micro.token_L.cpu())
        logprobs_NC[place] = result.logprobs_L.float().cpu()
        if entropy_NC is not None and result.entropy_L is not None:
            entropy_NC[place] = result.entropy_L.float().cpu()
    return logprobs_NC, entropy_NC
