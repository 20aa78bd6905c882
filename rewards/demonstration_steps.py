"""How far recorded frames get through the steps of demonstrations, by a frozen image encoder (Sermanet et al.).

Formula: each demonstration is cut into `steps` so that features vary least inside a step; of each step the 32 features
with the largest 5 |mean+ - mean-| - (sd+ + sd-) against all other frames are kept. At a frame R is 1 - d / away, not
below 0: d is the mean of ((s - mean+) / sd+)^2, away its median over the frames of the other steps. Steps take
frames of their own in order, so that the reward is largest, and none is worth more than those before it: the sum of
2^(i - 1) R_i over the steps from the second on, by its largest value, 2^steps - 2.
Bounds: 0 to 1.
Answer: any text; it is not read. The frames are the row's clip, its pictures, or those that `frames_column` names by
paths.
Space: none.
Source: Sermanet et al., Unsupervised Perceptual Rewards; constants from memory of the paper; the scale by `away`, the
least sd+ (a fifth of a feature's spread) and the order of steps are ours. Vectors have a mean square of 1.
Example: of three steps the first 0, the first two 2 / 6, all three 1.
"""

import functools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mmrl.config.encoder_section import EncoderSection, read_encoder
from mmrl.data.sample import Sample
from mmrl.errors import ConfigError, MediaError, RewardError
from mmrl.scoring.batch import each
from mmrl.scoring.demonstrations import Step, combined, in_order, learn_steps, step_rewards
from mmrl.scoring.encoders import Encoder, check_encoder, encoder_of
from mmrl.scoring.subjects import Footage, path_frames

BOUNDS = (0.0, 1.0)
MEASURE = True
NEEDS_MEDIA = True


def preflight(options: Mapping[str, Any], timeout_s: float) -> None:
    check_encoder(options["encoder"], reads=("pictures",))
    if options["steps"] < 2:
        raise ConfigError("demonstration_steps needs at least 2 steps: the first one is where everything starts")
    if not options["demonstrations"]:
        raise ConfigError("demonstration_steps needs at least one clip in the option 'demonstrations'")
    for path in (path for demo in options["demonstrations"] for path in _files(demo)):
        if not Path(path).is_file():
            raise ConfigError(f"demonstration_steps: there is no file {path}")


def score_batch(
    completions: Sequence[str],
    samples: Sequence[Sample],
    *,
    encoder: dict[str, Any],
    demonstrations: list[str | list[str]],
    steps: int = 3,
    frames_column: str | None = None,
    most_frames: int = 32,
) -> list[dict[str, float] | RewardError]:
    """`demonstrations`: the task done well, each a clip or a list of pictures. `most_frames`: of each, evenly."""
    frozen = encoder_of(encoder)
    learned = _learned(read_encoder(encoder).model_dump_json(), tuple(map(_files, demonstrations)), steps, most_frames)
    footage = Footage(frames_column, most=most_frames)
    found = each(lambda _, sample: footage.frames(sample), completions, samples)
    features = iter(_features(frozen, [p for frames in found if isinstance(frames, list) for p in frames]))

    def result(frames: list[np.ndarray]) -> dict[str, float]:
        reached = in_order(step_rewards(learned, np.stack([next(features) for _ in frames])))
        value = combined(reached) / (2.0**steps - 2.0)
        return {"reward": value, **{f"step_{n + 1}": reward for n, reward in enumerate(reached)}}

    return [frames if isinstance(frames, RewardError) else result(frames) for frames in found]


def _files(demonstration: str | list[str]) -> tuple[str, ...]:
    return (demonstration,) if isinstance(demonstration, str) else tuple(demonstration)


@functools.lru_cache(maxsize=8)
def _learned(encoder: str, demos: tuple[tuple[str, ...], ...], steps: int, most: int) -> list[Step]:
    frozen = encoder_of(EncoderSection.model_validate_json(encoder))
    try:
        return learn_steps([_features(frozen, path_frames(files, most=most)) for files in demos], steps=steps)
    except (MediaError, ValueError) as error:
        raise ConfigError(f"demonstration_steps: {error}") from error


def _features(frozen: Encoder, frames: Sequence[np.ndarray]) -> np.ndarray:
    vectors_FD = frozen.pictures(frames)
    return vectors_FD * math.sqrt(vectors_FD.shape[1])
