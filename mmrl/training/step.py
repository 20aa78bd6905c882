"""One optimizer step over packed rows, and the log-prob passes without gradient.

Shape letters: N sequences (completions), C completion tokens, L loss tokens of a micro-batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from mmrl.algorithms.batch import Attention, MicroBatch, Row, Segment
from mmrl.data.rendered import MediaEntry, with_pixels
from mmrl.data.sample import MediaKind
from mmrl.models.encode import idle_medium
from mmrl.models.logprobs import LogprobResult
from mmrl.models.packing import pack, plan_micro_batches
from mmrl.training import distributed
from mmrl.training.metrics import sums_over_ranks
from mmrl.training.zero import apply_step

Grids = dict[str, torch.Tensor]
# (policy log-probs (N', C), indices of those N' sequences, what was requested) -> (loss contribution, statistics)
LossFunction = Callable[[torch.Tensor, torch.Tensor, Grids], tuple[torch.Tensor, dict[str, float]]]


@dataclass(frozen=True)
class LogprobSettings:
    """How log-probs are taken, the same for old, policy and reference: the sampler's temperature and bans.

    attention, padded: by what packed rows attend, and whether they are padded to the longest, see `pack`.
    """

    processor: Any
    temperature: float
    banned_ids: tuple[int, ...]
    chunk: int
    micro_batch_tokens: int
    attention: Attention = "auto"
    padded: bool = True

    def plan(self, rows: Sequence[Row]) -> list[list[Row]]:
        """The rows of each micro-batch."""
        return plan_micro_batches(rows, self.micro_batch_tokens, padded=self.padded)

    def pack(self, rows: Sequence[Row]) -> MicroBatch:
        return pack(rows, self.processor, padded=self.padded, attention=self.attention)

    def run(self, model: Any, micro: MicroBatch, *, requests: Sequence[str] = ()) -> LogprobResult:
        """`model` is a LogprobModule, or the DeepSpeed engine around one. In `extra` is all that was requested."""
        result = model(
            micro,
            self.processor,
            temperature=self.temperature,
            banned_ids=self.banned_ids,
            chunk=self.chunk,
            want_entropy="entropy" in requests,
            requests=requests,
        )
        entropy = {} if result.entropy_L is None else {"entropy": result.entropy_L}
        return result._replace(extra={**result.extra, **entropy})


def scatter(values_L: torch.Tensor, micro: MicroBatch, *, num_tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Loss-token values of a micro-batch as an (N', C) grid, with the N' sequence indices it covers.

    Cells without a token are 0. Differentiable in the values.
    """
    sequences, local_L = micro.sequence_L.unique(return_inverse=True)
    grid = values_L.new_zeros(len(sequences), num_tokens, *values_L.shape[1:])
    return grid.index_put((local_L, micro.token_L), values_L), sequences


def optimizer_step(
    engine: Any,
    rows: Sequence[Row],
    loss_function: LossFunction,
    *,
    settings: LogprobSettings,
    num_tokens: int,
    requests: Sequence[str] = (),
) -> dict[str, float]:
    """Forward and backward over all micro-batches of `rows`, then one step. Returns summed statistics.

    DeepSpeed averages gradients over ranks while the loss is already a share of the global sum, hence the factor
    world size. Only the last micro-batch is an accumulation boundary. Ranks may have different numbers of rows, none
    included; the statistics are summed over all of them.
    """
    totals: dict[str, float] = {}
    rows = _readable(engine, rows)
    for micro, is_last in micro_batches(rows, settings, completes=bool(engine.zero_offload_optimizer())):
        engine.set_gradient_accumulation_boundary(is_last)
        result = settings.run(engine, micro, requests=requests)
        logprobs_L, extra_L = result.logprobs_L.cpu(), {name: column.cpu() for name, column in result.extra.items()}
        if len(logprobs_L):
            policy_NC, sequences = scatter(logprobs_L, micro, num_tokens=num_tokens)
            extra = {name: scatter(column, micro, num_tokens=num_tokens)[0] for name, column in extra_L.items()}
            loss, stats = loss_function(policy_NC, sequences, extra)
        else:
            loss, stats = 0.0 * sum((column.sum() for column in extra_L.values()), logprobs_L.sum()), {}
        engine.backward(loss * distributed.world_size())
        for key, value in {"loss/total": float(loss.detach()), **stats}.items():
            totals[key] = totals.get(key, 0.0) + value
    padding = _padding(rows, settings)
    return {**sums_over_ranks(totals), **padding, "grad_norm": apply_step(engine)}


def _padding(rows: Sequence[Row], settings: LogprobSettings) -> dict[str, float]:
    """`rows/padding_saved`: share of the tokens of padded rows that are padding and were left out, over all ranks.

    Rows of 100 and 60 tokens in one micro-batch: 160 of 200 tokens go through the model, 0.2 are saved.
    """
    if settings.padded:
        return {"rows/padding_saved": 0.0}
    batches = plan_micro_batches(rows, settings.micro_batch_tokens)
    padded = sum(len(batch) * batch[0].num_tokens for batch in batches)
    tokens, padded = distributed.sum_over_ranks([float(sum(row.num_tokens for row in rows)), float(padded)])
    return {"rows/padding_saved": 1.0 - tokens / padded if padded else 0.0}


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
    groups = settings.plan(rows)
    plans = distributed.gather_objects(
        [sorted(_tower_kinds(m for row in group for m in row.media)) for group in groups]
    )
    count = max(map(len, plans))
    for index in range(count):
        micro = settings.pack(groups[index] if index < len(groups) else [_EMPTY_ROW])
        first = 0 if completes and index == count - 1 else index
        kinds: set[MediaKind] = {kind for plan in plans for part in plan[first : index + 1] for kind in part}
        idle = [idle_medium(kind, settings.processor) for kind in sorted(kinds - _tower_kinds(micro.media))]
        yield replace(micro, media=(*micro.media, *idle)), index == count - 1


def _readable(model: Any, rows: Sequence[Row]) -> Sequence[Row]:
    """The rows with pixels in the place of features, for a model whose vision modules are not those of the policy."""
    if not getattr(model, "reads_pixels", False):
        return rows
    return [replace(row, media=tuple(map(with_pixels, row.media))) for row in rows]


def _tower_kinds(media: Iterable[MediaEntry]) -> set[MediaKind]:
    """The kinds of media for which the vision tower runs: those that come as pixels."""
    return {medium.kind for medium in media if medium.features is None}


_EMPTY_ROW = Row((Segment(torch.zeros(1, dtype=torch.long), torch.zeros(3, 1, dtype=torch.long)),), media=())


@torch.no_grad()
def logprob_pass(
    model: Any,
    rows: Sequence[Row],
    *,
    settings: LogprobSettings,
    shape: tuple[int, int],
    requests: Sequence[str] = (),
) -> tuple[torch.Tensor, Grids]:
    """Log-probs (N, C) of all sequences without gradient, and what is requested beside them; 0 off the tokens."""
    logprobs_NC = torch.zeros(shape)
    extra: Grids = {}
    for micro, _ in micro_batches(_readable(model, rows), settings):
        result = settings.run(model, micro, requests=requests)
        place = (micro.sequence_L.cpu(), micro.token_L.cpu())
        logprobs_NC[place] = result.logprobs_L.float().cpu()
        for name, column in result.extra.items():
            grid = extra.setdefault(name, torch.zeros(*shape, *column.shape[1:]))
            grid[place] = column.float().cpu()
    return logprobs_NC, extra
