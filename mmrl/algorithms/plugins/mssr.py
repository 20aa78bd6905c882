"""MSSR: single rollouts of multimodal prompts, with SPO's tracker and advantages that grow with the token's entropy.

    A = (r - v), normalised over the batch, v the tracker's value before this visit (`spo`)
    A'_t = A + min(entropy_coef * H_t, |A| / kappa)

The bonus is never negative and, with kappa > 1, turns no sign: A = 0.8, H = 0.5 gives 1; A = -0.8, H = 3 gives -0.4;
A = 0 stays 0. The tracker's drift is the sum of a metric over the last `window` steps, the same for all prompts.

entropy_coef 0.4, kappa 2, window 20. Source: a fork of EasyR1, read in code; the measure of drift, derived. With
entropy_coef 0 it is MVSR, not GRPO: no neutral options.

Shape letters: N completions, C completion tokens.
"""

from collections import deque
from typing import Any

import torch

from mmrl.algorithms.beta_tracker import BetaTracker
from mmrl.algorithms.parts import batch_normalised, on_each_token
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.schema import AlgorithmSection
from mmrl.config.section import NonNegativeFloat, PositiveFloat, PositiveInt

NEUTRAL = None
CONSTANT_GROUP = "r - v of the tracker, normalised over the batch, and the entropy bonus on it"
NEEDS = ("entropy",)


class Plugin:
    """entropy_coef, kappa: size and bound of the bonus. half, drift: as in `spo`. window: steps."""

    def __init__(
        self,
        *,
        entropy_coef: NonNegativeFloat = 0.4,
        kappa: PositiveFloat = 2.0,
        half: PositiveFloat = 0.06,
        drift: str = "policy/old_kl",
        window: PositiveInt = 20,
    ) -> None:
        self._coef, self._kappa, self._metric = entropy_coef, kappa, drift
        self._tracker, self._window = BetaTracker(half=half), deque[float](maxlen=window)

    def advantage(self, rewards_N: torch.Tensor, batch: RolloutBatch, settings: AlgorithmSection) -> torch.Tensor:
        assert batch.entropy_NC is not None, "NEEDS contains entropy"
        value_N = torch.tensor([self._tracker.value(name) for name in batch.prompt_id], dtype=torch.float64)
        advantage_NC = on_each_token(batch_normalised(rewards_N - value_N), batch)
        return advantage_NC + torch.minimum(self._coef * batch.entropy_NC, advantage_NC.abs() / self._kappa)

    def on_step_end(self, batch: RolloutBatch, rewards_N: torch.Tensor, metrics: dict[str, float]) -> None:
        self._tracker.update_all(batch, rewards_N, total=0.0, drift=sum(self._window))
        self._window.append(abs(metrics.get(self._metric, 0.0)))

    def state_dict(self) -> dict[str, Any]:
        return {"tracker": self._tracker.state_dict(), "window": list(self._window)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._tracker.load_state_dict(state["tracker"])
        self._window = deque(state["window"], maxlen=self._window.maxlen)
