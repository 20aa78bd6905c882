"""Multiple choice: the right letter.

Formula: 1 if the chosen letter equals the answer's letter, else 0.
Bounds: 0 or 1.
Answer: a letter in any of the forms of `mmrl.scoring.parse.parse_choice`; several letters, or none, score 0.
Space: none.
Source: common practice; which texts count as a choice is fixed by this project's table of public parsing faults.
Example: answer `B`: `<answer>(B)</answer>` 1, `The correct answer is (B).` 1, `A or B or C` 0, `Based on` 0.
"""

import string
from collections.abc import Sequence

from mmrl.data.sample import Sample
from mmrl.scoring.gold import bad_answer, gold_text
from mmrl.scoring.parse import AnswerFormat, extract_prediction, parse_choice

BOUNDS = (0.0, 1.0)


def score(completion: str, sample: Sample, *, answer: AnswerFormat = "auto", options_column: str = "options") -> float:
    """`options_column`: a list of option texts; where the row has it, their texts and only their letters count."""
    options = _options(sample, options_column)
    letters = string.ascii_uppercase[: len(options) or None]
    gold = parse_choice(gold_text(sample), letters=letters, options=options)
    if gold is None:
        raise bad_answer(sample, wanted=f"one of the letters {letters[0]} to {letters[-1]}")
    prediction = extract_prediction(completion, answer=answer) or ""
    return float(parse_choice(prediction, letters=letters, options=options) == gold)


def chance(sample: Sample) -> float | None:
    """One in as many as the row has options; not stated where it does not say."""
    options = _options(sample, "options")
    return 1 / len(options) if options else None


def _options(sample: Sample, column: str) -> Sequence[str]:
    value = sample.columns.get(column)
    if isinstance(value, dict):
        value = [value[letter] for letter in string.ascii_uppercase[: len(value)] if letter in value]
    return [str(option) for option in value] if isinstance(value, list | tuple) else ()
