"""Corrections for a verifier that errs (2510.00915): rewards that are right in the mean although it is not.

    false_positive rho0: chance that a wrong answer is passed; false_negative rho1: that a right one is refused
    backward  R = (r - rho0) / (1 - rho0 - rho1)      unbiased: its mean is the true reward
    forward   R = r - (1 - rho1)                      w(1) = rho1, w(0) = rho1 - 1; its mean is
                                                      (1 - rho0 - rho1) (true - 1), so rho1 alone is needed

Both are affine, so they cancel where advantages are divided by the group's std (`grpo`), and forward also where its
mean is taken off: they act where rewards of several tasks meet, in `reinforce_pp`, `spo` or `dr_grpo` (backward).
`appeal` names a part of weight 0 in which a second judge looks at refused answers (1: right after all, NaN: not asked);
rho1 is then estimated, smoothed by `decay`: right after all / (those + passed), the share of the asked scaled up.

Source: the paper's text. rho 0 and 0 is plain in backward form. rho0 .1, rho1 .2: backward gives 1.2857 and -.1429,
whose means over the noise are 1 and 0; forward .2 and -.8.

Shape letters: N completions, C completion tokens.
"""

from typing import Any, Literal

import torch

from mmrl.algorithms.parts import outcome, part
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.section import Beta
from mmrl.errors import ConfigError
from mmrl.training.distributed import sum_over_ranks

NEUTRAL: dict[str, Any] = {"false_positive": 0.0, "false_negative": 0.0}


class Plugin:
    """form: as above. threshold: the least reward of an answer that was passed."""

    def __init__(
        self,
        *,
        false_positive: Beta = 0.1,
        false_negative: Beta = 0.2,
        form: Literal["backward", "forward"] = "backward",
        appeal: str | None = None,
        decay: Beta = 0.9,
        threshold: float = 0.5,
    ) -> None:
        if false_positive + false_negative >= 1:
            total = false_positive + false_negative
            raise ConfigError(f"noise_correction: false_positive + false_negative is {total:g}; it must be below 1")
        self._rho0, self._rho1, self._form = false_positive, false_negative, form
        self._appeal, self._decay, self._threshold = appeal, decay, threshold

    def shape_rewards(self, batch: RolloutBatch, rewards_N: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        if self._form == "forward":
            return rewards_N - (1 - self._rho1), None
        return (rewards_N - self._rho0) / (1 - self._rho0 - self._rho1), None

    def on_step_end(self, batch: RolloutBatch, rewards_N: torch.Tensor, metrics: dict[str, float]) -> None:
        if self._appeal is not None:
            self._estimate(part(batch, self._appeal, option="noise_correction's option 'appeal'"), batch)
        metrics["noise_correction/false_negative"] = self._rho1

    def _estimate(self, appeal_N: torch.Tensor, batch: RolloutBatch) -> None:
        verdict_N = outcome(batch)
        refused_N = verdict_N < self._threshold
        asked_N = refused_N & ~appeal_N.isnan()
        sums = [(verdict_N >= self._threshold), refused_N, asked_N, asked_N & (appeal_N >= 0.5)]
        passed, refused, asked, right = sum_over_ranks([float(flags.sum()) for flags in sums])
        if asked:
            right *= refused / asked
            found = right / max(right + passed, 1.0)
            highest = 0.99 - self._rho0  # the correction divides by what is left of 1
            self._rho1 = min(self._decay * self._rho1 + (1 - self._decay) * found, highest)

    def state_dict(self) -> dict[str, Any]:
        return {"false_negative": self._rho1}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._rho1 = state["false_negative"]
