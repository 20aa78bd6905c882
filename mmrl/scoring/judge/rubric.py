"""Rubrics: what a judge checks one by one, and the score that its verdicts add up to. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LEVELS = {"essential": 1.0, "important": 0.7, "optional": 0.3, "pitfall": 0.9}


@dataclass(frozen=True, slots=True)
class Criterion:
    """One thing that is met or not. weight below 0: a fault, which costs where it is found.

    veto: the score is 0 where it is not met (of a fault: where it is found). group: criteria that saturate together.
    """

    text: str
    weight: float = 1.0
    veto: bool = False
    group: str = ""


def read_criteria(rows: Any) -> tuple[Criterion, ...]:
    """Criteria from a list of texts, or of mappings with `text` and any of weight (a number or a level), veto, group.

    Levels are those of Rubrics as Rewards: essential 1, important 0.7, optional 0.3, pitfall 0.9 (worded as something
    to be met). Raises ValueError, naming the entry.

    >>> read_criteria(["Names the river.", {"text": "Gives the year.", "weight": "optional"}])[1].weight
    0.3
    """
    if not isinstance(rows, list | tuple) or not rows:
        raise ValueError("a rubric is a list of criteria, not empty")
    return tuple(_criterion(row, where=f"criterion {number}") for number, row in enumerate(rows, start=1))


def _criterion(row: Any, *, where: str) -> Criterion:
    if isinstance(row, str) and row.strip():
        return Criterion(row.strip())
    if not isinstance(row, Mapping) or not isinstance(row.get("text"), str) or not row["text"].strip():
        raise ValueError(f"{where}: {row!r} is no text, nor a mapping with 'text'")
    if unknown := set(row) - {"text", "weight", "veto", "group"}:
        raise ValueError(f"{where}: unknown key {sorted(unknown)[0]!r}; it has text, weight, veto, group")
    weight = LEVELS.get(row.get("weight", 1.0), row.get("weight", 1.0))
    if isinstance(weight, bool) or not isinstance(weight, int | float) or weight == 0:
        raise ValueError(f"{where}: weight {weight!r} is no number but 0, nor one of {', '.join(LEVELS)}")
    return Criterion(row["text"].strip(), float(weight), bool(row.get("veto", False)), str(row.get("group", "")))


def rubric_score(criteria: Sequence[Criterion], met: Sequence[float], *, saturation: float = 1.0) -> float:
    """Weighted share of what is met, of 0 to 1: (sum of w_j c_j - sum of |w_f| c_f) / sum of w_j, cut off at 0.

    j: criteria of positive weight, f: faults; c: 1 met, 0 not, or the share of votes for it. A veto gives 0 below a
    majority (of a fault: from a majority on). saturation: of each group of criteria, the share of its weight from which
    on it counts as whole, so that easy criteria cannot be piled up.
    Source: Rubrics as Rewards, explicit form; veto and saturation as in Rubicon.

    Weights 1, 1, 0.7, 0.3, 0.9 and verdicts 1, 0, 1, 1, 0: 2 / 3.9 = 0.5128.
    """
    for criterion, verdict in zip(criteria, met, strict=True):
        fails = verdict >= 0.5 if criterion.weight < 0 else verdict < 0.5
        if criterion.veto and fails:
            return 0.0
    groups = dict.fromkeys(criterion.group for criterion in criteria if criterion.weight > 0)
    gained = total = 0.0
    for group in groups:
        pairs = [(c.weight, m) for c, m in zip(criteria, met, strict=True) if c.weight > 0 and c.group == group]
        weight = sum(w for w, _ in pairs)
        gained += weight * min(1.0, sum(w * m for w, m in pairs) / weight / saturation)
        total += weight
    faults = sum(-c.weight * m for c, m in zip(criteria, met, strict=True) if c.weight < 0)
    return min(1.0, max(0.0, (gained - faults) / total)) if total else max(0.0, 1.0 - faults)
