"""One step on a web page: what is done, to which mark, with which value.

Formula: mean over the keys that count of 1 if they agree: ACTION always, MARK unless the answer's is -1, VALUE unless
the answer's is null or `None`. 0 where ACTION differs; `official`: then too the mean.
Bounds: 0 to 1.
Answer: JSON, `{"ACTION": "CLICK", "MARK": 12, "VALUE": "None"}`; texts are compared without case and outer blanks,
marks as numbers.
Space: none; marks are the numbers drawn on the page.
Source: Vero's web_action. There a constant action earns its mark's share on any row.
Example: answer CLICK, 12, None: all right 1, mark 7 0.5, TYPE with mark 12 0 (official 0.5).
"""

from collections.abc import Mapping
from typing import Any

from mmrl.data.sample import Sample
from mmrl.scoring.gold import bad_answer
from mmrl.scoring.parse import AnswerFormat, extract_prediction, parse_json

BOUNDS = (0.0, 1.0)

_NO_MARK = (None, "", "none", -1.0)
_NO_VALUE = (None, "", "none")


def score(completion: str, sample: Sample, *, answer: AnswerFormat = "auto", official: bool = False) -> float:
    """`official`: mark and value count beside a wrong action too."""
    gold = _action(parse_json(sample.answer)[1] if isinstance(sample.answer, str) else sample.answer)
    if gold is None or not isinstance(gold["ACTION"], str):
        raise bad_answer(sample, wanted='an action, {"ACTION": "CLICK", "MARK": 12, "VALUE": null}')
    found = _action(parse_json(extract_prediction(completion, answer=answer) or "")[1])
    if found is None:
        return 0.0
    counted = ["ACTION", *(["MARK"] if gold["MARK"] not in _NO_MARK else [])]
    counted += ["VALUE"] if gold["VALUE"] not in _NO_VALUE else []
    right = [found[key] == gold[key] for key in counted]
    return sum(right) / len(right) if right[0] or official else 0.0


def _action(value: Any) -> dict[str, str | float | None] | None:
    """The three keys in one case, marks as numbers and texts without case; None for what is no action."""
    if not isinstance(value, Mapping):
        return None
    upper = {str(key).upper(): entry for key, entry in value.items()}
    return {key: _plain(upper.get(key)) for key in ("ACTION", "MARK", "VALUE")} if "ACTION" in upper else None


def _plain(entry: Any) -> str | float | None:
    if isinstance(entry, int | float):
        return float(entry)
    if not isinstance(entry, str):
        return None
    text = entry.strip().casefold()
    return float(text) if text.lstrip("-").isdecimal() and text.isascii() else text
