"""Curriculum by difficulty: rows in bands of pass rate, and a band in the middle of the draws that moves with training.

    bands    cut at `edges`; centre m_b the middle of a band's ends (0 and 1 outside)
    target   begin + (end - begin) * share of the steps that are done
    P(b)     exp(-(m_b - target)^2 / (2 width^2)), over the bands that have rows; then a row of the band by chance, each
             once before any a second time
    rates    the column at first (NaN: `unrated`); with `live` 0.5 * rate + 0.5 * pass rate of each visit after it

With edges .25, .5, .75, width .25 and the target 1: .0017, .0351, .2590, .7042 from the hardest band up; target .5:
.1345, .3655, .3655, .1345. The pass rate is of completions worth `threshold` before shaping. Bands of equal centre
distance are alike however many rows they have: a band with few rows comes again soon.

begin 1, end 0. Source: easy-to-hard order by pass rate is that of many works (VideoTG-R1's abstract, E2H Reasoner
2506.06632 for the moving mixture); this form and its defaults are derived. width None is the loader's order: GRPO.
13 bytes a row, live or not; a draw costs the same at any number of rows.
"""

import itertools
import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from mmrl.algorithms.bands import distinct, shares_of
from mmrl.algorithms.followed_bands import FollowedBands
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.section import PositiveFloat, Probability
from mmrl.data.pool import Pool
from mmrl.errors import ConfigError

NEUTRAL: dict[str, Any] = {"width": None}


class Plugin:
    """column: of stored pass rates, or any number from 0 to 1 that is higher for easy rows; None: all start
    `unrated`.
    """

    def __init__(
        self,
        *,
        column: str | None = None,
        edges: Sequence[float] = (0.25, 0.5, 0.75),
        begin: Probability = 1.0,
        end: Probability = 0.0,
        width: PositiveFloat | None = 0.25,
        live: bool = True,
        unrated: Probability = 0.5,
        threshold: float = 0.5,
    ) -> None:
        if list(edges) != sorted(set(edges)) or not all(0 < edge < 1 for edge in edges):
            raise ConfigError(f"difficulty_bands: edges rise and lie between 0 and 1; they are {list(edges)}")
        self._column, self._live, self._unrated = column, live, unrated
        self._begin, self._end, self._width = begin, end, width
        ends = [0.0, *edges, 1.0]
        self._centres = [(low + high) / 2 for low, high in itertools.pairwise(ends)]
        self._rows = FollowedBands(
            count=len(self._centres),
            band_R=lambda rate_R: np.searchsorted(edges, rate_R, side="right"),
            first_R=self._first,
            threshold=threshold,
        )

    def draw(self, pool: Pool, count: int, chance: random.Random) -> list[int]:
        if self._width is None:
            return pool.own_order(count)
        bands = self._rows.of(pool)
        target = self._begin + (self._end - self._begin) * pool.progress
        odds = shares_of(self._weights(target, self._width), bands.sizes)
        numbers = range(len(odds))
        return distinct(lambda: bands.draw(chance.choices(numbers, odds)[0], chance), count)

    def keep(self, batch: RolloutBatch, rewards_N: torch.Tensor) -> torch.Tensor:
        """Keeps all: it is where every completion is seen."""
        if self._live:
            self._rows.observe(batch)
        return torch.ones(len(batch), dtype=torch.bool)

    def on_step_end(self, batch: RolloutBatch, rewards_N: torch.Tensor, metrics: dict[str, float]) -> None:
        for number, size in enumerate(self._rows.follow()):
            metrics[f"difficulty_bands/rows/{number}"] = float(size)

    def state_dict(self) -> dict[str, Any]:
        return self._rows.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._rows.load_state_dict(state)

    def _weights(self, target: float, width: float) -> list[float]:
        return [math.exp(-((centre - target) ** 2) / (2 * width**2)) for centre in self._centres]

    def _first(self, pool: Pool) -> np.ndarray:
        rate_R = np.full(len(pool), np.nan) if self._column is None else pool.column(self._column)
        return np.nan_to_num(rate_R, nan=self._unrated)
