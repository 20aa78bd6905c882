"""OPO: the baseline is the length-weighted mean reward of the group, sum(L r) / sum(L); no division by the std.

r = [1, 0, 1, 0] with lengths [10, 30, 20, 40] has baseline 0.3; with equal lengths it is the plain mean.

No neutral options: without the division by the std it is never GRPO; with equal lengths it is `dr_grpo`.

Shape letters: N completions, C completion tokens.
"""

import torch

from mmrl.algorithms.advantages import group_stats, on_tokens
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.schema import AlgorithmSection

NEUTRAL = None


def advantage(rewards_N: torch.Tensor, batch: RolloutBatch, settings: AlgorithmSection) -> torch.Tensor:
    length_N = torch.where(rewards_N.isnan(), 0.0, batch.length_N.double())
    weighted_N = group_stats(rewards_N.double() * length_N, batch.gid_N).mean_N
    mean_length_N = group_stats(torch.where(rewards_N.isnan(), torch.nan, length_N), batch.gid_N).mean_N
    stats = group_stats(rewards_N, batch.gid_N)
    # A group of empty completions only has no lengths to weigh by.
    baseline_N = torch.where(mean_length_N > 0, weighted_N / mean_length_N.clamp(min=1e-12), stats.mean_N)
    return on_tokens(rewards_N - baseline_N, stats, batch)
