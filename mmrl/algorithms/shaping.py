"""Rewards of whole completions: the weighted sum of parts, and DAPO's soft penalty for long ones.

Shape letters: N completions, K reward parts.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch


@dataclass(frozen=True, slots=True, eq=False)
class Shaped:
    """What is trained on in place of the rewards of the router.

    rewards_N: float64, NaN = unscored. token_rewards_NC: where a hook makes some. changes: what each step of shaping
    added to every row, in their order: `overlong_buffer`, then the plug-ins by name; NaN where the row was unscored
    before or after it. Their sum is rewards_N minus the reward before shaping. Empty: nothing shapes.
    """

    rewards_N: torch.Tensor
    token_rewards_NC: torch.Tensor | None = None
    changes: dict[str, torch.Tensor] = field(default_factory=dict)


def weighted_sum(rewards_NK: torch.Tensor, weights_NK: torch.Tensor) -> torch.Tensor:
    """sum_k w_k r_k, float64. NaN when a part with weight is NaN; a part of weight 0 takes no part, NaN or not."""
    weights_NK = weights_NK.double()
    return torch.where(weights_NK == 0, 0.0, rewards_NK.double() * weights_NK).sum(1)


def overlong_penalty(length_N: torch.Tensor, *, max_length: int, buffer: int, factor: float) -> torch.Tensor:
    """min(-(length - (max_length - buffer)) / buffer * factor, 0): 0 before the buffer, -factor at its end (DAPO 2025).

    max_length 20480, buffer 4096: 16384 tokens cost 0, 18432 cost 0.5, 20480 cost 1.
    """
    excess_N = length_N.double() - (max_length - buffer)
    return (-excess_N / buffer * factor).clamp(max=0.0)
