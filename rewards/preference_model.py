"""How good recorded frames look for what the row asks for, by a model of preferences (RL-VLM-F).

Formula: the mean over the frames and over the model's members of their rewards; `disagreement` (logged) is the members'
standard deviation.
Bounds: -1 to 1.
Answer: any text; it is not read. The frames are the row's clip, its pictures, or those that `frames_column` names by
paths; the instruction is the row's question, or the text of `text_column`.
Space: none.
Source: RL-VLM-F, Bradley-Terry on the preferences of a vision-language model.
Example: a preferred frame scores more than the one it was preferred to.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from mmrl.data.sample import Sample
from mmrl.errors import RewardError
from mmrl.reward_models.rewards import Asked, check_reward_model, score_rows

BOUNDS = (-1.0, 1.0)
MEASURE = True
NEEDS_MEDIA = True


def preflight(options: Mapping[str, Any], timeout_s: float) -> None:
    check_reward_model(options, kind="preference")


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
    asked = Asked(reward_model, "preference", device, weights, text_weights, frames_column, text_column)
    return score_rows(samples, asked)
