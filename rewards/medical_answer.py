"""A short answer to a question about a medical picture: closed questions by equality, open ones by recall of words.

Formula: closed: 1 if the answer is the same (yes or no as in `boolean`; other choices equal without case, punctuation
and a, an, the), else 0. Open: words of the answer that occur in the text / words of the answer, a word counted as often
as it occurs in both. The values `closed`, `open_recall` and `open_f1` are logged, each for its questions.
Bounds: 0 to 1.
Answer: the text itself; yes or no with or without a sentence after it.
Space: none.
Source: the usual report on VQA-RAD, PathVQA and SLAKE, accuracy of closed and recall of open questions; how words are
told apart differs from paper to paper and is as said here. A question is closed if `column` (SLAKE: `answer_type`) says
so, or where there is none, if its answer is yes or no.
Example: answer `yes`: `Yes, it is.` 1; open `left lung`: `in the left lobe` 0.5, its F1 0.4; closed `the lungs`:
`lungs` 1.
"""

import re
from collections import Counter

from mmrl.data.sample import Sample
from mmrl.scoring.gold import bad_column, gold_text
from mmrl.scoring.parse import AnswerFormat, extract_prediction
from mmrl.scoring.truth import parse_truth

BOUNDS = (0.0, 1.0)
KNOWN_HACKS = {
    "options": "recall of an open answer does not fall with the length of the text; `open_f1` beside it does",
    "echo": "a question shares words with its answer, and recall counts them",
}
_ARTICLES = frozenset(("a", "an", "the"))


def score(
    completion: str, sample: Sample, *, answer: AnswerFormat = "auto", column: str | None = None
) -> dict[str, float]:
    """`column`: says CLOSED or OPEN of every row; None: closed are the questions whose answer is yes or no."""
    gold, said = gold_text(sample), extract_prediction(completion, answer=answer) or ""
    truth = parse_truth(gold)
    if _is_closed(sample, column) if column is not None else truth is not None:
        right = _words(said) == _words(gold) if truth is None else parse_truth(said) == truth
        return {"reward": float(right), "closed": float(right)}
    wanted, found = Counter(_words(gold)), Counter(_words(said))
    shared = (wanted & found).total()
    recall = shared / wanted.total() if wanted else float(said.strip() == gold)
    f1 = 2 * shared / (wanted.total() + found.total()) if shared else 0.0
    return {"reward": recall, "open_recall": recall, "open_f1": f1}


def _is_closed(sample: Sample, column: str) -> bool:
    kind = str(sample.columns.get(column)).strip().upper()
    if kind not in ("CLOSED", "OPEN"):
        raise bad_column(sample, column, wanted="CLOSED or OPEN")
    return kind == "CLOSED"


def _words(text: str) -> list[str]:
    words = re.findall(r"\w+(?:\.\d+)?", text.casefold())
    return [word for word in words if word not in _ARTICLES] or words
