"""Yes or no.

Formula: 1 if the prediction says what the answer says, else 0.
Bounds: 0 or 1.
Answer: `yes`, `true`, `1` or `no`, `false`, `0`, alone, first with a comma or stop after it (`Yes, it does.`), or as
`the answer is yes`; both of them, or neither, score 0.
Space: none.
Source: EasyVideoR1's boolean type and its alias binary classification.
Example: answer `yes`: `<answer>True</answer>` 1, `Yes, both are red.` 1, `yes or no` 0, `There are no dogs` 0.
"""

import re

from mmrl.data.sample import Sample
from mmrl.scoring.gold import bad_answer, gold_text
from mmrl.scoring.parse import AnswerFormat, extract_prediction

BOUNDS = (0.0, 1.0)
CHANCE = 0.5

_VALUES = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
_SAID = re.compile(r"(?:.{0,200}\banswer(?:\s+is)?\s*:?\s*)?(yes|no|true|false)\b(?=\s*(?:[.,;:!]|$))(.*)", re.DOTALL)
_ANY = re.compile(r"\b(?:yes|no|true|false)\b")


def score(completion: str, sample: Sample, *, answer: AnswerFormat = "auto") -> float:
    """1 or 0; a dataset's `true` and `false` are answers too."""
    said = _truth(str(sample.answer) if isinstance(sample.answer, bool) else gold_text(sample))
    if said is None:
        raise bad_answer(sample, wanted="yes or no, true or false, 1 or 0")
    return float(_truth(extract_prediction(completion, answer=answer) or "") == said)


def _truth(text: str) -> bool | None:
    clean = re.sub(r"[*_`$\"']", "", text).strip().casefold()
    alone = _VALUES.get(clean.strip(" .!"))
    if alone is not None:
        return alone
    match = _SAID.match(clean)
    if match is None or any(_VALUES[word] != _VALUES[match[1]] for word in _first_words(match[2])):
        return None
    return _VALUES[match[1]]


def _first_words(rest: str) -> list[str]:
    """The yes and no of the sentence that goes on after the answer: `yes, or no` is no answer."""
    return _ANY.findall(re.split(r"[.!\n]", rest.lstrip(" .,;:!"), maxsplit=1)[0])
