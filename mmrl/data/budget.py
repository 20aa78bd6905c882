"""How many pixels, frames and tokens a medium costs: pure arithmetic, equal to the model family's own processor.

A plan is made from numbers alone (width, height, frame count, rate), so preprocessing, rollout, training, evaluation
and `mmrl check` count the same tokens without opening a file twice. Areas are width x height in pixels. The rules are
the families' own: see their modules in mmrl/models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mmrl.config.schema import BudgetClass
from mmrl.data.vision import MediaPlan, SizeError, VisionGeometry


def plan_image(width: int, height: int, budget: BudgetClass, geometry: VisionGeometry) -> MediaPlan:
    """Size of an image of width x height source pixels. Raises SizeError.

    Qwen2.5-VL, a 640 x 480 photo, max_pixels 84 * 84: 84 x 56 pixels, grid (1, 4, 6), 6 tokens.
    """
    _check_area(width, height)
    return geometry.plan_image(width, height, budget)


def plan_video(num_frames: int, width: int, height: int, budget: BudgetClass, geometry: VisionGeometry) -> MediaPlan:
    """Size of `num_frames` sampled frames of width x height source pixels. Raises SizeError.

    Qwen2.5-VL, nine 240 x 180 frames, max_pixels 112 * 112: 112 x 84, grid (5, 6, 8).
    """
    _check_area(width, height)
    if num_frames < 1:
        raise SizeError("a clip without frames has no size")
    return geometry.plan_clip(num_frames, width, height, budget)


def sample_frames(
    total_frames: int, source_fps: float, budget: BudgetClass, geometry: VisionGeometry
) -> tuple[int, ...]:
    """Indices of the frames taken from a clip of constant rate. Raises SizeError for an empty clip.

    `sample_fps` frames per second, at least min_frames and at most max_frames, never more than the clip has.
    """
    if total_frames < 1 or source_fps <= 0:
        raise SizeError(f"cannot sample {total_frames} frames at {source_fps} frames per second")
    return geometry.sample(total_frames, source_fps, budget)


def sample_times(
    timestamps_s: Sequence[float] | np.ndarray, source_fps: float, budget: BudgetClass, geometry: VisionGeometry
) -> tuple[int, ...]:
    """Indices into sorted presentation times, taken evenly over time; for a constant rate equal to `sample_frames`.

    source_fps is the mean rate (frames / duration). Each index of the constant-rate choice stands for a moment between
    the first and the last frame; the frame nearest to it is taken, the earlier one of two. A frame that stays on
    screen for long may be taken more than once.

    Times 0, 1, 2, 3 and 13 s with wanted indices 0 and 2 of 5: the moments are 0 and 6.5 s, the frames 0 and 3.
    """
    times = np.asarray(timestamps_s, dtype=np.float64)
    wanted = sample_frames(len(times), source_fps, budget, geometry)
    if len(times) == 1:
        return wanted
    step_s = (times[-1] - times[0]) / (len(times) - 1)
    moments = times[0] + np.asarray(wanted) * step_s
    after = np.clip(np.searchsorted(times, moments), 1, len(times) - 1)
    # Half a step in a million keeps rounded container times from turning a tie between two frames around.
    nearer_before = moments - times[after - 1] <= times[after] - moments + step_s * 5e-7
    return tuple(int(i) for i in np.where(nearer_before, after - 1, after))


def sampled_fps(num_sampled: int, total_frames: int, source_fps: float) -> float:
    """Frames per second after sampling: 4 of 60 frames at 30 fps are 2.0."""
    return num_sampled / total_frames * source_fps


@dataclass(frozen=True, slots=True)
class SourceSize:
    """A medium to be sized again: source pixels, sampled frames (None for an image), tokens it costs now."""

    width: int
    height: int
    num_frames: int | None
    num_tokens: int


def largest_max_pixels(media: Sequence[SourceSize], max_tokens: int, geometry: VisionGeometry) -> int | None:
    """The largest max_pixels, common to all media, with which they cost at most max_tokens together.

    A multiple of geometry.token_pixels; None where even that is too much. Assumes the frames that are already sampled,
    and min_pixels no larger than the result. No medium is enlarged by it.

    Four photos of 1792 x 896 pixels (2,048 tokens each), 4,000 tokens, token side 28: 828,688 pixels, 990 tokens each.
    """
    token_pixels = geometry.token_pixels
    low, high = 0, max((medium.num_tokens for medium in media), default=0)
    while low < high:
        middle = (low + high + 1) // 2
        fits = sum(_tokens_at(medium, middle * token_pixels, geometry) for medium in media) <= max_tokens
        low, high = (middle, high) if fits else (low, middle - 1)
    return low * token_pixels or None


def _tokens_at(medium: SourceSize, max_pixels: int, geometry: VisionGeometry) -> int:
    budget = BudgetClass.model_validate({"min_pixels": 1, "max_pixels": max_pixels, "total_pixels": None})
    size = (medium.width, medium.height, budget, geometry)
    plan = plan_image(*size) if medium.num_frames is None else plan_video(medium.num_frames, *size)
    return min(plan.num_tokens, medium.num_tokens)


def _check_area(width: int, height: int) -> None:
    if width < 1 or height < 1:
        raise SizeError(f"{width}x{height} pixels: nothing to see")
