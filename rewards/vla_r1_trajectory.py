"""Likeness of a drawn path for a robot's hand to the answer's, plus a share for the form (VLA-R1).

Formula: 0.9 task + 0.1 form. task: 1 - min(1, F / reach), F the discrete Frechet distance with the local cost distance
+ 0.25 angle of directions + 0.10 |ln of step lengths|; `official`: reach is D = sqrt 2 + 0.25 pi + 0.1 ln 10. form: 1
if the whole completion is `<think>..</think><output>JSON</output>`, else 0; no readable path is task 0.
Bounds: 0 to 1.
Answer: `<think>..</think><output>[[x, y], ...]</output>`, any number of points up to 500.
Space: the model's, VLA-R1's is 0..1 (`model.box_space: 0..1`); the framework has converted the dataset's list of
points. In pixels the column `answer_extent` says the size of the picture; lengths count in shares of its sides.
Unit: shares; radians.
Source: VLA-R1. Its D is so large that a path at right angles scores 0.6 and a point in the middle more than a half,
hence the smaller `reach`.
Example: answer (0.1, 0.1), (0.3, 0.1), (0.5, 0.1): the same 1; moved down by 0.1, F 0.1, 0.82 (official 0.962962);
half steps, F 0.269315, 0.515234 (official 0.900249); reversed, F 1.185398, 0.1 (official 0.560941).
"""

from mmrl.data.sample import Sample
from mmrl.scoring.clicks import answer_extent
from mmrl.scoring.gold import bad_answer
from mmrl.scoring.gold_places import gold_points
from mmrl.scoring.listings import Point, read_points
from mmrl.scoring.robot_output import read_output
from mmrl.scoring.trajectories import MOST_POINTS, VLA_R1_LIMIT, frechet, vla_r1_costs

GEOMETRY = "point"
BOUNDS = (0.0, 1.0)
FORM_SHARE = 0.1


def score(completion: str, sample: Sample, *, reach: float = 0.5, official: bool = False) -> dict[str, float]:
    """`reach`: distance from which the task scores 0. `official`: the source's."""
    extent = answer_extent(sample)
    gold = gold_points(sample)
    if len(gold) < 2:
        raise bad_answer(sample, wanted="a path of two or more points [x, y]")
    value, in_form = read_output(completion)
    path = read_points(value) if isinstance(value, list | tuple) else None
    task = 0.0
    if path and len(path) <= MOST_POINTS:
        distance = frechet(vla_r1_costs(_shares(path, extent), _shares(gold, extent)))
        task = 1 - min(1.0, distance / (VLA_R1_LIMIT if official else reach))
    return {"reward": (1 - FORM_SHARE) * task + FORM_SHARE * in_form, "task": task, "form": float(in_form)}


def _shares(path: tuple[Point, ...], extent: tuple[float, float]) -> list[Point]:
    return [(x / extent[0], y / extent[1]) for x, y in path]
