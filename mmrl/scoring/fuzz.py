"""`mmrl score --fuzz`: rewards on completions no model should write, and on those it will.

What is demanded of every score: no exception, a finite value within the reward's bounds, within the time limit. A case
whose answer is bad must raise RewardError for every completion, any other for none.

Trial n of seed s is trial 0 of seed s + n, so `--seed N --seconds 0` runs a single one again.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Sequence
from concurrent.futures import wait
from dataclasses import dataclass, field
from typing import Any

from mmrl.errors import one_line
from mmrl.scoring.cases import Case, read_cases
from mmrl.scoring.fuzz_texts import KINDS, fuzz_text
from mmrl.scoring.pool import Outcome, RewardCall, RewardPool, SentCall
from mmrl.scoring.reward import Reward, resolve_reward
from mmrl.scoring.selftest import chosen_rewards

TIME_LIMIT_S = 10.0
FOUND = 1
_SHOWN = 10
_TOGETHER = 8  # trials sent to the worker at once
_GRACE_S = 1.0


@dataclass(slots=True)
class FuzzResult:
    """What became of one reward's trials. violations: one line each, that says how to see it again."""

    reward: str
    trials: int = 0
    violations: list[str] = field(default_factory=list)
    slowest_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Trial:
    """One call of a reward: completions made from a case, by the trial's own seed."""

    seed: int
    case: Case
    completions: tuple[str, ...]


def make_trial(reward: Reward, cases: Sequence[Case], *, seed: int) -> Trial:
    """The trial of a seed; kinds of text take turns. Rewards of the batch and group form get 1 to 4 completions."""
    rng = random.Random(f"{reward.file.stem}/{seed}")
    case = rng.choice(cases)
    texts = [*case.completions, *(_as_text(c.sample.answer) for c in (case, rng.choice(cases)))]
    kinds, count = tuple(KINDS), 1 if reward.form == "one" else rng.randint(1, 4)
    chosen = [kinds[(seed + n) % len(kinds)] for n in range(count)]
    return Trial(seed, case, tuple(fuzz_text(texts, rng, kind=kind) for kind in chosen))


def _as_text(answer: Any) -> str:
    return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)


def fuzz(spelling: str, pool: RewardPool, *, seconds: float, seed: int = 0, most: int | None = None) -> FuzzResult:
    """Trials of one reward in a pool's workers until `seconds` are over, at least one and at most `most`.

    It ends late by the time that the pool allows one trial, if this hangs; what was sent after that is not waited for.
    """
    reward, result = resolve_reward(spelling), FuzzResult(spelling)
    cases = [case for case in read_cases(reward) if not case.brings_a_model]
    if not cases:
        return result  # a judge's replies, and drawn weights, are made for the cases
    size = 1 if seconds == 0 else min(_TOGETHER, most or _TOGETHER)
    end = time.monotonic() + seconds
    while True:
        first = seed + result.trials
        trials = [make_trial(reward, cases, seed=first + n) for n in range(size)]
        calls = [RewardCall(spelling, None, t.case.options, ((t.case.sample, t.completions),)) for t in trials]
        for trial, sent in zip(trials, [pool.send(call) for call in calls], strict=True):
            if result.trials and time.monotonic() >= end and not _is_soon_done(sent):
                pool.close()
                return result
            _judge(trial, pool.collect(sent), result)
            result.trials += 1
        if time.monotonic() >= end or (most is not None and result.trials >= most):
            return result


def _is_soon_done(sent: SentCall) -> bool:
    """A worker that is killed for a trial must start anew for the next reward, which takes about as long."""
    return sent.future is None or bool(wait([sent.future], timeout=_GRACE_S).done)


def _judge(trial: Trial, outcomes: Sequence[Outcome], result: FuzzResult) -> None:
    result.slowest_s = max(result.slowest_s, *(outcome.seconds for outcome in outcomes))
    for completion, outcome in zip(trial.completions, outcomes, strict=True):
        problem = _problem(trial.case, outcome)
        if problem:
            again = f"mmrl score --fuzz {result.reward} --seed {trial.seed} --seconds 0"
            text = one_line(completion[:80]) + ("..." if len(completion) > 80 else "")
            where = f"{trial.case.sample.where}, options {dict(trial.case.options)}"
            result.violations.append(
                f"{result.reward}: {problem}; completion of {len(completion)} characters: {text!r} ({where})\n"
                f"  again: {again}"
            )


def _problem(case: Case, outcome: Outcome) -> str | None:
    if case.error is not None and outcome.event is None:
        return f"scored {outcome.value:g} although the answer is bad"
    if outcome.event is None or (outcome.event == "bad_answer" and case.error is not None):
        return None
    return f"{outcome.event}: {one_line(outcome.message)[:300]}"


def fuzz_command(name: str, *, seconds: float, seed: int) -> int:
    """Fuzz the chosen rewards, `seconds` each; print a table and the first violations; 0, or 1 when there are some."""
    names = chosen_rewards(name)
    with RewardPool(1, timeout_s=TIME_LIMIT_S) as pool:
        results = [fuzz(spelling, pool, seconds=seconds, seed=seed) for spelling in names]
    print(table(results))
    for result in results:
        for violation in result.violations[:_SHOWN]:
            print(violation)
        if len(result.violations) > _SHOWN:
            print(f"{result.reward}: {len(result.violations) - _SHOWN} more")
    return FOUND if any(result.violations for result in results) else 0


def table(results: Sequence[FuzzResult]) -> str:
    width = max(len("reward"), *(len(r.reward) for r in results))
    head = f"{'reward':<{width}}  {'trials':>6}  {'violations':>10}  {'slowest s':>9}"
    rows = [f"{r.reward:<{width}}  {r.trials:>6}  {len(r.violations):>10}  {r.slowest_s:>9.2f}" for r in results]
    return "\n".join([head, *rows])
