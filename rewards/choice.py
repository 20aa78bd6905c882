"""Multiple choice: the right letter.

Formula: 1 if the chosen letter equals the answer's letter, else 0.
Bounds: 0 or 1.
Answer: a letter in any of the forms of `mmrl.scoring.parse.parse_choice`, or the text of an option; several letters,
or none, score 0. The letters are the row's: a list of options has A, B, .., Z, AA, .., a mapping its own labels.
`after: "Correct Option:"` reads what follows these words, for answers that hold something else before it.
Space: none.
Source: common practice; which texts count as a choice is fixed by this project's table of public parsing faults.
`after` is VisionCoach's temporal multiple choice.
Example: answer `B`: `<answer>(B)</answer>` 1, `The correct answer is (B).` 1, `A or B or C` 0, `Based on` 0.
"""

import re
import string
from collections.abc import Sequence

from mmrl.data.sample import Sample
from mmrl.scoring.gold import bad_answer, gold_text
from mmrl.scoring.option_labels import labelled_options
from mmrl.scoring.parse import AnswerFormat, extract_prediction, parse_choice

BOUNDS = (0.0, 1.0)


def score(
    completion: str,
    sample: Sample,
    *,
    answer: AnswerFormat = "auto",
    options_column: str = "options",
    after: str | None = None,
) -> float:
    """`options_column`: the row's options; where it has them, their texts and only their letters count.

    `after`: words before the choice, in any case; an answer without them, or with them twice, makes no choice.
    """
    letters, texts = _labels(sample, options_column)
    gold = parse_choice(gold_text(sample), letters=letters, options=texts)
    if gold is None:
        raise bad_answer(sample, wanted=f"one of the letters {letters[0]} to {letters[-1]}")
    return float(vote(completion, sample, answer=answer, options_column=options_column, after=after) == gold)


def vote(
    completion: str,
    sample: Sample,
    *,
    answer: AnswerFormat = "auto",
    options_column: str = "options",
    after: str | None = None,
) -> str | None:
    """The chosen letter."""
    letters, texts = _labels(sample, options_column)
    prediction = extract_prediction(completion, answer=answer) or ""
    if after is not None:
        parts = re.split(re.escape(after), prediction, flags=re.IGNORECASE)
        prediction = parts[1] if len(parts) == 2 else ""
    return parse_choice(prediction, letters=letters, options=texts)


def _labels(sample: Sample, column: str) -> tuple[Sequence[str], tuple[str, ...]]:
    """The row's letters and its options' texts; all letters and no text where it has no options."""
    options = labelled_options(sample, column=column)
    return tuple(options) or string.ascii_uppercase, tuple(options.values())


def chance(sample: Sample) -> float | None:
    """One in as many as the row has options; not stated where it does not say."""
    has_options = isinstance(sample.columns.get("options"), dict | list | tuple)
    options = labelled_options(sample) if has_options else {}
    return 1 / len(options) if options else None
