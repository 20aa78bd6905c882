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

from mmrl.algorithms.bands import NONE, distinct, shares_of
from mmrl.algorithms.followed_bands import FollowedBands
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
        self._share, self._least, self._most = share, least, most
        self._weights = [(1 - (level + 0.5) / LEVELS) ** power for level in range(LEVELS)]
        self._rows = FollowedBands(
            count=LEVELS, band_R=self._levels, first_R=lambda pool: np.full(len(pool), np.nan), threshold=threshold
        )

    def draw(self, pool: Pool, count: int, chance: random.Random) -> list[int]:
        if not self._share:
            return pool.own_order(count)
        bands = self._rows.of(pool)
        sizes = bands.sizes
        odds = [weight * size for weight, size in zip(shares_of(self._weights, sizes), sizes, strict=True)]
        wanted = min(round(self._share * count), sum(sizes)) if any(odds) else 0
        levels = range(LEVELS)
        mined = distinct(lambda: bands.draw(chance.choices(levels, odds)[0], chance), wanted)
        return [*mined, *pool.own_order(count - wanted)]

    def keep(self, batch: RolloutBatch, rewards_N: torch.Tensor) -> torch.Tensor:
        """Keeps all: it is where every completion is seen."""
        self._rows.observe(batch)
        return torch.ones(len(batch), dtype=torch.bool)

    def on_step_end(self, batch: RolloutBatch, rewards_N: torch.Tensor, metrics: dict[str, float]) -> None:
        if sizes := self._rows.follow():
            metrics["hard_mining/rows"] = float(sum(sizes))

    def state_dict(self) -> dict[str, Any]:
        return self._rows.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._rows.load_state_dict(state)

    def _levels(self, rate_R: np.ndarray) -> np.ndarray:
        level_R = np.minimum(np.nan_to_num(rate_R) * LEVELS, LEVELS - 1).astype(np.int64)
        return np.where((rate_R >= self._least) & (rate_R < self._most), level_R, NONE)
