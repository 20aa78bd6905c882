"""Several candidate clicks of which one should hit, fewer and earlier being better (AEPO of InfiGUI-G1).

Formula: 1 / sqrt(N k) if candidate k of N is the first inside a box of the answer, else 0; 0 for no candidate, more
than 32, or three nearly on a line (a triangle flatter than 1 % of its longest side). `official`: -1 for a wrong form
or three on a line; else 1 + 1 / sqrt(N k) for a hit, 1 - 1 / N for a miss, 0 for an empty list.
Bounds: -1 to 2; without `official` 0 to 1.
Answer: a JSON list `[{"point_2d": [x, y]}, ...]`, most likely candidate first, alone or in a code fence, after the
thought; `[x, y]` pairs will do. `official` takes the first list behind the thought, whatever stands around it.
Space: the model's; the framework has converted the dataset's boxes after the resize.
Unit: pixels or 0..N, as the space says.
Source: InfiGUI-G1. Its reward of a miss rises with the number of candidates (0 for one, 0.99 for a hundred), so
guesses strewn over the screen beat an honest attempt; and a line scanned with a wobble passes its exact test. The
default pays for hits only: N blind guesses are worth at most twice one.
Example: answer [100, 100, 200, 150]: one hit 1 (official 2); 3 candidates, the second hits, 0.408248 (1.408248); 2
that miss 0 (0.5); 3 on a line 0 (-1); none 0 (0).
"""

from mmrl.data.sample import Sample
from mmrl.scoring.clicks import exploration_efficiency, gold_boxes, has_collinear_triple, in_box
from mmrl.scoring.listings import Point, read_points
from mmrl.scoring.literals import read_literal
from mmrl.scoring.parse import extract_prediction

GEOMETRY = "box"
BOUNDS = (-1.0, 2.0)
MOST = 32
FLATNESS = 0.01


def score(completion: str, sample: Sample, *, official: bool = False, no_think: bool = False) -> dict[str, float]:
    """`official`: the source's totals. `no_think`: with `official`, the completion need not begin with a thought."""
    boxes = gold_boxes(sample)
    points = _candidates(_first_list(completion.rpartition("</think>")[2]) if official else completion)
    rank = _rank(points or (), boxes)
    invalid = points is None or has_collinear_triple(points, flatness=0.0 if official else FLATNESS)
    extras = {"candidates": float(len(points or ())), "hit": float(rank is not None and not invalid)}
    if official:
        invalid = invalid or not (no_think or _has_thought(completion))
        reward = -1.0 if invalid else 1 + exploration_efficiency(len(points or ()), rank)
    else:
        reward = 0.0 if invalid or rank is None else exploration_efficiency(len(points or ()), rank)
    return {"reward": reward, **extras}


def _candidates(completion: str) -> tuple[Point, ...] | None:
    """The points of the answer, an empty tuple for an empty list, None for another form or too many."""
    value = read_literal(extract_prediction(completion) or "")
    points = read_points(value) if isinstance(value, list | dict) else None
    return points if points is not None and len(points) <= MOST else None


def _first_list(text: str) -> str:
    """From the first bracket to the one that closes it; empty where there is none."""
    text, depth = text[text.find("[") :] if "[" in text else "", 0
    for end, character in enumerate(text, start=1):
        depth += (character == "[") - (character == "]")
        if depth == 0:
            return text[:end]
    return ""


def _rank(points: tuple[Point, ...], boxes: tuple[tuple[float, ...], ...]) -> int | None:
    hits = (rank for rank, point in enumerate(points, start=1) if any(in_box(point, box) for box in boxes))
    return next(hits, None)


def _has_thought(completion: str) -> bool:
    """One `<think>..</think>` at the very start, with something in it and something after it."""
    thought, closed, rest = completion.removeprefix("<think>").partition("</think>")
    alone = completion.count("<think>") == completion.count("</think>") == 1
    return completion.startswith("<think>") and bool(closed and alone and thought.strip() and rest.strip())
