"""Which of a group's distinct answers a completion gives, as a measurement for shaping (`evol_rl`).

Formula: distinct answers are numbered from 0 in the order they first occur in the group; -1 where there is none.
Bounds: -1 upwards.
Answer: the text itself; case and blanks do not count, and numbers are equal that have the same value.
Space: none.
Source: the votes of TTRL and EVOL-RL. Not a score: give it weight 0.
Example: answers `4`, `five`, `4.0`, none: 0, 1, 0, -1.
"""

from collections.abc import Sequence

from mmrl.data.sample import Sample
from mmrl.scoring.camps import answer_classes
from mmrl.scoring.parse import AnswerFormat

BOUNDS = (-1.0, None)
MEASURE = True


def score_group(completions: Sequence[str], sample: Sample, *, answer: AnswerFormat = "auto") -> list[float]:
    """A number per completion."""
    return [float(number) for number in answer_classes(completions, answer=answer)]
