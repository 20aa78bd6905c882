"""Text typed into a field: F1 of its words.

Formula: F1 = 2 P R / (P + R) over words, a word counted as often as it occurs, 0 for more words than the answer
has; the best of several accepted answers; with `threshold` 1 if F1 >= threshold, else 0.
Bounds: 0 to 1.
Answer: the text, case ignored, words separated by blanks.
Space: none.
Source: GUI-R1's rule for `type` (`official`: over sets of words of any number, and two single words match if one
contains the other); a list of guesses, a word repeated or a single letter pays there.
Example: answer `shanghai shopping mall`: `Shanghai mall` 0.8, `weather today` 0, `mall mall mall` 0.333333 (official
0.5); answer `weather`: `e` 0 (official 1).
"""

from mmrl.data.sample import Sample
from mmrl.scoring.gold import gold_texts
from mmrl.scoring.gui_actions import word_f1, word_set_f1
from mmrl.scoring.parse import AnswerFormat, extract_prediction

BOUNDS = (0.0, 1.0)


def score(
    completion: str,
    sample: Sample,
    *,
    answer: AnswerFormat = "auto",
    threshold: float | None = None,
    official: bool = False,
) -> float:
    """`threshold`: score 1 from this F1 on and 0 below; None: the F1 itself. `official`: GUI-R1's comparison."""
    text = extract_prediction(completion, answer=answer) or ""
    compare = word_set_f1 if official else _f1
    f1 = max(compare(text, gold) for gold in gold_texts(sample))
    return f1 if threshold is None else float(f1 >= threshold)


def _f1(text: str, gold: str) -> float:
    # Whoever types a list of guesses into a field has typed none of them.
    return word_f1(text, gold) if len(text.split()) <= len(gold.split()) else 0.0
