"""Whether a click lands in the answer's box, and how near to its centre (SE-GUI).

Formula: [point in box] + max(0, 1 - (d / reach)^2), d the distance to the box's centre with the picture's width and
height as 1; `official`: reach is the distance to the picture's corner farthest from the centre, and 0 where d > 1.
Bounds: 0 to 2.
Answer: one point: a tool call with `"coordinate": [x, y]` (in `<tool_call>` or alone), `x y`, `{"point_2d": [x, y]}`.
Space: the model's; the framework has converted the dataset's box after the resize. The size of the picture is N x N
in a space 0..N; in pixels it is the column `answer_extent`, [width, height] in that space.
Source: SE-GUI. Its reach gives the middle of any screen about 0.8 without looking, hence the smaller default; add
`format` for its third part.
Example: answer [100, 100, 200, 140] on 1000 x 1000: `150 120` 2, `190 130` 1.9575 (official 1.998883), `500 500` 0
(official 0.821717), `1000 1000` 0.
"""

from typing import Any

from mmrl.data.sample import Sample
from mmrl.scoring.clicks import answer_extent, centre_decay, in_box
from mmrl.scoring.gold import gold_geometry
from mmrl.scoring.listings import Point
from mmrl.scoring.literals import as_numbers, read_literal
from mmrl.scoring.parse import AnswerFormat, extract_prediction, parse_geometry

GEOMETRY = "box"
BOUNDS = (0.0, 2.0)


def score(
    completion: str, sample: Sample, *, answer: AnswerFormat = "auto", reach: float = 0.2, official: bool = False
) -> dict[str, float]:
    """`reach`: distance, in sides of the picture, from which the second part is 0. `official`: the source's."""
    gold, extent = gold_geometry(sample, kind="box"), answer_extent(sample)
    point = _point(extract_prediction(completion, answer=answer) or "")
    if point is None:
        return {"reward": 0.0, "inside": 0.0, "decay": 0.0}
    inside = float(in_box(point, gold))
    decay = centre_decay(point, gold, extent=extent, reach=None if official else reach)
    return {"reward": inside + decay, "inside": inside, "decay": decay}


def _point(text: str) -> Point | None:
    """The coordinate of the one tool call, else the one point of the text."""
    if text.count("<tool_call>") == 1:
        text = text.partition("<tool_call>")[2].partition("</tool_call>")[0]
    call: Any = read_literal(text)
    arguments = call.get("arguments") if isinstance(call, dict) else None
    if isinstance(arguments, dict):
        found = as_numbers(arguments.get("coordinate"), count=2)
    else:
        found = parse_geometry(text, kind="point")
    return (found[0], found[1]) if found else None
