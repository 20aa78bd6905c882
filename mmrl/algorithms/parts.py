"""What shaping plug-ins share: columns of the batch by the name of a reward part, and repetition of tokens.

Shape letters: N completions, C completion tokens, K reward parts.
"""

from __future__ import annotations

import torch

from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.errors import ConfigError, did_you_mean


def part(batch: RolloutBatch, name: str, *, option: str) -> torch.Tensor:
    """(N,) float64: a reward part by its name; NaN where it is unscored or not of the row's task.

    Raises ConfigError, naming the plug-in's option, where no task has such a part.
    """
    if name not in batch.reward_names:
        known = ", ".join(batch.reward_names)
        hint = did_you_mean(name, batch.reward_names)
        raise ConfigError(
            f"{option} is {name!r}, which no task has as a reward part; there are: {known}{hint}. A part of weight 0 is"
            " measured without being part of the sum"
        )
    return batch.rewards_NK[:, batch.reward_names.index(name)].double()


def group_mean(values_N: torch.Tensor, mask_N: torch.Tensor, gid_N: torch.Tensor) -> torch.Tensor:
    """Mean over the masked rows of each row's group, per row; NaN where the group has none."""
    group_N = gid_N.unique(return_inverse=True)[1]
    zeros_P = values_N.new_zeros(int(group_N.max()) + 1 if len(group_N) else 0, dtype=torch.float64)
    total_P = zeros_P.index_add(0, group_N, torch.where(mask_N, values_N.double(), 0.0))
    count_P = zeros_P.index_add(0, group_N, mask_N.double())
    return (total_P / count_P)[group_N]


def ngrams(batch: RolloutBatch, size: int) -> list[list[tuple[int, ...]]]:
    """Per completion its runs of `size` token ids, in order; none where it is shorter."""
    rows = [ids[mask].tolist() for ids, mask in zip(batch.ids_NC, batch.mask_NC, strict=True)]
    return [[tuple(row[i : i + size]) for i in range(len(row) - size + 1)] for row in rows]
