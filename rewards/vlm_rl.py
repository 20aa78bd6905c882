"""Driving by a picture and the vehicle's state: words set the speed that is wanted, the lane sets the rest (VLM-RL).

Formula: per state (1 - |v - s target| / target) max(0, 1 - offset / 2) max(0, 1 - |angle| / 90) max(0, 1 - std / 0.35).
s: 1 - clip(cos(x, bad) - cos(x, good), 0, `width`) / width of its frame x; std: of the offsets of the last 30 states.
-10 for the state that fails, the last one: it says so, is faster than 35 km/h, more than 2 m from the lane's centre, or
ends 90 s below 1 km/h. The mean over the states up to there.
Bounds: at most 1.
Answer: any text; it is not read. The column `states` is a list of {speed_kmh, offset_m, angle_deg, failed}, `dt`
(column, 0.5) seconds apart, failed false where it is left out. The frames are the row's clip, its pictures, or those
that `frames_column` names by paths: one a state, or as many taken evenly.
Space: none.
Unit: km/h, metres, degrees, seconds.
Source: zihaosheng/VLM-RL, its best set of constants. The speed's factor falls below 0 above twice the target in the
source; so here, unless `least_speed` bounds it. The encoder there is OpenCLIP ViT-bigG-14.
Example: cosines bad 0.20, good 0.21, 25 km/h in the middle of the lane: 1; bad 0.22, good 0.205, 0.5 m off, 9 degrees,
std 0.07: 0.27; bad 0.24, good 0.20 at 25 km/h 0, standing still 1; failed -10.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mmrl.data.sample import Sample
from mmrl.errors import RewardError
from mmrl.scoring.batch import each
from mmrl.scoring.driving_metrics import VehicleState, VlmRlLimits, vlm_rl_reward
from mmrl.scoring.driving_rows import interval
from mmrl.scoring.encoders import check_encoder, encoder_of
from mmrl.scoring.episodes import vehicle_states
from mmrl.scoring.subjects import Footage

BOUNDS = (None, 1.0)
MEASURE = True
NEEDS_MEDIA = True
GOOD = "The road is clear with no car accidents"
BAD = "Two cars have collided with each other on the road"
STILL_S = 90.0
Episode = tuple[list[VehicleState], list[np.ndarray]]


def preflight(options: Mapping[str, Any], timeout_s: float) -> None:
    check_encoder(options["encoder"], reads=("pictures", "texts"))


def score_batch(
    completions: Sequence[str],
    samples: Sequence[Sample],
    *,
    encoder: dict[str, Any],
    good: str = GOOD,
    bad: str = BAD,
    width: float = 0.03,
    target_kmh: float = 25.0,
    most_kmh: float = 35.0,
    most_offset_m: float = 2.0,
    most_offset_std_m: float = 0.35,
    least_speed: float | None = None,
    history: int = 30,
    frames_column: str | None = None,
) -> list[dict[str, float] | RewardError]:
    """`most_offset_m`, `most_offset_std_m`: where the factors are 0. `history`: states that std is taken over."""
    frozen = encoder_of(encoder)
    bad_D, good_D = frozen.texts([bad, good])
    limits = VlmRlLimits(
        target_kmh=target_kmh,
        offset_m=most_offset_m,
        offset_std_m=most_offset_std_m,
        contrast=width,
        least_speed_reward=least_speed,
    )

    def episode(_: str, sample: Sample) -> Episode:
        still = max(1, math.ceil(STILL_S / interval(sample)))
        bounds = {"most_kmh": most_kmh, "most_offset_m": most_offset_m, "most_still": still, "history": history}
        return _with_frames(vehicle_states(sample, "states", **bounds), sample, frames_column)

    found = each(episode, completions, samples)
    vectors = iter(frozen.pictures([p for e in found if isinstance(e, tuple) for p in e[1]]))

    def result(states: Sequence[VehicleState]) -> dict[str, float]:
        seen = [next(vectors) for _ in states]
        rewards = [
            vlm_rl_reward(cos_negative=float(x_D @ bad_D), cos_positive=float(x_D @ good_D), state=state, limits=limits)
            for x_D, state in zip(seen, states, strict=True)
        ]
        logged = {"last": rewards[-1], "states": float(len(states)), "failed": float(states[-1].failed)}
        return {"reward": math.fsum(rewards) / len(rewards), **logged}

    return [e if isinstance(e, RewardError) else result(e[0]) for e in found]


def _with_frames(states: list[VehicleState], sample: Sample, column: str | None) -> Episode:
    """The states up to the one that fails with their frames, one for every state of the row."""
    count = len(sample.columns["states"])
    frames = Footage(column, most=count).frames(sample)
    if len(frames) < count:
        raise RewardError(f"{sample.where}: {count} states need as many frames; there are {len(frames)}")
    return states, frames[: len(states)]
