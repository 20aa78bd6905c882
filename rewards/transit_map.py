"""Questions and ride plans on a transit map, weighted by difficulty.

Formula: W * (10 * correct + 0.5 * detail); W = the map's 1.0 (easy), 1.2 (middle) or 1.5 (hard), + 0.5 for a plan with
a transfer or more. A plan is correct if it starts and ends at the asked stations, every leg's stops are on its line
and legs meet. detail, of plans only: 0 unless both ends are right, else 2; per leg -5 if it is one too many (i >
transfers + 1), +4 (no transfer asked) if the line holds both asked stations, +3 (transfers) if the line exists, +1 if
it leads to the next leg before the last; at most 10.
Bounds: -infinity to 30.
Answer: `kind: plan`: legs separated by `--`, each `Route Name: ..`, `Departure Stop: ..`, `Arrival Stop: ..`; `choice`
(a letter), `count` (a number) or `boolean`. The dataset's answer of a plan is `{"from": .., "to": .., "transfers":
1}`, the column `lines` maps each line to its stops, the column `difficulty` says easy, middle or hard.
Space: none.
Source: RewardMap. Its released code subtracts 5 from i > transfers on (`official`), so from the last leg of every
plan.
Example: one transfer, all right, middle: 1.7 * (10 + 4.5) = 24.65 (official 20.4); a right letter on a hard map 15.
"""

from typing import Any, Literal

from mmrl.data.sample import Sample
from mmrl.errors import RewardError
from mmrl.scoring.gold import bad_answer, gold_number, gold_text
from mmrl.scoring.parse import AnswerFormat, extract_prediction, parse_choice, parse_number
from mmrl.scoring.transit import Ride, detail, is_correct, read_plan
from mmrl.scoring.truth import parse_truth

BOUNDS = (None, 30.0)

Kind = Literal["plan", "choice", "count", "boolean"]
_WEIGHTS = {"easy": 1.0, "middle": 1.2, "hard": 1.5}


def score(
    completion: str,
    sample: Sample,
    *,
    kind: Kind = "plan",
    answer: AnswerFormat = "auto",
    official: bool = False,
) -> dict[str, float]:
    """Also returns `correct` and `detail`. `kind`: what is asked. `official`: the source's penalty of right plans."""
    weight = _map_weight(sample)
    text = extract_prediction(completion, answer=answer) or ""
    if kind != "plan":
        correct = float(_is_right(text, sample, kind))
        return {"reward": weight * 10 * correct, "correct": correct, "detail": 0.0}
    ride = _ride(sample)
    legs = read_plan(text)
    if legs is None:
        return {"reward": 0.0, "correct": 0.0, "detail": 0.0}
    correct, credit = float(is_correct(legs, ride)), detail(legs, ride, official=official)
    weight += 0.5 if ride.transfers else 0.0
    return {"reward": weight * (10 * correct + 0.5 * credit), "correct": correct, "detail": credit}


def _map_weight(sample: Sample) -> float:
    difficulty = sample.columns.get("difficulty")
    if not isinstance(difficulty, str) or difficulty not in _WEIGHTS:
        known = ", ".join(_WEIGHTS)
        raise RewardError(f"{sample.where}: the column 'difficulty' is {difficulty!r}; it must be one of {known}")
    return _WEIGHTS[difficulty]


def _ride(sample: Sample) -> Ride:
    answer, lines = sample.answer, sample.columns.get("lines")
    fields: Any = [answer.get(key) for key in ("from", "to", "transfers")] if isinstance(answer, dict) else [None] * 3
    start, end, transfers = fields
    if not isinstance(start, str) or not isinstance(end, str) or not isinstance(transfers, int) or transfers < 0:
        raise bad_answer(sample, wanted='a ride, {"from": "A", "to": "B", "transfers": 0}')
    if not isinstance(lines, dict) or not all(isinstance(stops, list) for stops in lines.values()):
        raise RewardError(f"{sample.where}: the column 'lines' must map each line of the map to the list of its stops")
    return Ride(start, end, transfers, {name: tuple(map(str, stops)) for name, stops in lines.items()})


def _is_right(text: str, sample: Sample, kind: Kind) -> bool:
    if kind == "count":
        return parse_number(text) == gold_number(sample)
    parse = parse_choice if kind == "choice" else parse_truth
    gold = parse(str(sample.answer) if isinstance(sample.answer, bool) else gold_text(sample))
    if gold is None:
        raise bad_answer(sample, wanted="a letter" if kind == "choice" else "yes or no")
    return parse(text) == gold
