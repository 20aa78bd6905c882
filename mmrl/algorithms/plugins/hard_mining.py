"""Adaptive hard mining: a part of each step's prompts are rows seen before, the oftener the less they succeeded.

    rate     0.5 * rate + 0.5 * pass rate of each visit, the pass rate of the first visit at first
    mined    of a step's prompts round(share * prompts), from the rows seen with least <= rate < most
    odds     of a row (1 - m)^power, m the middle of its level; rates are sorted into 16 levels of equal width
    others   the loader's next rows

Rows never solved are mined most, so a pool with unsolvable or mislabelled rows wants `least` above 0. Seven rows seen
at rate 0 and three at .9375 or above (`most` 1.0): levels m = 1/32 and 31/32, odds .9690 and .0313 each, so 98.6 % of
mined draws are of the seven. Until a row qualifies all are the loader's.

share .5, power 1. Source: hard-example mining (Shrivastava et al. 2016) by pass rate, as several of the papers name
without a formula: derived. share 0 is GRPO. 13 bytes a row; a draw costs the same at any number of rows.
"""

import random
from typing import Any

import numpy as np
import torch

from mmrl.algorithms.bands import NONE, Bands, distinct, shares_of
from mmrl.algorithms.pass_rates import PassRates
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.section import NonNegativeFloat, Probability
from mmrl.data.pool import Pool

NEUTRAL: dict[str, Any] = {"share": 0.0}
LEVELS = 16


class Plugin:
    """threshold: the least reward, before shaping, of a right completion."""

    def __init__(
        self,
        *,
        share: Probability = 0.5,
        power: NonNegativeFloat = 1.0,
        least: Probability = 0.0,
        most: Probability = 1.0,
        threshold: float = 0.5,
    ) -> None:
        self._share, self._least, self._most, self._threshold = share, least, most, threshold
        self._weights = [(1 - (level + 0.5) / LEVELS) ** power for level in range(LEVELS)]
        self._pool: Pool | None = None
        self._state: dict[str, Any] = {}

    def draw(self, pool: Pool, count: int, chance: random.Random) -> list[int]:
        if not self._share:
            return pool.own_order(count)
        if self._pool is not pool:
            self._open(pool)
        sizes = self._bands.sizes
        odds = [weight * size for weight, size in zip(shares_of(self._weights, sizes), sizes, strict=True)]
        wanted = min(round(self._share * count), sum(sizes)) if any(odds) else 0
        levels = range(LEVELS)
        mined = distinct(lambda: self._bands.draw(chance.choices(levels, odds)[0], chance), wanted)
        return [*mined, *pool.own_order(count - wanted)]

    def keep(self, batch: RolloutBatch, rewards_N: torch.Tensor) -> torch.Tensor:
        """Keeps all: it is where every completion is seen."""
        if self._pool is not None:
            self._rates.observe(batch, self._pool)
        return torch.ones(len(batch), dtype=torch.bool)

    def on_step_end(self, batch: RolloutBatch, rewards_N: torch.Tensor, metrics: dict[str, float]) -> None:
        if self._pool is None:
            return
        for row in self._rates.take():
            self._bands.move(row, self._level(float(self._rates.rate_R[row])))
        metrics["hard_mining/rows"] = float(sum(self._bands.sizes))

    def state_dict(self) -> dict[str, Any]:
        if self._pool is None:
            return self._state
        return {"bands": self._bands.state_dict(), **self._rates.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._state, self._pool = state, None

    def _level(self, rate: float) -> int:
        return min(int(rate * LEVELS), LEVELS - 1) if self._least <= rate < self._most else NONE

    def _open(self, pool: Pool) -> None:
        self._rates = PassRates(np.full(len(pool), np.nan), follow=0.5, threshold=self._threshold)
        self._bands, self._pool = Bands(np.full(len(pool), NONE), count=LEVELS), pool
        if self._state:
            self._bands.load_state_dict(self._state["bands"])
            self._rates.load_state_dict(self._state)
