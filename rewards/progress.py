"""How far recorded frames have come with what the row asks for, by a trained progress model (ReWiND).

Formula: the progress that the model tells at the last frame, from all frames up to it. `gain` (logged): that less the
progress at the first frame.
Bounds: 0 to 1.
Answer: any text; it is not read. The frames are the row's clip, its pictures, or those that `frames_column` names by
paths; the instruction is the row's question, or the text of `text_column`.
Space: none.
Source: ReWiND. Its environment reward adds 64 for success: give the success itself a part of its own.
Example: a clip that ends where demonstrations end about 1, one that was played back about 0.
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
    check_reward_model(options, kind="progress")


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
    asked = Asked(reward_model, "progress", device, weights, text_weights, frames_column, text_column)
    return score_rows(samples, asked)
