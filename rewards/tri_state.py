"""How far recorded frames have come, by a model of gaining, standing still and losing ground (ARM).

Formula: the progress at the last frame: 1 from the frame on at which the model calls the task completed; without such a
frame the net gain of the intervals by the mean net gain of clips that succeed, between 0 and 1.
Bounds: 0 to 1.
Answer: any text; it is not read. The frames are the row's clip, its pictures, or those that `frames_column` names by
paths; the instruction is the row's question, or the text of `text_column`.
Space: none.
Source: ARM. Advantages and weights for cloning are `arm_gains` and `arm_weights` in `mmrl/reward_models/targets.py`.
Example: states 1, 1, -1 of clips that gain 4: 0.25; completed: 1.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from mmrl.data.sample import Sample
from mmrl.errors import RewardError
from mmrl.reward_models.rewards import Asked, check_reward_model, score_rows

BOUNDS = (0.0, 1.0)
MEASURE = True
NEEDS_MEDIA = True


def preflight(options: Mapping[str, Any], timeout_s: float) -> None:
    check_reward_model(options, kind="tri_state")


def score_batch(
    completions: Sequence[str],
    samples: Sequence[Sample],
    *,
    reward_model: str,
    frames_column: str | None = None,
    text_column: str | None = None,
    device: str = "cpu",
    weights: str | None = None,
    text_weights: str | None = None,
) -> list[dict[str, float] | RewardError]:
    """`reward_model`: folder that `mmrl train-reward` wrote. `weights`, `text_weights`: of its encoders, if moved."""
    asked = Asked(reward_model, "tri_state", device, weights, text_weights, frames_column, text_column)
    return score_rows(samples, asked)
