"""Bands of a pool's rows by their pass rates, which follow training: what a `draw` plug-in holds of its pool.

Opened at the first draw, from rates that are known then; a saved state is put in at that moment. 13 bytes a row.

Shape letters: R rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mmrl.algorithms.bands import Bands
from mmrl.algorithms.pass_rates import PassRates
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.data.pool import Pool


class FollowedBands:
    """band_R: from rates (float64) to bands, NONE for rows in none. first_R: rates at first, NaN where unknown.

    threshold: the least reward, before shaping, of a right completion.
    """

    def __init__(
        self,
        *,
        count: int,
        band_R: Callable[[np.ndarray], np.ndarray],
        first_R: Callable[[Pool], np.ndarray],
        threshold: float,
    ) -> None:
        self._count, self._band_R, self._first_R, self._threshold = count, band_R, first_R, threshold
        self._pool: Pool | None = None
        self._state: dict[str, Any] = {}

    def of(self, pool: Pool) -> Bands:
        if self._pool is not pool:
            self._rates = PassRates(self._first_R(pool), follow=0.5, threshold=self._threshold)
            self.bands = Bands(self._band_R(self._rates.rate_R.astype(np.float64)), count=self._count)
            self._pool = pool
            if self._state:
                self.bands.load_state_dict(self._state["bands"])
                self._rates.load_state_dict(self._state)
        return self.bands

    def observe(self, batch: RolloutBatch) -> None:
        """Remember a round's pass rates; from a hook that sees every completion."""
        if self._pool is not None:
            self._rates.observe(batch, self._pool)

    def follow(self) -> list[int]:
        """Move the rows whose rates the step changed; called by all processes. Rows in each band, [] before a draw."""
        if self._pool is None:
            return []
        rows = self._rates.take()
        bands_R = self._band_R(self._rates.rate_R[rows].astype(np.float64))
        for row, band in zip(rows, bands_R.tolist(), strict=True):
            self.bands.move(row, band)
        return self.bands.sizes

    def state_dict(self) -> dict[str, Any]:
        return self._state if self._pool is None else {"bands": self.bands.state_dict(), **self._rates.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._state, self._pool = state, None
