"""ConfClip: the outcome times the policy's own confidence, clipped, so that confident errors cost most.

    R = (2 c - 1) * clip(exp(mean log-prob of the completion), low, high)   c = 1 where R_o >= 0.5, else 0

The published abstract describes the product and the clip; this form and low 0.2, high 0.8 are derived from it. With
low = high = 1 the reward is +1 or -1.

Correct, confidence 0.99: 0.8; correct, 0.5: 0.5; wrong, 0.9: -0.8; wrong, 0.05: -0.2.

No neutral options: low = high = 1 is GRPO on rewards of +1 and -1, not on R_o.

Shape letters: N completions, C completion tokens.
"""

import torch

from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.errors import ConfigError

NEEDS_EARLY = ("old",)
NEUTRAL = None
CONSTANT_GROUP = "the confidences of its answers spread the rewards"


class Plugin:
    """low, high: bounds of the confidence. An unscored row stays unscored."""

    def __init__(self, *, low: float = 0.2, high: float = 0.8) -> None:
        if not 0 <= low <= high:
            raise ConfigError(f"conf_clip: low ({low:g}) must be between 0 and high ({high:g})")
        self._low, self._high = low, high

    def shape_rewards(self, batch: RolloutBatch, rewards_N: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        assert batch.old_NC is not None, "NEEDS_EARLY contains old"
        total_N = torch.where(batch.mask_NC, batch.old_NC.detach().double(), 0.0).sum(1)
        confidence_N = (total_N / batch.length_N.clamp(min=1)).exp().clamp(self._low, self._high)
        sign_N = torch.where(rewards_N >= 0.5, 1.0, -1.0)
        return torch.where(rewards_N.isnan(), rewards_N, sign_N * confidence_N), None
