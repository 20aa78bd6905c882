"""Comparisons by a judge model: against the reference answer, or against the other completions of the group.

Formula: (wins + ties / 2) / comparisons. Each pair is judged in both orders; a judge that contradicts itself has not
decided, which is a tie. `group`: each completion meets the next `opponents` of its group, in a circle.
Bounds: 0 to 1.
Answer: any text; the judge sees the question and both answers (after the thought).
Space: none.
Source: pairwise LLM judging with swapped positions (Zheng et al. 2023).
Example: better than one opponent, undecided against another: 0.75.
"""

from collections.abc import Sequence
from typing import Any, Literal

from mmrl.data.sample import Sample
from mmrl.errors import JudgeError
from mmrl.scoring.gold import gold_texts
from mmrl.scoring.judge.endpoint import judge_of, preflight  # noqa: F401 - preflight is this reward's own
from mmrl.scoring.judge.material import Material
from mmrl.scoring.judge.prompts import Asked, ask_about, question_of
from mmrl.scoring.judge.votes import ask_lists, said

BOUNDS = (0.0, 1.0)
CHANCE = 0.5

CRITERIA = "correctness first, then completeness and clarity"


def score_group(
    completions: Sequence[str],
    sample: Sample,
    *,
    endpoint: dict[str, Any],
    criteria: str = CRITERIA,
    against: Literal["group", "reference"] = "group",
    opponents: int = 2,
) -> list[float | JudgeError]:
    """`criteria`: what decides. `against`: who the opponents are. `opponents`: of each completion, in its group."""
    judge = judge_of(endpoint)
    question = question_of(sample, judge.endpoint)
    texts = [said(completion) for completion in completions]
    count = len(texts)
    if against == "reference":
        rival = " / ".join(gold_texts(sample))
        pairs = [(i, None, text, rival) for i, text in enumerate(texts)]
    else:
        steps = range(1, min(opponents, count - 1) + 1)
        chosen = dict.fromkeys(tuple(sorted((i, (i + step) % count))) for i in range(count) for step in steps)
        pairs = [(i, j, texts[i], texts[j]) for i, j in chosen]
    asked = [[_question(question, a, b, criteria), _question(question, b, a, criteria)] for _, _, a, b in pairs]
    outcomes = ask_lists(judge, asked, _winner)
    return _tally(count, [(i, j) for i, j, _, _ in pairs], outcomes)


def _question(question: Material, first: str, second: str, criteria: str) -> Asked:
    task = f"Decide which of two responses to a question is better. What counts: {criteria}. Say tie if neither is."
    material = {"the question": question, "response 1": first, "response 2": second}
    return ask_about(task, material, form='{"better": 1} or {"better": 2} or {"better": "tie"}')


def _winner(verdict: Any) -> float:
    """1 where the first is better, 0 where the second is, 0.5 for a tie."""
    worth = {1: 1.0, "1": 1.0, 2: 0.0, "2": 0.0, "tie": 0.5}
    better = verdict.get("better") if isinstance(verdict, dict) else None
    if isinstance(better, bool) or not isinstance(better, int | str) or better not in worth:
        raise JudgeError(f"the verdict {verdict!r:.100} names no better response")
    return worth[better]


def _tally(count: int, pairs: Sequence[tuple[int, int | None]], outcomes: Sequence[Sequence[Any]]) -> list[Any]:
    """The mean of each one's comparisons; an error where any of them has no verdict, 0.5 where there are none."""
    results: list[list[Any]] = [[] for _ in range(count)]
    for (i, j), (forth, back) in zip(pairs, outcomes, strict=True):
        failed = next((v for v in (forth, back) if isinstance(v, JudgeError)), None)
        worth = 0.5 if failed is None and forth != 1 - back else forth
        results[i].append(failed or worth)
        if j is not None:
            results[j].append(failed or 1 - worth)
    return [next((v for v in found if isinstance(v, JudgeError)), None) or _mean(found) for found in results]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.5
