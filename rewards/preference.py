"""Which of several responses is better.

Formula: 1 if the chosen response is the answer's, else 0; a tie is a choice of its own.
Bounds: 0 or 1.
Answer: a number, a letter or a word (`1`, `B`, `second`, `Response 2`, `response B is better`), or `tie`, `equally
good`; two different responses, or none, score 0.
Space: none.
Source: EasyVideoR1's critic type (LLaVA-Critic data). Its first-match reading takes `Response 1 is worse than response
2` for 1; here it is no choice.
Example: answer `Response 2`: `<answer>B</answer>` 1, `The second one.` 1, `Response 1` 0, `Response 1 or 2` 0.
"""

import re

from mmrl.data.sample import Sample
from mmrl.scoring.gold import bad_answer, gold_text
from mmrl.scoring.parse import AnswerFormat, extract_prediction

BOUNDS = (0.0, 1.0)

_ORDINALS = ("first", "second", "third", "fourth")
_BOTH = r"(?:(?:both|the two|two|the)?\s*(?:responses|answers|options)?(?:\s*(?:1 and 2|a and b))?\s*are\s+)?"
_TIE = re.compile(rf"(?:it(?:'s| is)\s+)?(?:an?\s+)?(?:tie|draw|0)|{_BOTH}(?:tied|equal|equally \w+)")
_NAMED = re.compile(r"\b(?:response|answer|option|candidate)s?\s*#?\(?([a-h]|\d)\b|\b(first|second|third|fourth)\b")
_MORE = re.compile(r"\b(?:or|and)\s+#?\(?([a-h]|\d)\b")


def score(completion: str, sample: Sample, *, answer: AnswerFormat = "auto") -> float:
    """1 or 0."""
    gold = _choice(gold_text(sample))
    if gold is None:
        raise bad_answer(sample, wanted="one response (1, 2, A, B, first, second) or a tie")
    return float(_choice(extract_prediction(completion, answer=answer) or "") == gold)


def _choice(text: str) -> int | None:
    """The number of the chosen response from 1 on; 0: a tie; None: no or several choices."""
    clean = re.sub(r"[*_`$\"]", "", text).strip(" .:()[]\n").casefold()
    if re.fullmatch(r"[a-h]|\d", clean):
        return _number(clean)
    if _TIE.fullmatch(clean):
        return 0
    named = {_number(a or b) for a, b in _NAMED.findall(clean)}
    named |= {_number(other) for other in _MORE.findall(clean)}
    return named.pop() if len(named) == 1 else None


def _number(name: str) -> int:
    if name in _ORDINALS:
        return _ORDINALS.index(name) + 1
    return int(name) if name.isdigit() else ord(name) - ord("a") + 1
