"""The value head's targets and loss.

Shape letters: N completions, C completion tokens.
"""

from __future__ import annotations

import torch

from mmrl.algorithms.losses import LossInput, TokenStats


def value_loss(inputs: LossInput) -> tuple[torch.Tensor, TokenStats]:
    """Half the squared distance from the returns, the larger of the free and the clipped one (PPO).

    max((V - R)², (V_old + clip(V - V_old, ±clip) - R)²) / 2, R the column returns_NC. V_old 0, V 1, R 2, clip 0.2:
    max(1, 3.24) / 2 = 1.62. Source: verl@b178a3cd5, read in code.
    """
    value_NC, returns_NC = inputs.extra["value"], inputs.batch.meta["returns_NC"].to(inputs.extra["value"].dtype)
    error_NC = (value_NC - returns_NC) ** 2
    stats = {"value_error": error_NC.detach(), "value": value_NC.detach()}
    clip, old_NC = inputs.settings.value.clip, inputs.batch.value_NC
    if clip is not None:
        assert old_NC is not None, "needs contains value"
        old_NC = old_NC.detach()
        bounded_NC = old_NC + (value_NC - old_NC).clamp(-clip, clip)
        bounded_error_NC = (bounded_NC - returns_NC) ** 2
        stats["value_clipfrac"] = (bounded_error_NC > error_NC).detach()
        error_NC = torch.maximum(error_NC, bounded_error_NC)
    return error_NC / 2, stats
