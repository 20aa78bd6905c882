"""How often each row's completions were right of late, followed while a stage trains; the same on all processes.

A `draw` plug-in lets `observe` see every round before anything is filtered (from its hook `keep`) and takes the new
rates at the end of the step. 4 bytes a row.
"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import torch

from mmrl.algorithms.parts import outcome, rows_of_groups
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.data.pool import Pool
from mmrl.training.distributed import gather_objects


class PassRates:
    """rate_R: float32, NaN: never seen. After a visit with pass rate v: (1 - follow) * rate + follow * v, or v at
    first.

    threshold: the least reward, before shaping, of a right completion.
    """

    def __init__(self, rate_R: np.ndarray, *, follow: float, threshold: float) -> None:
        self.rate_R = rate_R.astype(np.float32)
        self._follow, self._threshold = follow, threshold
        self._seen: list[tuple[int, float]] = []

    def observe(self, batch: RolloutBatch, pool: Pool) -> None:
        """Remember how often each group of a round was right; unscored completions do not count."""
        value_N = outcome(batch).double()
        right_N = (value_N >= self._threshold).double()
        for rows in rows_of_groups(batch).values():
            place = torch.tensor(rows)
            known = place[~value_N[place].isnan()]
            row = pool.row_of(batch.prompt_id[rows[0]])
            if row is not None and len(known):
                self._seen.append((row, right_N[known].mean().item()))

    def take(self) -> list[int]:
        """Enter what all processes saw in the step. Returns the rows whose rate may have changed, in order."""
        seen = sorted(pair for part in gather_objects(self._seen) for pair in part)
        self._seen = []
        for row, rate in seen:
            before = float(self.rate_R[row])
            self.rate_R[row] = rate if np.isnan(before) else (1 - self._follow) * before + self._follow * rate
        return list(dict.fromkeys(row for row, _ in seen))

    def state_dict(self) -> dict[str, Any]:
        return {"rates": base64.b64encode(self.rate_R.tobytes()).decode()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.rate_R = np.frombuffer(base64.b64decode(state["rates"]), dtype=np.float32).copy()
