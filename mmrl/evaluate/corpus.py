"""Scores of all answers together, which are no mean of what single answers are worth.

A measure makes counts of every answer beside its references; the score is a function of the counts' sum, so that
resamples are sums of other rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mmrl.config.benchmark_section import CorpusMeasure
from mmrl.scoring.captions import Pair, caption_score, counts_of


@dataclass(frozen=True, slots=True)
class Measured:
    """counts: of pairs of a text and its references, a row each. score: of a sum of such rows."""

    counts: Callable[[Sequence[Pair]], np.ndarray]
    score: Callable[[np.ndarray], float]


MEASURES: dict[CorpusMeasure, Measured] = {"captions": Measured(counts_of, caption_score)}
