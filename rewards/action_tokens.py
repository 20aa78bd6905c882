"""A robot's action written in 256 bins per dimension, against the demonstrated action.

Formula: `l1`: exp(-mean |u - u*| / scale); `success`: 1 if every |u - u*| <= tolerance, else 0. u: the middles of the
bins, u*: the demonstrated action, both in -1..1: 2 (a - q01) / (q99 - q01) - 1 per dimension, clipped; dimensions
outside the mask (a gripper) are compared as they are.
Bounds: 0 to 1.
Answer: one bin from 0 to 255 per dimension: `128 91 ..`, `[128, 91, ..]` or `<action_128><action_91>..`; with
`vocab_size` OpenVLA's token ids of such a vocabulary. Another number of them scores 0.
Space: none; the dataset's answer is the action in the robot's units. Statistics by dataset stand in the option `stats`
or the column `action_stats`, `{name: {q01: [..], q99: [..], mask: [..]}}`; a name that is missing is an error that
lists them.
Unit: of the robot; the score is in normalised units.
Source: OpenVLA's tokens and scaling. A plain 1 - L1 would give the mean action of all rows nearly 1.
Example: statistics [-0.02, 0.03]: answer 0.0125 (u* 0.3), bin 165 (u 0.298039) 0.980586; bin 127 (u 0) 0.049787.
"""

from typing import Any, Literal

import numpy as np

from mmrl.data.sample import Sample
from mmrl.scoring.gold import bad_answer
from mmrl.scoring.literals import as_numbers
from mmrl.scoring.parse import AnswerFormat, extract_prediction
from mmrl.scoring.robot_output import action_distance, action_stats, decode_bins, parse_bins

BOUNDS = (0.0, 1.0)


def score(
    completion: str,
    sample: Sample,
    *,
    answer: AnswerFormat = "auto",
    measure: Literal["l1", "success"] = "l1",
    scale: float = 0.1,
    tolerance: float = 0.1,
    stats: dict[str, Any] | None = None,
    stats_key: str | None = None,
    vocab_size: int | None = None,
) -> dict[str, float]:
    """`stats_key`: whose statistics; None: those of the row's dataset. `scale`, `tolerance`: normalised units."""
    scaling = action_stats(sample, key=stats_key, given=stats)
    gold = as_numbers(sample.answer, count=len(scaling.q01_A))
    if gold is None:
        raise bad_answer(sample, wanted=f"an action of {len(scaling.q01_A)} numbers, as many as its statistics")
    bins = parse_bins(extract_prediction(completion, answer=answer) or "", vocab_size=vocab_size)
    if bins is None or len(bins) != len(gold):
        return {"reward": 0.0}
    predicted_A, gold_A = decode_bins(bins), scaling.normalise(gold)
    distance = action_distance(predicted_A.tolist(), gold_A.tolist(), kind="l1")
    success = float((np.abs(predicted_A - gold_A) <= tolerance).all())
    reward = success if measure == "success" else float(np.exp(-distance / scale))
    return {"reward": reward, "l1": distance, "success": success}
