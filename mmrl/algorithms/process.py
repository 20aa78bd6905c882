"""Values of the steps of completions, for methods that judge a step beside the outcome.

Shape letters: N completions, C completion tokens, S steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from mmrl.algorithms.advantages import group_stats, grpo
from mmrl.algorithms.parts import on_tokens_of
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.schema import AlgorithmSection


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """values_NS: float64, one a step, NaN where a completion has no such step. step_NC: each token's step, or -1."""

    values_NS: torch.Tensor
    step_NC: torch.Tensor

    def on_tokens(self, values_NS: torch.Tensor) -> torch.Tensor:
        """(N, C): a value of each step on its tokens, 0 on tokens of no step and where it is NaN."""
        if not values_NS.shape[1]:
            return torch.zeros(self.step_NC.shape, dtype=torch.float64)
        found_NC = values_NS.nan_to_num(nan=0.0).gather(1, self.step_NC.clamp(min=0))
        return torch.where(self.step_NC >= 0, found_NC, 0.0)


def steps_of(batch: RolloutBatch, name: str, *, option: str) -> Steps:
    """The steps that a column of spans marks, in their order; a part stands for one step, the whole completion."""
    values_NC, step_NC = on_tokens_of(batch, name, option=option)
    count = int(step_NC.max()) + 1 if step_NC.numel() else 0
    columns = [torch.where(step_NC == step, values_NC, -torch.inf).amax(1) for step in range(count)]
    values_NS = torch.stack(columns, 1) if columns else torch.zeros(len(batch), 0, dtype=torch.float64)
    return Steps(torch.where(values_NS.isinf(), torch.nan, values_NS), step_NC)


def centred_in_group(values_NS: torch.Tensor, gid_N: torch.Tensor) -> torch.Tensor:
    """Values less the mean over all steps of all completions of the group."""
    stats = group_stats(values_NS.flatten(), gid_N[:, None].expand(values_NS.shape).flatten())
    mean_NS, constant_NS = stats.mean_N.reshape(values_NS.shape), stats.constant_N.reshape(values_NS.shape)
    return torch.where(constant_NS & ~values_NS.isnan(), 0.0, values_NS - mean_NS)


def standardised_by_step(values_NS: torch.Tensor, gid_N: torch.Tensor, *, eps: float) -> torch.Tensor:
    """(value - mean) / (std + eps) among the group's values of the same step; 0 where they are all equal."""
    columns = []
    for values_N in values_NS.unbind(1):
        stats = group_stats(values_N, gid_N)
        scaled_N = (values_N - stats.mean_N) / (stats.std_N + eps)
        columns.append(torch.where(stats.constant_N & ~values_N.isnan(), 0.0, scaled_N))
    return torch.stack(columns, 1) if columns else values_NS


def with_outcome(
    rewards_N: torch.Tensor,
    batch: RolloutBatch,
    settings: AlgorithmSection,
    steps: Steps,
    values_NS: torch.Tensor,
    *,
    coef: float,
    outcome: float = 1.0,
) -> torch.Tensor:
    """outcome * GRPO + coef * the step's value, on the tokens of completions that have a reward."""
    of_steps_NC = torch.where(rewards_N.isnan()[:, None], 0.0, coef * steps.on_tokens(values_NS))
    return (outcome * grpo(rewards_N, batch, settings) + of_steps_NC).float().detach()
