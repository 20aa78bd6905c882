"""Recorded frames against a goal in words and its opposite, by a text-image encoder (VLM-RL, VLM-RM, LORD, RoboCLIP).

Formula: clg: 1 - clip(cos(x, bad) - cos(x, good), 0, `width`) / width (VLM-RL's contrasting language goals); vlm_rm:
1 - |P (x - good)|^2 / 2, P half the projection on good - bad and half the identity; lord: 1 - cos(x, bad); roboclip:
cos(x, good). The mean over the frames; of roboclip the cosine of the frames' mean.
Bounds: -1 to 2; clg 0 to 1.
Answer: any text; it is not read. The frames are the row's clip, its pictures, or those that `frames_column` names by
paths.
Space: none.
Source: VLM-RL and the baselines in its code. Its other factors (speed, place and heading of the vehicle) are
`vlm_rl_reward` in `mmrl/scoring/driving_metrics.py`: alone, this pays a car for standing still. RoboCLIP's own encoder
reads clips.
Example: clg of cosines bad 0.22, good 0.205: 0.5; good the nearer one: 1; bad nearer by 0.03 or more: 0.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mmrl.data.sample import Sample
from mmrl.errors import ConfigError, RewardError
from mmrl.scoring.batch import each
from mmrl.scoring.encoders import check_encoder, encoder_of, unit
from mmrl.scoring.similarities import GoalForm, goal_score
from mmrl.scoring.subjects import Footage

BOUNDS = (-1.0, 2.0)
MEASURE = True
NEEDS_MEDIA = True
_GOALS = {"clg": ("good", "bad"), "vlm_rm": ("good", "bad"), "lord": ("bad",), "roboclip": ("good",)}


def preflight(options: Mapping[str, Any], timeout_s: float) -> None:
    check_encoder(options["encoder"], reads=("pictures", "texts"))
    for goal in _GOALS[options["form"]]:
        if not options[goal]:
            raise ConfigError(f"language_goals with form {options['form']!r} needs the option {goal!r}, a text")


def score_batch(
    completions: Sequence[str],
    samples: Sequence[Sample],
    *,
    encoder: dict[str, Any],
    good: str | None = None,
    bad: str | None = None,
    form: GoalForm = "clg",
    width: float = 0.03,
    frames_column: str | None = None,
    most_frames: int = 16,
) -> list[dict[str, float] | RewardError]:
    """`good`, `bad`: the goal and its opposite in words. `width`: of clg, the difference at which it is 0."""
    frozen = encoder_of(encoder)
    good_D, bad_D = (frozen.texts([goal])[0] if goal else None for goal in (good, bad))
    footage = Footage(frames_column, most=most_frames)
    found = each(lambda _, sample: footage.frames(sample), completions, samples)
    vectors = iter(frozen.pictures([p for frames in found if isinstance(frames, list) for p in frames]))

    def result(frames: list[np.ndarray]) -> dict[str, float]:
        frames_FD = np.stack([next(vectors) for _ in frames])
        seen_FD = unit(frames_FD.mean(axis=0, keepdims=True)) if form == "roboclip" else frames_FD
        scores = [goal_score(x_D, form=form, good_D=good_D, bad_D=bad_D, width=width) for x_D in seen_FD]
        return {"reward": float(np.mean(scores)), "least": min(scores), "last": scores[-1]}

    return [frames if isinstance(frames, RewardError) else result(frames) for frames in found]
