"""Objectives in order of precedence, without a weighted sum: safety first, then rules, then progress. Pure.

Shape letters: G completions of one group, K objectives, the most important first.

Two answers are compared by the first objective in which they differ, as words in a dictionary are. What differs by less
than the objective's tolerance counts as equal and the next objective decides. "Within a tolerance of each other" is not
transitive (0.00, 0.08, 0.16 at 0.1), so answers are put into tiers instead: the best value opens a tier, everything
within the tolerance of that best belongs to it, the best of the rest opens the next tier. Each tier is then split in
the same way by the next objective.

Where an objective is a distribution of values, not one, quantile dominance compares it without a mean (`dominance`,
`survived`). An own reconstruction of Pr-MOMDP (arXiv 2603.20230), of which only the abstract was at hand.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_ROUNDING = 1e-12  # 0.3 - 0.2 is a little less than 0.1


def ordered_scores(values_GK: np.ndarray, *, tolerances: Sequence[float] | None = None) -> np.ndarray:
    """Rank of each completion inside its group, (G,) float64 from 0 (beaten by all) to 1 (beats all).

    score_g = (completions that g beats + half of those it ties with) / (scored completions - 1)

    values_GK: higher is better. tolerances: K numbers >= 0 in the objectives' own units; None: 0 for all. A row with a
    NaN is unscored: its score is NaN and it takes no part in the ranking. A completion that ties with all others, or is
    the only one, gets 0.5. The mean over the scored completions is 0.5 whatever the values: the scores order a group,
    they do not compare groups. Better or equal in every objective never means a lower score.

    Raises ValueError for an array that is not (G, K) or tolerances that are not K finite numbers >= 0.
    Source: the objective-by-objective subset extraction of Pr-MOMDP (arXiv 2603.20230), applied to a group's answers.

    Safety decides, progress breaks the tie of the first two; the third is fastest and unsafe:

    >>> ordered_scores(np.array([[1.0, 0.4], [1.0, 0.7], [0.0, 1.0]])).tolist()
    [0.5, 1.0, 0.0]
    >>> ordered_scores(np.array([[0.98, 0.4], [1.0, 0.4], [0.0, 1.0]]), tolerances=[0.05, 0.0]).tolist()
    [0.75, 0.75, 0.0]
    """
    values_GK = np.asarray(values_GK, dtype=np.float64)
    if values_GK.ndim != 2 or values_GK.shape[1] == 0:
        raise ValueError(f"objectives must be an array (G, K) with K > 0, not of shape {values_GK.shape}")
    tolerances_K = _checked(tolerances, count=values_GK.shape[1])
    scores_G = np.full(len(values_GK), np.nan)
    scored = np.flatnonzero(~np.isnan(values_GK).any(axis=1))
    beaten = len(scored)
    for tied in _tiers(values_GK, scored, tolerances_K):
        beaten -= len(tied)
        scores_G[tied] = (beaten + (len(tied) - 1) / 2) / (len(scored) - 1) if len(scored) > 1 else 0.5
    return scores_G


def _checked(tolerances: Sequence[float] | None, *, count: int) -> np.ndarray:
    tolerances_K = np.zeros(count) if tolerances is None else np.asarray(tolerances, dtype=np.float64)
    if tolerances_K.shape != (count,) or not np.isfinite(tolerances_K).all() or (tolerances_K < 0).any():
        raise ValueError(f"tolerances must be {count} finite numbers >= 0, one per objective, not {tolerances}")
    return tolerances_K


def _tiers(values_GK: np.ndarray, rows: np.ndarray, tolerances_K: np.ndarray) -> list[np.ndarray]:
    """The rows in sets that tie in every objective, the best set first."""
    tiers = [rows] if len(rows) else []
    for objective, tolerance in enumerate(tolerances_K):
        values_G = values_GK[:, objective]
        tiers = [part for tier in tiers for part in _split(values_G, tier, float(tolerance))]
    return tiers


def _split(values_G: np.ndarray, tier: np.ndarray, tolerance: float) -> list[np.ndarray]:
    falling = tier[np.argsort(-values_G[tier], kind="stable")]
    parts: list[np.ndarray] = []
    start = 0
    while start < len(falling):
        # Compared with the bound, not by a difference: infinite values have none.
        bound = values_G[falling[start]] - tolerance - _ROUNDING
        end = start + int(np.count_nonzero(values_G[falling[start:]] >= bound))
        parts.append(falling[start:end])
        start = end
    return parts


def dominance(first_N: np.ndarray, second_N: np.ndarray, *, margin: float = 0.0) -> float:
    """QD(a, b): the share of quantiles at which a is more than `margin` above b; both at the same N levels.

    >>> low, middle, high = np.array([-5.0, -4, -1, 0]), np.array([-1.0, 0, 0, 0]), np.zeros(4)
    >>> dominance(high, middle), dominance(high, low), dominance(middle, low)
    (0.25, 0.75, 0.75)
    """
    return float((np.asarray(first_N) > np.asarray(second_N) + margin + _ROUNDING).mean())


def undominated(values_GN: np.ndarray, *, threshold: float = 0.5, margin: float = 0.0) -> np.ndarray:
    """Which of G distributions, N quantiles each, no other one dominates, (G,) bool.

    a dominates b where QD(a, b) > threshold and QD(b, a) <= 1 - threshold.

    >>> undominated(np.array([[-1.0, 0, 0, 0], [-5, -4, -1, 0], [0, 0, 0, 0]])).tolist()
    [True, False, True]
    """
    above_GGN = values_GN[:, None] > values_GN[None] + margin + _ROUNDING
    share_GG = above_GGN.mean(axis=2)
    often_GG, seldom_GG = share_GG > threshold, share_GG <= 1 - threshold
    return ~(often_GG & seldom_GG.T).any(axis=0)


def survived(values_KGN: np.ndarray, *, threshold: float = 0.5, margin: float = 0.0) -> np.ndarray:
    """How many of K objectives, the most important first, each of G distributions survives, (G,) int.

    Of those left by the objectives before, an objective keeps those that no other one left dominates; all of them where
    that would keep none (shares of quantiles can go round in a circle). K: kept by all.

    >>> safety = [[-1.0, 0, 0, 0], [-5, -4, -1, 0], [0, 0, 0, 0]]
    >>> progress = [[5.0, 5, 5, 5], [9, 9, 9, 9], [3, 3, 3, 3]]
    >>> survived(np.array([safety, progress])).tolist()
    [2, 0, 1]
    """
    left = np.arange(values_KGN.shape[1])
    survived_G = np.zeros(len(left), dtype=int)
    for values_GN in values_KGN:
        kept = undominated(values_GN[left], threshold=threshold, margin=margin)
        left = left[kept] if kept.any() else left
        survived_G[left] += 1
    return survived_G
