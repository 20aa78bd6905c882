"""The success rate of a prompt as a Beta distribution that forgets as the policy moves (SPO).

    v = a / (a + b);  after a reward r:  a <- rho a + r,  b <- rho b + (1 - r)
    rho = clip(2 ** (-drift / half), 0.875, 0.96)
    at first: v from n rewards (sum r + 0.5) / (n + 1), a + b = 1 / (1 - 0.875) = 8

a = b = 4, r = 1, drift 0.06, half 0.06: (4.5, 3.5), v = 0.5625. The sum a + b tends to 1 / (1 - rho), 8 to 25 visits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from mmrl.algorithms.rollout_batch import RolloutBatch

RHO_LOW, RHO_HIGH = 0.875, 0.96
FIRST_COUNT = 1 / (1 - RHO_LOW)


class BetaTracker:
    """a, b and the policy's drift up to the last visit, by prompt id. half: the drift in which a count halves."""

    def __init__(self, *, half: float) -> None:
        self._half = half
        self._entries: dict[str, tuple[float, float, float]] = {}

    def value(self, name: str) -> float:
        """v before this visit; 0.5 for a prompt that was never seen."""
        a, b, _ = self._entries.get(name, (FIRST_COUNT / 2, FIRST_COUNT / 2, 0.0))
        return a / (a + b)

    def update(self, name: str, rewards: Sequence[float], *, total: float, drift: float | None = None) -> None:
        """Take in a visit's rewards, of 0 to 1.

        total: drift of the policy since the start. drift: what counts as the drift since the last visit; None: the
        growth of `total`.
        """
        if name not in self._entries:
            v = (sum(rewards) + 0.5) / (len(rewards) + 1)
            self._entries[name] = (FIRST_COUNT * v, FIRST_COUNT * (1 - v), total)
            return
        a, b, last = self._entries[name]
        rho = self.forgetting(total - last if drift is None else drift)
        r = sum(rewards) / len(rewards)
        self._entries[name] = (rho * a + r, rho * b + 1 - r, total)

    def forgetting(self, drift: float) -> float:
        """rho for a drift: 0.06 with half 0.06 gives 0.5, so 0.875; 0.003 gives 0.9659, so 0.96."""
        return min(max(2.0 ** (-max(drift, 0.0) / self._half), RHO_LOW), RHO_HIGH)

    def update_all(
        self, batch: RolloutBatch, rewards_N: torch.Tensor, *, total: float, drift: float | None = None
    ) -> None:
        """`update` for every group of a batch; rewards are clamped to 0 to 1, unscored ones left out."""
        rewards: dict[tuple[int, str], list[float]] = {}
        for gid, name, reward in zip(batch.gid_N.tolist(), batch.prompt_id, rewards_N.tolist(), strict=True):
            if not math.isnan(reward):
                rewards.setdefault((gid, name), []).append(min(max(reward, 0.0), 1.0))
        for (_, name), values in rewards.items():
            self.update(name, values, total=total, drift=drift)

    def state_dict(self) -> dict[str, Any]:
        return {name: list(entry) for name, entry in self._entries.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._entries = {name: (a, b, total) for name, (a, b, total) in state.items()}
