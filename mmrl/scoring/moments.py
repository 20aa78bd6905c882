"""How near moments are to key moments, softly. Pure. Shape letters: N predicted moments, M key moments.

>>> [round(nearness([5, 9], [6, 12], sigma=annealed_sigma(p)), 6) for p in (0, 0.5, 0.9)]
[0.862036, 0.603575, 0.30882]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from mmrl.scoring.matching import hungarian_pairs

Sigma = float | Literal["annealed"]
"""The distance at which a moment still scores 0.606531; `annealed`: `annealed_sigma` of the progress of training."""


def sigma_at(progress: float, sigma: Sigma) -> float:
    return annealed_sigma(progress) if sigma == "annealed" else sigma


def annealed_sigma(progress: float) -> float:
    """VisionCoach's sigma: 4 * (1 - p) while the share p of training that is done is below 0.75, then 1.

    >>> annealed_sigma(0.0), annealed_sigma(0.5), annealed_sigma(0.75), annealed_sigma(1.0)
    (4.0, 2.0, 1.0, 1.0)
    """
    return 4.0 * (1.0 - progress) if progress < 0.75 else 1.0


def nearness(found: Sequence[float], keys: Sequence[float], *, sigma: float, nearest: bool = False) -> float:
    """exp(-d^2 / (2 * sigma^2)), summed over the best one-to-one pairs, / the greater count of moments.

    nearest: the mean over the found moments, each with its nearest key moment. 0 where nothing was found.
    """
    if not found:
        return 0.0
    distances_NM = np.abs(np.subtract.outer(found, keys))
    scores_NM = np.exp(-(distances_NM**2) / (2 * sigma**2))
    if nearest:
        return float(scores_NM.max(axis=1).mean())
    total = math.fsum(scores_NM[pair] for pair in hungarian_pairs(scores_NM))
    return total / max(len(found), len(keys))
