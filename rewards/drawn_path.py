"""A path for a robot's hand drawn into a picture, against the answer's path.

Formula: 1 - min(1, F / reach), F the discrete Frechet distance in shares of the picture's sides. The values `frechet`,
`hausdorff` and, for as many points as the answer has, `rmse` are logged.
Bounds: 0 to 1.
Answer: two to 500 points, `[[x, y], ...]`, `[{"point_2d": [x, y]}, ...]`.
Space: the model's; the framework has converted the dataset's list of points after the resize. In pixels the column
`answer_extent` says the size of the picture.
Unit: shares of the picture's sides.
Source: the three distances that RoboBrain reports on trajectories. `vla_r1_trajectory` is VLA-R1's likeness, with a
form.
Example: answer (0.1, 0.1), (0.5, 0.1) of 0..1: the same 1; moved down by 0.1: all three 0.1, reward 0.8; reversed:
Frechet 0.4, Hausdorff 0, reward 0.2.
"""

from mmrl.data.sample import Sample
from mmrl.scoring.clicks import answer_extent
from mmrl.scoring.gold import bad_answer
from mmrl.scoring.gold_places import gold_points
from mmrl.scoring.listings import Point
from mmrl.scoring.parse import AnswerFormat, extract_prediction
from mmrl.scoring.trajectories import displacements, distances, frechet, hausdorff, parse_path, rmse

GEOMETRY = "point"
BOUNDS = (0.0, 1.0)


def score(completion: str, sample: Sample, *, answer: AnswerFormat = "auto", reach: float = 0.5) -> dict[str, float]:
    """`reach`: Frechet distance from which the path scores 0."""
    extent, gold = answer_extent(sample), gold_points(sample)
    if len(gold) < 2:
        raise bad_answer(sample, wanted="a path of two or more points [x, y]")
    path = parse_path(extract_prediction(completion, answer=answer) or "", least=2)
    if path is None:
        return {"reward": 0.0}
    drawn, wanted = _shares(path, extent), _shares(gold, extent)
    distance_NM = distances(drawn, wanted)
    far = frechet(distance_NM)
    found = {"reward": 1 - min(1.0, far / reach), "frechet": far, "hausdorff": hausdorff(distance_NM)}
    return {**found, "rmse": rmse(displacements(drawn, wanted))} if len(drawn) == len(wanted) else found


def _shares(path: tuple[Point, ...], extent: tuple[float, float]) -> list[Point]:
    return [(x / extent[0], y / extent[1]) for x, y in path]
