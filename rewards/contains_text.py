"""Whether a text holds the answer, as benchmarks of reading count it (OCRBench).

Formula: 1 if an accepted answer is a part of the text, else 0. Before that both are put into lower case, full-width
letters become plain ones, line breaks blanks. In rows of formulas case counts, and no blank does.
Bounds: 0 or 1.
Answer: any text that holds it; the dataset's answer is a text, a number, or a list of accepted ones.
Space: none.
Source: OCRBench, whose formulas are the rows with `dataset: HME100k` (`formulas: {dataset: HME100k}`). A thought is no
part of the text here.
Example: answer `ABC`: `the word is abc.` 1, `AB C` 0; of a formula `x^{2}`: `x ^ { 2 }` 1, `X^{2}` 0.
"""

import re

from mmrl.data.sample import Sample
from mmrl.scoring.gold import gold_texts
from mmrl.scoring.parse import AnswerFormat, extract_prediction

BOUNDS = (0.0, 1.0)
KNOWN_HACKS = {
    "options": "a text that holds several answers holds the right one: a measure for benchmarks, not for training",
    "echo": "a question that names its answer is answered by its repetition",
}
_WIDE = {0x3000: " ", **{code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}}


def score(
    completion: str, sample: Sample, *, answer: AnswerFormat = "auto", formulas: dict[str, str] | None = None
) -> float:
    """`formulas`: column -> value of the rows whose answers are formulas; None: no row."""
    is_formula = any(sample.columns.get(column) == value for column, value in (formulas or {}).items())
    normal = _formula if is_formula else _plain
    text = normal(extract_prediction(completion, answer=answer) or "")
    return float(any(normal(gold) in text for gold in gold_texts(sample)))


def _plain(text: str) -> str:
    return text.translate(_WIDE).lower().strip().replace("\n", " ")


def _formula(text: str) -> str:
    return re.sub(r"[ \n]", "", text)
