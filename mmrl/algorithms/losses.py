"""Policy losses: token grids of loss to be minimised, never aggregated here.

A loss returns (loss_NC, stats), where stats are token grids whose mean over loss tokens is logged; being grids they
add up over micro-batches like the loss.

Shape letters: N completions, C completion tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.schema import AlgorithmSection

MAX_LOG_RATIO = 20.0

TokenStats = dict[str, torch.Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class LossInput:
    """What a loss or regulariser may read; only policy_NC carries gradient.

    policy_NC, old_NC: log-probs of the completion tokens now and before the update. advantage_NC: 0 off the mask.
    mask_NC: bool, loss tokens. batch: the same rows, for columns of its own (ref_NC, entropy_NC, meta).
    """

    policy_NC: torch.Tensor
    old_NC: torch.Tensor
    advantage_NC: torch.Tensor
    mask_NC: torch.Tensor
    batch: RolloutBatch
    settings: AlgorithmSection

    @property
    def log_ratio_NC(self) -> torch.Tensor:
        """policy - old, clamped to ±20 so that its exponential stays finite."""
        return (self.policy_NC - self.old_NC).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)


def ppo_clip(inputs: LossInput) -> tuple[torch.Tensor, TokenStats]:
    """max(-A ratio, -A clip(ratio, 1 - clip_low, 1 + clip_high)); for A < 0 at most -A dual_clip.

    PPO (Schulman 2017) with DAPO's separate upper bound (2025) and dual clip (Ye 2020). A = -1, ratio = 5 costs 5, with
    dual_clip = 3 it costs 3 and has no gradient. dual_clip None switches the bound off.
    """
    settings, advantage_NC = inputs.settings, inputs.advantage_NC
    low, high = 1 - settings.clip_low, 1 + settings.clip_high
    ratio_NC = inputs.log_ratio_NC.exp()
    loss_NC = torch.maximum(-advantage_NC * ratio_NC, -advantage_NC * ratio_NC.clamp(low, high))
    is_negative_NC = advantage_NC < 0
    stats = {
        "clipfrac_low": is_negative_NC & (ratio_NC < low),
        "clipfrac_high": (advantage_NC > 0) & (ratio_NC > high),
    }
    if settings.dual_clip is not None:
        bounded_NC = torch.minimum(loss_NC, -advantage_NC * settings.dual_clip)
        loss_NC = torch.where(is_negative_NC, bounded_NC, loss_NC)
        stats["clipfrac_dual"] = is_negative_NC & (ratio_NC > settings.dual_clip)
    return loss_NC, stats
