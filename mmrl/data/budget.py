"""How many pixels, frames and tokens a medium costs: pure arithmetic, equal to the model family's own processor.

A plan is made from numbers alone (width, height, frame count, rate), so preprocessing, rollout, training, evaluation
and `mmrl check` count the same tokens without opening a file twice. Areas are width x height in pixels.

Two rules exist, named after the processors of transformers 5.19 that they equal:

    rule    clip size                                                    sampled frames
    qwen2   every frame is sized alone, between min_pixels and           an even count, spread from the first frame
            min(max_pixels, total_pixels / frames)
    qwen3   the clip is sized as a volume, between min_pixels and        any count, spread from first to last frame
            frames * min(max_pixels, total_pixels / frames)

In both, a frame's cap is never below 1.05 * min_pixels, even where total_pixels asks for less, and sizes are multiples
of patch_size * merge_size. `total_pixels` counts every sampled frame. (qwen-vl-utils counts pairs of frames, so its
total_pixels is half of ours.) Under qwen3, min_pixels bounds the whole clip, as it does in that processor.

The same budget in transformers, with f = patch_size * merge_size and t = temporal_patch_size:
    images  Qwen2VLImageProcessor(size={shortest_edge: min_pixels, longest_edge: max_pixels})
    qwen2   Qwen2VLVideoProcessor(size={shortest_edge: min_pixels, longest_edge: max_pixels},
            cap_pixels_per_frame=True, max_video_tokens=total_pixels / (t * 0.9 * f * f))
    qwen3   Qwen3VLVideoProcessor(size={shortest_edge: min_pixels, longest_edge: total_pixels},
            cap_pixels_per_frame=True, max_video_tokens=max_pixels / (f * f))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mmrl.config.schema import BudgetClass
from mmrl.errors import MmrlError

MAX_ASPECT_RATIO = 200
VideoRule = Literal["qwen2", "qwen3"]


class SizeError(MmrlError):
    """A medium that no budget can fit: without pixels or frames, or longer than 200 times its width."""


@dataclass(frozen=True, slots=True)
class VisionGeometry:
    """What a model family's processor does to pixels, besides the budget.

    patch_size, merge_size: a token covers a square of patch_size * merge_size pixels (`factor`).
    temporal_patch_size: frames of one temporal patch; a still or an odd last frame is repeated to fill it.
    image_mean, image_std: per RGB channel, of values scaled by rescale_factor.
    video_rule: how clips are sized and sampled, see the table above.
    default_total_pixels: total_pixels of a budget that states none.
    tokens_per_second: temporal positions per second of a clip, for families whose positions know time.
    """

    family: str
    patch_size: int
    merge_size: int
    temporal_patch_size: int
    image_mean: tuple[float, float, float]
    image_std: tuple[float, float, float]
    video_rule: VideoRule
    default_total_pixels: int
    rescale_factor: float = 1 / 255
    tokens_per_second: float | None = None

    @property
    def factor(self) -> int:
        """Width and height are multiples of this."""
        return self.patch_size * self.merge_size

    def sizing(self) -> dict[str, int | str]:
        """The part that decides sizes and frames, as JSON values: what a cache recipe needs."""
        return {
            "patch_size": self.patch_size,
            "merge_size": self.merge_size,
            "temporal_patch_size": self.temporal_patch_size,
            "video_rule": self.video_rule,
            "default_total_pixels": self.default_total_pixels,
        }


@dataclass(frozen=True, slots=True)
class ImagePlan:
    """The size an image gets, its patches (t, h, w) and its tokens in the language model."""

    width: int
    height: int
    grid_thw: tuple[int, int, int]
    num_tokens: int


@dataclass(frozen=True, slots=True)
class VideoPlan:
    """The size every frame of a clip gets; the grid's t counts temporal patches after padding."""

    width: int
    height: int
    grid_thw: tuple[int, int, int]
    num_tokens: int


