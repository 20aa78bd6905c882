"""What shaping plug-ins share: columns of the batch by the name of a reward part, and repetition of tokens.

Shape letters: N completions, C completion tokens, K reward parts.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import replace

import torch

from mmrl.algorithms.advantages import group_stats, on_tokens
from mmrl.algorithms.rollout_batch import RolloutBatch, concatenate
from mmrl.algorithms.shaping import weighted_sum
from mmrl.errors import ConfigError, did_you_mean
from mmrl.training.distributed import sum_over_ranks


def part(batch: RolloutBatch, name: str, *, option: str) -> torch.Tensor:
    """(N,) float64: a reward part by its name, or a number that one returns beside its value (`part.key`).

    NaN where it is unscored, or neither the row's task nor its reward has it. Raises ConfigError, naming the plug-in's
    option, where no row of the batch has it.
    """
    if name in batch.meta and batch.meta[name].dim() == 1:
        return batch.meta[name].double()
    if name not in batch.reward_names:
        raise _unknown(batch, name, option)
    return batch.rewards_NK[:, batch.reward_names.index(name)].double()


def steps(batch: RolloutBatch, name: str, *, option: str) -> torch.Tensor:
    """(N, S) float64: a list of numbers that a reward returns (`part.key`), NaN behind its last one.

    A part, or a number, of that name counts as a list of one. Raises as `part` does.
    """
    if name in batch.meta and batch.meta[name].dim() == 2:
        return batch.meta[name].double()
    return part(batch, name, option=option)[:, None]


def on_tokens_of(batch: RolloutBatch, name: str, *, option: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Spans that a reward returns (`part.key`): per token the value, NaN off the spans, and the span's number.

    Both (N, C), the second int64 and -1 off the spans. A part, or a number, of that name counts as one span over the
    whole completion. Raises as `part` does.
    """
    if f"{name}.span" in batch.meta:
        values_NC, span_NC = batch.meta[name].double(), batch.meta[f"{name}.span"].nan_to_num(nan=-1.0).long()
    else:
        values_NC = part(batch, name, option=option)[:, None].expand(batch.mask_NC.shape)
        span_NC = torch.where(values_NC.isnan(), -1, 0)
    return torch.where(batch.mask_NC, values_NC, torch.nan), torch.where(batch.mask_NC, span_NC, -1)


def _unknown(batch: RolloutBatch, name: str, option: str) -> ConfigError:
    known = ", ".join([*batch.reward_names, *(key for key in batch.meta if not key.endswith(".span"))])
    hint = did_you_mean(name, [*batch.reward_names, *batch.meta])
    return ConfigError(
        f"{option} is {name!r}, which no task has as a reward part; there are: {known}{hint}. A part of weight 0 is"
        " measured without being part of the sum"
    )


def outcome(batch: RolloutBatch) -> torch.Tensor:
    """(N,) the reward before any shaping, as the router combined the parts; for hooks that are not handed it."""
    return weighted_sum(batch.rewards_NK, batch.weights_NK) if batch.combined_N is None else batch.combined_N


def joined(batch: RolloutBatch, more: RolloutBatch) -> RolloutBatch:
    """The batch with more rows of its own groups."""
    return replace(concatenate([batch, more]), gid_N=torch.cat([batch.gid_N, more.gid_N]))


def group_mean(values_N: torch.Tensor, mask_N: torch.Tensor, gid_N: torch.Tensor) -> torch.Tensor:
    """Mean over the masked rows of each row's group, per row; NaN where the group has none."""
    group_N = gid_N.unique(return_inverse=True)[1]
    zeros_P = values_N.new_zeros(int(group_N.max()) + 1 if len(group_N) else 0, dtype=torch.float64)
    total_P = zeros_P.index_add(0, group_N, torch.where(mask_N, values_N.double(), 0.0))
    count_P = zeros_P.index_add(0, group_N, mask_N.double())
    return (total_P / count_P)[group_N]


def batch_normalised(values_N: torch.Tensor) -> torch.Tensor:
    """(values - mean) / (sample std + 1e-6) over the scored rows of all processes; NaN stays. Called by all of them.

    [0.5, -0.5, 0.2, -0.3] gives [1.1479, -1.0386, 0.4920, -0.6013]; one row alone, or equal ones, give 0.
    """
    scored_N = values_N[~values_N.isnan()].double()
    count, total = sum_over_ranks([float(len(scored_N)), scored_N.sum().item()])
    mean = total / max(count, 1.0)
    [squares] = sum_over_ranks([((scored_N - mean) ** 2).sum().item()])
    return (values_N.double() - mean) / ((squares / max(count - 1, 1.0)) ** 0.5 + 1e-6)


def on_each_token(values_N: torch.Tensor, batch: RolloutBatch) -> torch.Tensor:
    """`on_tokens` for estimators in which a group of equal rewards has advantages too."""
    stats = group_stats(values_N, batch.gid_N)
    return on_tokens(values_N, replace(stats, constant_N=torch.zeros_like(stats.constant_N)), batch)


def mean_over_tokens(values_NC: torch.Tensor, mask_NC: torch.Tensor) -> torch.Tensor:
    """(N,) float64: mean over each completion's tokens; 0 for an empty one."""
    return torch.where(mask_NC, values_NC.detach().double(), 0.0).sum(1) / mask_NC.sum(1).clamp(min=1)


def drawn_order(batch: RolloutBatch) -> list[int]:
    """All rows in an order that chance alone decided, and that is the same however the rows are arranged.

    By a checksum of what was sampled: where a method takes "any" of a group's completions, it takes them in this order.
    """
    keys = []
    for ids, logprobs, mask in zip(batch.ids_NC, batch.rollout_NC.detach(), batch.mask_NC, strict=True):
        sampled = ids[mask].numpy().tobytes() + logprobs[mask].float().numpy().tobytes()
        keys.append((zlib.crc32(sampled), sampled))
    return sorted(range(len(batch)), key=keys.__getitem__)


def rows_of_groups(batch: RolloutBatch, order: Iterable[int] | None = None) -> dict[int, list[int]]:
    """The rows of each group by its gid, gids rising. order: of the rows within a group; None: as they stand."""
    gids = batch.gid_N.tolist()
    groups: dict[int, list[int]] = {gid: [] for gid in sorted(set(gids))}
    for row in range(len(gids)) if order is None else order:
        groups[gids[row]].append(row)
    return groups


def ngrams(batch: RolloutBatch, size: int) -> list[list[tuple[int, ...]]]:
    """Per completion its runs of `size` token ids, in order; none where it is shorter."""
    rows = [ids[mask].tolist() for ids, mask in zip(batch.ids_NC, batch.mask_NC, strict=True)]
    return [[tuple(row[i : i + size]) for i in range(len(row) - size + 1)] for row in rows]
