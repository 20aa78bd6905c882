"""`mmrl score --hack-report`: what a reward pays for answers given without looking, against its chance level.

Of every part of every task the tricks of `mmrl.scoring.tricks` are scored. The chance level is the one the reward
states (`CHANCE`, `chance`), else the mean score of other rows' right answers (on golden cases: of the best one). A
trick that scores more than 0.05 above it is a finding, unless the reward's `KNOWN_HACKS` gives the reason. A constant
answer is right for some row by itself; the row that pays it most is left out of its mean.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from mmrl.errors import MmrlError, RewardError, one_line
from mmrl.scoring.pool import Outcome, RewardCall, RewardPool
from mmrl.scoring.reward import Hack, Reward, resolve_reward
from mmrl.scoring.tricks import Item, Policy, right_policies, shuffled, tricks

Scored = tuple[Policy, list[float]]

MARGIN = 0.05
FOUND = 1
TIME_LIMIT_S = 30.0
_ROWS_A_CALL = 10


@dataclass(frozen=True, slots=True)
class Target:
    """A part of a task and the items to try it on."""

    task: str
    part: str
    spelling: str
    options: Mapping[str, Any]
    items: tuple[Item, ...]
    relative_to: Path | None = None

    @property
    def reward(self) -> Reward:
        return resolve_reward(self.spelling, self.relative_to)


@dataclass(frozen=True, slots=True)
class Tried:
    """The best policy of a trick: its mean score, and what it did."""

    score: float
    label: str


@dataclass(frozen=True, slots=True)
class HackResult:
    """One part of one task. right: mean score of the right answers. chance: stated by the reward, or estimated."""

    task: str
    part: str
    right: float
    chance: float
    is_stated: bool
    tried: Mapping[Hack, Tried]
    known: Mapping[Hack, str]

    @property
    def above(self) -> list[Hack]:
        """Tricks that score above chance + 0.05."""
        return [trick for trick, best in self.tried.items() if best.score > self.chance + MARGIN]

    @property
    def findings(self) -> list[Hack]:
        """Those of them that the reward gives no reason for."""
        return [trick for trick in self.above if trick not in self.known]


def hack_result(target: Target, pool: RewardPool) -> HackResult:
    """Try every trick on one part. RewardError when fewer than two items could be scored at all."""
    scorer = _Scorer(target, pool)
    rights = scorer.scored(right_policies(target.items))
    best, right_scores = max(rights, key=lambda pair: _mean(pair[1]))
    if len(_known(right_scores)) < 2:
        raise RewardError(
            f"task {target.task!r}, reward {target.part!r}: fewer than two rows have an answer it can score"
            f"{scorer.first_problem}"
        )
    tried = scorer.scored(list(tricks(target.items, best.label)))
    stated = stated_chance(target)
    return HackResult(
        target.task,
        target.part,
        right=_mean(right_scores),
        chance=_estimated_chance(scorer, best.label, tried) if stated is None else stated,
        is_stated=stated is not None,
        tried=_best(tried),
        known=target.reward.known_hacks,
    )


def _estimated_chance(scorer: _Scorer, form: str, tried: Sequence[Scored]) -> float:
    """Mean score of other rows' right answers; on golden cases that of the best of these answers.

    A handful of cases says nothing about the frequencies of answers: that two of four are alike is no flaw.
    """
    items = scorer.target.items
    if all(item.is_whole for item in items):
        return max(_policy_mean(policy, scores) for policy, scores in tried if policy.is_answer)
    return _mean(score for _, scores in scorer.scored(shuffled(items, form)) for score in scores)


def _best(tried: Sequence[Scored]) -> dict[Hack, Tried]:
    found: dict[Hack, Tried] = {}
    for policy, scores in tried:
        mean = _policy_mean(policy, scores)
        assert policy.trick != "right" and policy.trick != "shuffled"
        if not math.isnan(mean) and (policy.trick not in found or mean > found[policy.trick].score):
            found[policy.trick] = Tried(mean, policy.label)
    return found


def _policy_mean(policy: Policy, scores: Sequence[float]) -> float:
    known = sorted(_known(scores))
    return _mean(known[:-1] if policy.trick == "constant" else known)


def stated_chance(target: Target) -> float | None:
    """The mean over the items of the chance level the reward states; None where it states none for any of them."""
    chance = target.reward.chance
    if not callable(chance):
        return chance
    values = [chance(item.sample) for item in target.items]
    stated = [value for value in values if value is not None]
    return _mean(stated) if len(stated) == len(values) else None


class _Scorer:
    """Scores policies on a target's items; what could not be scored is NaN."""

    def __init__(self, target: Target, pool: RewardPool) -> None:
        self.target, self.pool = target, pool
        self.first_problem = ""

    def scored(self, policies: Sequence[Policy]) -> list[Scored]:
        calls = [self._calls(policy) for policy in policies]
        results = iter(self.pool.run([call for of_policy in calls for call in of_policy]))
        return [(p, self._values(next(results) for _ in own)) for p, own in zip(policies, calls, strict=True)]

    def _values(self, results: Iterable[Sequence[Outcome]]) -> list[float]:
        outcomes = [outcome for of_call in results for outcome in of_call]
        for outcome in (outcome for outcome in outcomes if outcome.event):
            self.first_problem = self.first_problem or f"; the first problem: {outcome.event}: {outcome.message}"
        return [outcome.value for outcome in outcomes]

    def _calls(self, policy: Policy) -> list[RewardCall]:
        """The rows in pieces, for several workers, and so that slow ones do not use up the time limit together."""
        target = self.target
        groups = tuple((i.sample, (c,)) for i, c in zip(target.items, policy.completions, strict=True))
        pieces = [groups[at : at + _ROWS_A_CALL] for at in range(0, len(groups), _ROWS_A_CALL)]
        return [RewardCall(target.spelling, target.relative_to, target.options, piece) for piece in pieces]