def plan_image(width: int, height: int, budget: BudgetClass, geometry: VisionGeometry) -> ImagePlan:
    """Size of an image of width x height source pixels. Raises SizeError.

    A 640 x 480 photo, max_pixels 84 * 84, patches of 14 merged by 2: 84 x 56 pixels, grid (1, 4, 6), 6 tokens.
    A crop smaller than one token is enlarged.
    """
    _check_area(width, height)
    _check_aspect(width, height)
    new_w, new_h = _fit_area(width, height, low=budget.min_pixels, high=budget.max_pixels, factor=geometry.factor)
    return ImagePlan(new_w, new_h, *_grid_and_tokens(1, new_w, new_h, geometry))


def plan_video(num_frames: int, width: int, height: int, budget: BudgetClass, geometry: VisionGeometry) -> VideoPlan:
    """Size of `num_frames` sampled frames of width x height source pixels. Raises SizeError.

    A clip shorter than a temporal patch is planned as the one padded patch that it becomes (the qwen3 processor
    refuses it). Nine 240 x 180 frames, max_pixels 112 * 112, qwen2 rule, patches of 14: 112 x 84, grid (5, 6, 8).
    """
    _check_area(width, height)
    if num_frames < 1:
        raise SizeError("a clip without frames has no size")
    rule = _VIDEO_SIZES[geometry.video_rule]
    new_w, new_h = rule(max(num_frames, geometry.temporal_patch_size), width, height, budget, geometry)
    patches_t = -(-num_frames // geometry.temporal_patch_size)
    return VideoPlan(new_w, new_h, *_grid_and_tokens(patches_t, new_w, new_h, geometry))


def sample_frames(
    total_frames: int, source_fps: float, budget: BudgetClass, geometry: VisionGeometry
) -> tuple[int, ...]:
    """Indices of the frames taken from a clip of constant rate. Raises SizeError for an empty clip.

    `sample_fps` frames per second, at least min_frames and at most max_frames, never more than the clip has. The
    qwen2 rule takes an even count (of 3 frames: 2), except that a single frame is taken where evenness leaves none.

    60 frames at 30 fps, sample_fps 2, min_frames 4: qwen2 takes 0 15 30 45, qwen3 takes 0 20 39 59.
    """
    if total_frames < 1 or source_fps <= 0:
        raise SizeError(f"cannot sample {total_frames} frames at {source_fps} frames per second")
    return _SAMPLERS[geometry.video_rule](total_frames, source_fps, budget, geometry)


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


def total_pixels(budget: BudgetClass, geometry: VisionGeometry) -> int:
    """The cap over all frames of a clip: the budget's, else the family's."""
    return geometry.default_total_pixels if budget.total_pixels is None else budget.total_pixels


@dataclass(frozen=True, slots=True)
class SourceSize:
    """A medium to be sized again: source pixels, sampled frames (None for an image), tokens it costs now."""

    width: int
    height: int
    num_frames: int | None
    num_tokens: int


def largest_max_pixels(media: Sequence[SourceSize], max_tokens: int, geometry: VisionGeometry) -> int | None:
    """The largest max_pixels, common to all media, with which they cost at most max_tokens together.

    A multiple of one token's pixels; None where even one token a frame is too much. Assumes the frames that are
    already sampled, and min_pixels no larger than the result. No medium is enlarged by it.

    Four photos of 1792 x 896 pixels (2,048 tokens each), 4,000 tokens, token side 28: 828,688 pixels, 990 tokens each.
    """
    token_pixels = geometry.factor**2
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


def _check_aspect(width: int, height: int) -> None:
    if max(width, height) / min(width, height) > MAX_ASPECT_RATIO:
        raise SizeError(f"{width}x{height} pixels: one side is more than {MAX_ASPECT_RATIO} times the other; crop it")


def _grid_and_tokens(
    patches_t: int, width: int, height: int, geometry: VisionGeometry
) -> tuple[tuple[int, int, int], int]:
    grid = (patches_t, height // geometry.patch_size, width // geometry.patch_size)
    return grid, math.prod(grid) // geometry.merge_size**2


def _fit_area(
    width: int, height: int, *, low: float, high: float, factor: int, frames: int = 1, unit: int = 1
) -> tuple[int, int]:
    """Nearest multiples of factor whose volume (frames x width x height) lies in low..high, keeping the aspect."""
    new_w, new_h = round(width / factor) * factor, round(height / factor) * factor
    # Like the processor: whole units of frames decide whether to resize, the true count by how much.
    volume = round(frames / unit) * unit * new_w * new_h
    if volume > high:
        shrink = math.sqrt((frames * height * width) / high)
        new_w = max(factor, math.floor(width / shrink / factor) * factor)
        new_h = max(factor, math.floor(height / shrink / factor) * factor)
    elif volume < low:
        grow = math.sqrt(low / (frames * height * width))
        new_w = math.ceil(width * grow / factor) * factor
        new_h = math.ceil(height * grow / factor) * factor
    return new_w, new_h


def _frame_cap(num_frames: int, budget: BudgetClass, *, clip_pixels: int) -> int:
    """Most pixels of one frame: its own cap or its share of the clip's, but no less than 1.05 * min_pixels."""
    return max(min(budget.max_pixels, clip_pixels // num_frames), int(budget.min_pixels * 1.05))


def _size_qwen2(
    num_frames: int, width: int, height: int, budget: BudgetClass, geometry: VisionGeometry
) -> tuple[int, int]:
    _check_aspect(width, height)
    high = _frame_cap(num_frames, budget, clip_pixels=total_pixels(budget, geometry))
    return _fit_area(width, height, low=budget.min_pixels, high=high, factor=geometry.factor)


def _size_qwen3(
    num_frames: int, width: int, height: int, budget: BudgetClass, geometry: VisionGeometry
) -> tuple[int, int]:
    factor = geometry.factor
    if min(width, height) < factor:
        scale = max(factor / height, factor / width)
        width, height = int(width * scale), int(height * scale)
    _check_aspect(width, height)
    high = num_frames * _frame_cap(num_frames, budget, clip_pixels=total_pixels(budget, geometry))
    unit = geometry.temporal_patch_size
    return _fit_area(width, height, low=budget.min_pixels, high=high, factor=factor, frames=num_frames, unit=unit)


def _sample_qwen2(total: int, source_fps: float, budget: BudgetClass, geometry: VisionGeometry) -> tuple[int, ...]:
    import torch

    unit = geometry.temporal_patch_size
    most = min(budget.max_frames, total) // unit * unit
    wanted = min(max(total / source_fps * budget.sample_fps, budget.min_frames), most, total)
    count = int(wanted // unit * unit) or 1
    # The processor's float32 arange decides which frame wins where a position falls on a whole number, so the same
    # call is made here. It may yield one index too many, equal to `total`, which is no frame: that one is left out.
    return tuple(torch.arange(0, total, total / count).int().tolist()[:count])


def _sample_qwen3(total: int, source_fps: float, budget: BudgetClass, geometry: VisionGeometry) -> tuple[int, ...]:
    count = int(total / source_fps * budget.sample_fps)
    count = min(max(count, budget.min_frames), budget.max_frames, total)
    return tuple(np.linspace(0, total - 1, count).round().astype(int).tolist())


_VIDEO_SIZES: dict[VideoRule, Callable[[int, int, int, BudgetClass, VisionGeometry], tuple[int, int]]] = {
    "qwen2": _size_qwen2,
    "qwen3": _size_qwen3,
}
_SAMPLERS: dict[VideoRule, Callable[[int, float, BudgetClass, VisionGeometry], tuple[int, ...]]] = {
    "qwen2": _sample_qwen2,
    "qwen3": _sample_qwen3,
}
