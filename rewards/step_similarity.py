"""How alike each step of a completion is to the expert's, as a measurement for plug-ins that judge steps (`srl`).

Formula: steps are the lines that are not blank, behind the thought; step k scores 2 M / T against the expert's step k,
M the matched and T all characters of both, 0 where the expert has none. The value is their mean; `step` are spans of
the steps with their scores.
Bounds: 0 to 1.
Answer: steps, one a line. The column `expert_steps` has the expert's, a list of texts.
Space: none.
Source: Deng et al. 2025 (2510.25992), SRL, whose measure is difflib's ratio; that steps are lines is this project's. Of
a step the first 1000 characters count; lines after the first 1000 are no spans and count 0. Not a score: give it
weight 0.
Example: steps `a = 2`, `b = 3` against `a = 2`, `b = 4`: 1 and 0.8, mean 0.9.
"""

import re
from difflib import SequenceMatcher

from mmrl.data.sample import Sample
from mmrl.errors import RewardError

BOUNDS = (0.0, 1.0)
MEASURE = True
_LINE = re.compile(r"\S[^\n]*")
_LONGEST, _MOST = 1000, 1000


def score(
    completion: str, sample: Sample, *, column: str = "expert_steps"
) -> dict[str, float | list[tuple[int, int, float]]]:
    """`column`: the expert's steps."""
    expert = sample.columns.get(column)
    if not isinstance(expert, list) or not expert or not all(isinstance(step, str) for step in expert):
        raise RewardError(f"{sample.where}: the column {column!r} is {expert!r:.100}, not a list of texts")
    thought_end = completion.rfind("</think>")
    start = thought_end + len("</think>") if thought_end >= 0 else 0
    lines = [match.span() for match in _LINE.finditer(completion, start)]
    spans = [
        (begin, end, _ratio(completion[begin:end], expert[n]) if n < len(expert) else 0.0)
        for n, (begin, end) in enumerate(lines[:_MOST])
    ]
    return {"reward": sum(value for *_, value in spans) / max(len(lines), 1), "step": spans}


def _ratio(step: str, expert: str) -> float:
    return SequenceMatcher(None, step.strip()[:_LONGEST], expert.strip()[:_LONGEST], autojunk=False).ratio()