def _known(scores: Iterable[float]) -> list[float]:
    return [score for score in scores if not math.isnan(score)]


def _mean(scores: Iterable[float]) -> float:
    known = _known(scores)
    return math.fsum(known) / len(known) if known else math.nan


def markdown(results: Sequence[HackResult]) -> str:
    """A table with a line per part; scores above chance + 0.05 are bold, and followed by `*` where they are known."""
    names: tuple[Hack, ...] = get_args(Hack)
    head = ("task", "part", "right", "chance", *names)
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for result in results:
        chance = f"{result.chance:.3f}" + ("" if result.is_stated else " (estimated)")
        cells = (result.task, result.part, f"{result.right:.3f}", chance, *(_cell(result, name) for name in names))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(result: HackResult, trick: Hack) -> str:
    if trick not in result.tried:
        return "-"
    text = f"{result.tried[trick].score:.3f}"
    if trick not in result.above:
        return text
    return f"**{text}**" + ("*" if trick in result.known else "")


def lines(results: Sequence[HackResult]) -> Iterator[str]:
    """What the table's bold cells are: findings first, then those a reward lists, with its reason."""
    for result in results:
        for trick in result.findings:
            best = result.tried[trick]
            yield (
                f"finding: {result.task}/{result.part}: {trick} {one_line(best.label)[:100]} scores {best.score:.3f}, "
                f"chance is {result.chance:.3f}"
            )
    for result in results:
        for trick in result.above:
            if trick in result.known:
                yield f"known: {result.task}/{result.part}: {trick}: {result.known[trick]}"


def hack_report(targets: Sequence[Target], *, strict: bool = False) -> int:
    """Print table and findings of all targets; under `strict` 1 for a finding or a part left untried, else 0."""
    results, untried = [], []
    with RewardPool(len(os.sched_getaffinity(0)), timeout_s=TIME_LIMIT_S) as pool:
        for target in targets:
            try:
                results.append(hack_result(target, pool))
            except MmrlError as error:
                untried.append(f"not tried: {error}")
    print("\n".join([markdown(results), *lines(results), *untried]))
    return FOUND if strict and (untried or any(result.findings for result in results)) else 0
