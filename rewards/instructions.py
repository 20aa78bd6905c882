"""Following instructions that can be checked by rule.

Formula: the share of the row's instructions that the answer follows; `strict`: 1 if all are followed, else 0. An empty
answer follows none.
Bounds: 0 to 1.
Answer: any text. The dataset's answer is a list, `[{"id": "punctuation:no_comma"}, {"id": "keywords:existence",
"keywords": ["red"]}]`; or the columns `instruction_id_list` and `kwargs` of IFEval's files.
Space: none.
Source: Vero's instruction_following; the 24 checkers of `mmrl.scoring.instructions` have IFEval's names and arguments.
Example: at least 3 words and no comma: `Red and blue` 1, `Red, blue` 0, `Red, green, blue` 0.5.
"""

from collections.abc import Mapping
from typing import Any

from mmrl.data.sample import Sample
from mmrl.errors import RewardError, did_you_mean
from mmrl.scoring.gold import bad_answer
from mmrl.scoring.instructions import CHECKS, follows
from mmrl.scoring.parse import AnswerFormat, extract_prediction, parse_json

BOUNDS = (0.0, 1.0)


def score(completion: str, sample: Sample, *, answer: AnswerFormat = "auto", strict: bool = False) -> float:
    """`strict`: all or nothing."""
    instructions = _instructions(sample)
    response = extract_prediction(completion, answer=answer) or ""
    passed = [_passes(sample, name, arguments, response) for name, arguments in instructions]
    return float(all(passed)) if strict else sum(passed) / len(passed)


def _instructions(sample: Sample) -> list[tuple[str, Mapping[str, Any]]]:
    """Names and arguments, from the answer or from IFEval's columns."""
    listed = parse_json(sample.answer)[1] if isinstance(sample.answer, str) else sample.answer
    names, arguments = sample.columns.get("instruction_id_list"), sample.columns.get("kwargs")
    if names and isinstance(names, list) and isinstance(arguments, list) and len(names) == len(arguments):
        listed = [{"id": name, **(given or {})} for name, given in zip(names, arguments, strict=True)]
    if not listed or not isinstance(listed, list) or not all(isinstance(i, Mapping) and "id" in i for i in listed):
        raise bad_answer(sample, wanted='a list of instructions, [{"id": "punctuation:no_comma"}]')
    return [(str(entry["id"]), {k: v for k, v in entry.items() if k != "id"}) for entry in listed]


def _passes(sample: Sample, name: str, arguments: Mapping[str, Any], response: str) -> bool:
    if name not in CHECKS:
        known = ", ".join(CHECKS)
        raise RewardError(f"{sample.where}: unknown instruction {name!r}; known: {known}{did_you_mean(name, CHECKS)}")
    try:
        return follows(name, response, **{key: _whole(value) for key, value in arguments.items()})
    except (TypeError, ValueError, AttributeError) as error:
        raise RewardError(f"{sample.where}: instruction {name!r} with {dict(arguments)}: {error}") from error


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value
