"""Which objects of a driving scene are named, in DriveLM's own form `<c1,CAM_BACK,1088.3,497.5>`.

Formula: F1 = 2 m / (named + answer), m the most pairs of a named and an answer's object of one camera, each used once,
with |dx| + |dy| < radius. `official`: the numbers with a decimal point in the whole text, in pairs, whatever the
camera; each in turn takes the nearest point left.
Bounds: 0 to 1.
Answer: text with tags `<name,CAMERA,x,y>`; the dataset's answer is text with one or more of them.
Space: none: a question shows such tags in pixels of the 1600 x 900 pictures, and answers are in the same, whatever
space the model writes elsewhere. Where answers are points in the model's space use `drivelm_match`.
Unit: pixels (`radius`).
Source: DriveLM challenge; there a wrong camera still matches and whole numbers are not seen.
Example: answer `<c1,CAM_BACK,1096.0,500.0>`: `<c1,CAM_BACK,1088.3,497.5>` 1 (10.2 px off); with CAM_FRONT 0 (official
1); one of two objects named 0.666667.
"""

import re

from mmrl.data.sample import Sample
from mmrl.scoring.driving_metrics import point_match_f1
from mmrl.scoring.gold import bad_answer
from mmrl.scoring.listings import Point
from mmrl.scoring.parse import AnswerFormat, extract_prediction
from mmrl.scoring.trajectories import MOST_POINTS

BOUNDS = (0.0, 1.0)
KNOWN_HACKS = {"options": "F1 pays for the right ones of a list of K objects, about 2 / (K + 1)"}
_NUMBER = r"\s*(\d{1,6}(?:\.\d{1,6})?)\s*"
_TAG = re.compile(rf"<[^<>,]{{1,40}},\s*([A-Z_]{{1,40}})\s*,{_NUMBER},{_NUMBER}>")
_DECIMAL = re.compile(r"(?<!\d)\d{1,9}\.\d{1,9}")
_APART = 1e6  # pixels between cameras, laid side by side


def score(
    completion: str,
    sample: Sample,
    *,
    answer: AnswerFormat = "auto",
    radius: float = 16.0,
    official: bool = False,
) -> float:
    """`radius`: sum of both distances below which objects are one. `official`: the source's reading and matching."""
    cameras: dict[str, int] = {}
    gold = _read(sample.answer, cameras, official) if isinstance(sample.answer, str) else ()
    if not gold:
        raise bad_answer(sample, wanted="a text with objects <name,CAMERA,x,y>")
    named = _read(extract_prediction(completion, answer=answer) or "", cameras, official)
    return 0.0 if len(named) > MOST_POINTS else point_match_f1(named, gold, radius=radius, greedy=official)


def _read(text: str, cameras: dict[str, int], official: bool) -> tuple[Point, ...]:
    """The objects as points; those of different cameras lie too far apart to match."""
    if official:
        numbers = [float(m[0]) for m in _DECIMAL.finditer(text)]
        return tuple(zip(numbers[::2], numbers[1::2], strict=False))
    return tuple(
        (float(m[2]) + _APART * cameras.setdefault(m[1], len(cameras)), float(m[3])) for m in _TAG.finditer(text)
    )
