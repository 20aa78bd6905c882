"""A claim: a method and a setting, the sign that its source predicts, and what a few seeds show of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bench.algorithms.tabular import Arm, Result, Task
from bench.algorithms.trainer import train

_T_95 = {5: 2.776, 10: 2.262}  # Student's t by the number of seeds, two-sided


def final(result: Result) -> float:
    return result.final


def over_run(result: Result) -> float:
    return result.mean


@dataclass(frozen=True)
class Claim:
    """base: the arm of GRPO. settings: what the method has otherwise in `algorithm:`. change: of the arm, otherwise.

    predicted: `+`, `-` or `0` for method less GRPO; `?` where the source says nothing of such a setting. named: whether
    its interval must exclude 0. setting, measure: as the table has them. seeds: how many, beginning with 0. why: where
    nothing is seen, or the setting needs a word.
    """

    method: str
    setting: str
    task: Task
    base: Arm
    settings: Mapping[str, Any]
    predicted: str = "+"
    measure: str = "right at the end"
    score: Callable[[Result], float] = final
    change: Mapping[str, Any] = field(default_factory=dict)
    named: bool = False
    seeds: int = 5
    why: str = ""

    @property
    def arm(self) -> Arm:
        return replace(self.base, settings={**self.base.settings, **self.settings}, **self.change)


def plugin(name: str, **options: Any) -> dict[str, Any]:
    """Settings with one plug-in."""
    return {"plugins": (name,), "plugin_options": {name: options}}


@dataclass(frozen=True)
class Seen:
    claim: Claim
    base: tuple[float, ...]
    method: tuple[float, ...]

    @property
    def differences(self) -> list[float]:
        return [m - b for b, m in zip(self.base, self.method, strict=True)]

    @property
    def interval(self) -> tuple[float, float]:
        return interval(self.differences)

    @property
    def sign(self) -> str:
        """0 where the interval has it."""
        low, high = self.interval
        if max(abs(low), abs(high)) < 1e-6:  # rounding
            return "0"
        return "+" if low > 0 else "-" if high < 0 else "0"

    def row(self) -> str:
        low, high = self.interval
        claim, mean = self.claim, _mean(self.differences)
        cells = [
            claim.method,
            claim.setting if claim.seeds == 5 else f"{claim.setting}; {claim.seeds} seeds",
            claim.measure,
            f"{_mean(self.base):.4g}",
            f"{_mean(self.method):.4g}",
            f"{mean:+.3g}",
            f"[{low:+.3g}, {high:+.3g}]",
            f"{claim.predicted} / {self.sign}",
            claim.why,
        ]
        return f"| {' | '.join(cells)} |"


def interval(values: Sequence[float]) -> tuple[float, float]:
    """95 % interval of the mean of five or ten values by Student's t."""
    mean = _mean(values)
    spread = math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))
    half = _T_95[len(values)] * spread / math.sqrt(len(values))
    return mean - half, mean + half


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


_RUNS: dict[tuple[int, int, int], tuple[Task, Arm, Result]] = {}


def seen(claim: Claim) -> Seen:
    """Both arms with every seed; a seed has the same table, order of prompts and stream of chance in both."""
    base = [_once(claim.task, claim.base, seed) for seed in range(claim.seeds)]
    method = [train(claim.task, claim.arm, seed) for seed in range(claim.seeds)]
    return Seen(claim, tuple(map(claim.score, base)), tuple(map(claim.score, method)))


def _once(task: Task, arm: Arm, seed: int) -> Result:
    """Runs of GRPO are shared by claims that name the same objects."""
    key = (id(task), id(arm), seed)
    if key not in _RUNS:
        # Kept with the objects, whose ids must not be given to others.
        _RUNS[key] = (task, arm, train(task, arm, seed))
    return _RUNS[key][2]
