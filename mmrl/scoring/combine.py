"""From the parts of a task's reward to one number: sum, product, order, or sum of normalised parts. Pure.

Gates come first: where a gate part is below its least value, the other parts of the completion count 0. What is
unscored stays NaN: a completion with an unscored part or gate has no reward, unless the rule leaves such parts out.

Shape letters: G completions of one prompt, K reward parts of the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mmrl.config.section import Combine
from mmrl.scoring.ordered import ordered_scores

STD_EPS = 1e-4
"""Added to the standard deviation of a part within its group, as in TRL."""


@dataclass(frozen=True, slots=True)
class PartRule:
    """One part of a task. column: its place among K. gate: the least value that opens it; None: no gate.

    tolerance: values of an ordered part that differ by no more than this are equal.
    """

    column: int
    weight: float = 1.0
    is_format: bool = False
    gate: float | None = None
    tolerance: float = 0.0


@dataclass(frozen=True, slots=True)
class TaskRule:
    """How the parts of a task, in their order, become a reward. leaves_out: unscored parts are left out of it."""

    parts: tuple[PartRule, ...]
    combine: Combine = "sum"
    leaves_out: bool = False


def rewards_of_group(values_GK: np.ndarray, rule: TaskRule) -> np.ndarray:
    """The reward of each completion of one prompt, (G,); NaN where it is unscored.

    sum: sum_k w_k r_k. product: prod_k r_k. ordered: `ordered_scores`. normalised_sum: sum_k w_k (r_k - mean) / (std +
    1e-4), statistics over the group's scored completions (GDPO). Parts of weight 0 take no part.

    >>> rule = TaskRule((PartRule(0), PartRule(1, weight=0.2)))
    >>> rewards_of_group(np.array([[0.5, 1.0], [1.0, np.nan]]), rule).tolist()
    [0.7, nan]
    """
    parts = [part for part in rule.parts if part.weight != 0]
    return _combined(gated(values_GK, rule), parts, rule)


def task_scores_of_group(values_GK: np.ndarray, rule: TaskRule) -> np.ndarray:
    """The held-out score of each completion, (G,): weighted mean of the parts that are no format parts.

    Of a product their product; an order and a normalised sum compare completions, so their score is the mean too.
    """
    parts = [part for part in rule.parts if part.weight != 0 and not part.is_format]
    if rule.combine == "product":
        return _combined(gated(values_GK, rule), parts, rule)
    total_G = _sum(gated(values_GK, rule), parts, leaves_out=rule.leaves_out)
    return total_G / sum(part.weight for part in parts)


def gated(values_GK: np.ndarray, rule: TaskRule) -> np.ndarray:
    """The values behind the gates: 0 behind a closed one, NaN behind an unscored one or where they are unscored."""
    gates = [part for part in rule.parts if part.gate is not None]
    if not gates:
        return values_GK
    result_GK, is_gate_K = values_GK.copy(), np.zeros(values_GK.shape[1], dtype=bool)
    is_gate_K[[part.column for part in gates]] = True
    for part in gates:
        value_G1 = values_GK[:, [part.column]]
        result_GK[(value_G1 < part.gate) & ~is_gate_K & ~np.isnan(result_GK)] = 0.0
        result_GK[np.isnan(value_G1) & ~is_gate_K] = np.nan
    return result_GK


def _combined(values_GK: np.ndarray, parts: Sequence[PartRule], rule: TaskRule) -> np.ndarray:
    if rule.combine == "product":
        chosen_GK = values_GK[:, [part.column for part in parts]]
        filled_GK = np.where(np.isnan(chosen_GK), 1.0, chosen_GK) if rule.leaves_out else chosen_GK
        return np.where(np.isnan(chosen_GK).all(axis=1), np.nan, filled_GK.prod(axis=1))
    if rule.combine == "ordered":
        tolerances = [part.tolerance for part in parts]
        return ordered_scores(values_GK[:, [part.column for part in parts]], tolerances=tolerances)
    if rule.combine == "normalised_sum":
        values_GK = values_GK.copy()
        for part in parts:
            values_GK[:, part.column] = _normalised(values_GK[:, part.column])
    return _sum(values_GK, parts, leaves_out=rule.leaves_out)


def _sum(values_GK: np.ndarray, parts: Sequence[PartRule], *, leaves_out: bool) -> np.ndarray:
    """Weighted sum; with `leaves_out` the scored parts take over the weight of those that are not."""
    weights_K = np.array([part.weight for part in parts])
    chosen_GK = values_GK[:, [part.column for part in parts]]
    if not leaves_out:
        return (chosen_GK * weights_K).sum(axis=1)
    scored_GK = ~np.isnan(chosen_GK)
    present_G = (scored_GK * np.abs(weights_K)).sum(axis=1)
    total_G = np.where(scored_GK, chosen_GK * weights_K, 0.0).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(present_G > 0, total_G * np.abs(weights_K).sum() / present_G, np.nan)


def _normalised(values_G: np.ndarray) -> np.ndarray:
    """(r - mean) / (std + 1e-4) with the sample std of the scored values; 0 where they are all equal."""
    scored_G = values_G[~np.isnan(values_G)]
    if len(scored_G) < 2 or scored_G.max() == scored_G.min():
        return np.where(np.isnan(values_G), np.nan, 0.0)
    return (values_G - scored_G.mean()) / (scored_G.std(ddof=1) + STD_EPS)
