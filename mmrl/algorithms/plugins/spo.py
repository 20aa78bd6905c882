"""SPO: no groups. The baseline is a tracked success rate of the prompt, the batch gives the scale.

    A = (r - v), normalised over the whole batch; v is the tracker's value before this visit
    tracker: `mmrl.algorithms.beta_tracker`; rewards count from 0 to 1

Made for `rollout.group_size: 1`. The drift that makes the tracker forget is the sum, since the last visit, of a metric
of each step; `policy/old_kl` is how far the optimizer steps of one batch move the policy. With one update per batch it
is 0, and the tracker forgets at its slowest rate, 0.96. Rows count equally in the batch's mean and deviation.

half 0.06. Source: verl-project/verl-recipe@48ea0a7, read in code; which measure of drift, derived. No neutral options:
group statistics never enter.

v = 0.5, r = 1: A = 0.5 before normalising; r - v of [0.5, -0.5, 0.2, -0.3] gives [1.1479, -1.0386, 0.4920, -0.6013].

Shape letters: N completions, C completion tokens.
"""

from typing import Any

import torch

from mmrl.algorithms.beta_tracker import BetaTracker
from mmrl.algorithms.parts import batch_normalised, on_each_token
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.schema import AlgorithmSection
from mmrl.config.section import PositiveFloat

NEUTRAL = None
CONSTANT_GROUP = "r - v of the tracker, normalised over the batch"


class Plugin:
    """half: drift in which the tracker's count halves. drift: the metric of a step that measures it."""

    def __init__(self, *, half: PositiveFloat = 0.06, drift: str = "policy/old_kl") -> None:
        self._tracker, self._metric, self._total = BetaTracker(half=half), drift, 0.0

    def advantage(self, rewards_N: torch.Tensor, batch: RolloutBatch, settings: AlgorithmSection) -> torch.Tensor:
        value_N = torch.tensor([self._tracker.value(name) for name in batch.prompt_id], dtype=torch.float64)
        return on_each_token(batch_normalised(rewards_N - value_N), batch)

    def on_step_end(self, batch: RolloutBatch, rewards_N: torch.Tensor, metrics: dict[str, float]) -> None:
        self._tracker.update_all(batch, rewards_N, total=self._total)
        self._total += abs(metrics.get(self._metric, 0.0))

    def state_dict(self) -> dict[str, Any]:
        return {"tracker": self._tracker.state_dict(), "total": self._total}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._tracker.load_state_dict(state["tracker"])
        self._total = state["total"]
