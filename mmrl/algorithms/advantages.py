"""Advantage estimators. Each maps rewards (N,) and a batch to a token grid (N, C) that is 0 off the mask.

Common to all: an unscored row (NaN) stays out of its group's statistics and gets 0; a group whose scored rewards are
all equal, a single one included, gets exactly 0, not rounding noise divided by epsilon.

Shape letters: N completions, C completion tokens.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch

from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.schema import AlgorithmSection
from mmrl.errors import PluginError
from mmrl.training.distributed import sum_over_ranks


@dataclass(frozen=True, slots=True, eq=False)
class GroupStats:
    """Statistics of each row's group over its scored rows, repeated per row. std_N is the sample one (ddof 1).

    constant_N: the scored rewards of the group are all equal (or there is none).
    """

    mean_N: torch.Tensor
    std_N: torch.Tensor
    count_N: torch.Tensor
    constant_N: torch.Tensor


def group_stats(rewards_N: torch.Tensor, gid_N: torch.Tensor) -> GroupStats:
    """Group statistics in float64; NaN rewards are left out.

    >>> stats = group_stats(torch.tensor([1.0, 0.0, 0.0, 1.0]), torch.zeros(4, dtype=torch.int64))
    >>> round(stats.std_N[0].item(), 4)
    0.5774
    """
    values_N, scored_N = rewards_N.double(), ~rewards_N.isnan()
    group_N = gid_N.unique(return_inverse=True)[1]
    empty_P = values_N.new_zeros(int(group_N.max()) + 1 if len(group_N) else 0)

    def over_group(values_N: torch.Tensor, reduce: str, identity: float) -> torch.Tensor:
        filled_N = torch.where(scored_N, values_N, identity)
        return (empty_P + identity).scatter_reduce(0, group_N, filled_N, reduce)[group_N]

    count_N = over_group(torch.ones_like(values_N), "sum", 0.0)
    mean_N = over_group(values_N, "sum", 0.0) / count_N.clamp(min=1)
    squares_N = over_group((values_N - mean_N) ** 2, "sum", 0.0)
    low_N, high_N = over_group(values_N, "amin", torch.inf), over_group(values_N, "amax", -torch.inf)
    return GroupStats(mean_N, (squares_N / (count_N - 1).clamp(min=1)).sqrt(), count_N, high_N <= low_N)


def grpo(
    rewards_N: torch.Tensor,
    batch: RolloutBatch,
    settings: AlgorithmSection,
    *,
    scale: Literal["group", "batch", "none"] = "group",
) -> torch.Tensor:
    """A = (r - mean) / (std + eps) within the group, the same on every token (GRPO, DeepSeekMath 2024).

    r = [1, 0, 0, 1] gives ±0.8660: the std is the sample std (0.5774), not the population std that would give ±1.
    scale: what std divides, as TRL's scale_rewards: that of the group, that of all rewards of the step (groups
    [1, 0, 0, 1] and [1, 1, 1, 0] give ±0.9659 and 0.4830, -1.4489), or none, which is dr_grpo.
    """
    stats = group_stats(rewards_N, batch.gid_N)
    centred_N = rewards_N - stats.mean_N
    if scale == "none":
        return on_tokens(centred_N, stats, batch)
    std = stats.std_N if scale == "group" else std_over_ranks(rewards_N)
    return on_tokens(centred_N / (std + settings.std_eps), stats, batch)


def dr_grpo(rewards_N: torch.Tensor, batch: RolloutBatch, settings: AlgorithmSection) -> torch.Tensor:
    """A = r - mean within the group (Dr.GRPO 2025). r = [1, 0, 0, 0] gives [0.75, -0.25, -0.25, -0.25].

    The method's other half is the aggregation `seq-mean-token-sum-norm`.
    """
    stats = group_stats(rewards_N, batch.gid_N)
    return on_tokens(rewards_N - stats.mean_N, stats, batch)


def rloo(rewards_N: torch.Tensor, batch: RolloutBatch, settings: AlgorithmSection) -> torch.Tensor:
    """A = r - mean of the others = G / (G - 1) (r - mean), G the scored rows of the group (RLOO, Ahmadian 2024).

    r = [1, 0, 0, 1] gives ±0.6667.
    """
    stats = group_stats(rewards_N, batch.gid_N)
    others_N = (stats.count_N - 1).clamp(min=1)
    return on_tokens((rewards_N - stats.mean_N) * stats.count_N / others_N, stats, batch)


def pass_at_k(
    rewards_N: torch.Tensor, batch: RolloutBatch, settings: AlgorithmSection, *, scale: bool = True
) -> torch.Tensor:
    """The group's best has its lead over the second best, divided by the std; the others have 0 (Pass@k, 2025).

    r = [1, 0.4, 0.2, 0] gives [1.3887, 0, 0, 0], without scale 0.6; two equal bests give 0. Source: verl@b178a3cd5
    (grpo_passk), read in code.
    """
    stats, values_N = group_stats(rewards_N, batch.gid_N), torch.full_like(rewards_N.double(), torch.nan)
    for group in batch.gid_N.unique().tolist():
        rows = ((batch.gid_N == group) & ~rewards_N.isnan()).nonzero().flatten()
        values_N[rows] = 0.0
        if len(rows) > 1:
            best, second = rewards_N[rows].double().topk(2).values
            values_N[rows[rewards_N[rows].argmax()]] = best - second
    return on_tokens(values_N / (stats.std_N + settings.std_eps) if scale else values_N, stats, batch)


def gpg(rewards_N: torch.Tensor, batch: RolloutBatch, settings: AlgorithmSection) -> torch.Tensor:
    """A = alpha (r - mean), alpha the completions of the step for each one whose reward is not 0 (GPG 2025).

    Of 8 rewards 3 are not 0: alpha = 8 / 3, and r = [1, 0] gives ±1.3333. Source: verl@b178a3cd5, read in code.
    """
    scored_N = ~rewards_N.isnan()
    count, given = sum_over_ranks([scored_N.sum().item(), ((rewards_N != 0) & scored_N).sum().item()])
    stats = group_stats(rewards_N, batch.gid_N)
    return on_tokens((rewards_N - stats.mean_N) * count / max(given, 1.0), stats, batch)


def std_over_ranks(values_N: torch.Tensor) -> float:
    """The sample standard deviation of the values of all processes, NaN left out; 0 for fewer than two."""
    known_N = values_N[~values_N.isnan()].double()
    count, total = sum_over_ranks([len(known_N), known_N.sum().item()])
    [squares] = sum_over_ranks([((known_N - total / max(count, 1)) ** 2).sum().item()])
    return math.sqrt(squares / (count - 1)) if count > 1 else 0.0


def on_tokens(values_N: torch.Tensor, stats: GroupStats, batch: RolloutBatch) -> torch.Tensor:
    """One value per completion as a float32 token grid; 0 for unscored rows, constant groups and padding.

    Raises PluginError when the batch has token rewards, which an estimator of whole completions would lose.
    """
    if batch.token_rewards_NC is not None:
        raise PluginError(
            "a hook made token rewards, but 'algorithm.advantage' uses one reward per completion; choose an advantage"
            " that reads batch.token_rewards_NC"
        )
    values_N = torch.where(stats.constant_N | values_N.isnan(), 0.0, values_N)
    return (values_N[:, None] * batch.mask_NC).float().detach()
