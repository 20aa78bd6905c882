"""RolloutBatches with chosen rewards and lengths."""

from collections.abc import Sequence
from dataclasses import fields, replace

import torch

from mmrl.algorithms.rollout_batch import RolloutBatch


def make_batch(
    lengths: Sequence[int], *, gid: Sequence[int] | None = None, rewards: Sequence[float] | None = None, **columns
) -> RolloutBatch:
    """One group, unless gid says otherwise, of completions with these lengths; every log-prob is -1."""
    size, width = len(lengths), max(lengths)
    gid_N = torch.tensor(gid if gid is not None else [0] * size)
    mask_NC = torch.arange(width) < torch.tensor(lengths)[:, None]
    batch = RolloutBatch(
        prompt_id=tuple(f"s{g}" for g in gid_N.tolist()),
        gid_N=gid_N,
        ids_NC=torch.arange(size * width).reshape(size, width) * mask_NC,
        mask_NC=mask_NC,
        rollout_NC=-1.0 * mask_NC,
        rewards_NK=torch.tensor(rewards if rewards is not None else [0.0] * size)[:, None],
        reward_names=("r",),
        weights_NK=torch.ones(1),
        truncated_N=torch.zeros(size, dtype=torch.bool),
        old_NC=-1.0 * mask_NC,
        ref_NC=-1.0 * mask_NC,
    )
    return replace(batch, **columns)


def widened(batch: RolloutBatch, extra: int) -> RolloutBatch:
    """The batch with `extra` more padding columns."""
    grids = {item.name: getattr(batch, item.name) for item in fields(batch) if item.name.endswith("_NC")}
    padded = {name: torch.nn.functional.pad(grid, (0, extra)) for name, grid in grids.items() if grid is not None}
    meta = {
        name: torch.nn.functional.pad(column, (*[0, 0] * (column.dim() - 2), 0, extra))
        for name, column in batch.meta.items()
        if column.dim() > 1
    }
    return replace(batch, **padded, meta={**batch.meta, **meta})
