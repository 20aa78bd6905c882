"""Qwen2-VL, Qwen2.5-VL and Qwen3-VL: media of any size, cut into patches, placed on three axes.

Two rules for clips exist, named after the processors of transformers 5.19 that they equal:

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

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from mmrl.config.section import BudgetClass
from mmrl.data.vision import Grid, MediaPlan, ModelFiles, SizeError, VisionGeometry
from mmrl.errors import ConfigError
from mmrl.models.family import Family, ModuleGroup

if TYPE_CHECKING:
    import torch

    from mmrl.data.rendered import MediaEntry, Placeholder
    from mmrl.data.sample import MediaKind

MAX_ASPECT_RATIO = 200
VideoRule = Literal["qwen2", "qwen3"]
RUN_MARKS = ("<|vision_start|>", "<|vision_end|>")
# Tokens that stand for or enclose media: sampled by a model they would be taken for a picture that does not exist.
VISION_TOKENS = (*RUN_MARKS, "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>")
QWEN_MODULES: Mapping[ModuleGroup, tuple[str, ...]] = {
    "vision_tower": ("model.visual.",),
    "projector": ("model.visual.merger.", "model.visual.deepstack_merger_list."),
    "language_model": ("model.language_model.", "lm_head."),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class QwenGeometry(VisionGeometry):
    """patch_size, merge_size: a token covers a square of patch_size * merge_size pixels (`factor`).

    video_rule: how clips are sized and sampled, see the table above. A qwen3 clip has, per temporal patch, its time in
    words before a run of its own. default_total_pixels: total_pixels of a budget that states none.
    """

    patch_size: int
    merge_size: int
    video_rule: VideoRule
    default_total_pixels: int

    has_model_pixels: ClassVar[bool] = True
    engine_takes_features: ClassVar[bool] = True

    @classmethod
    def read(
        cls, files: ModelFiles, *, family: str, video_rule: VideoRule, tokens_per_second: float | None = None
    ) -> QwenGeometry:
        """From a model folder. tokens_per_second: of families whose positions know time, unless config.json says."""
        keys = ("patch_size", "merge_size", "temporal_patch_size", "image_mean", "image_std")
        patch, merge, unit, mean, std = files.of_images(*keys)
        files.check_equal(*keys, "rescale_factor")
        vision = files.config.get("vision_config", {})
        _check_tower(files, vision)
        if tokens_per_second is not None:
            tokens_per_second = vision.get("tokens_per_second", tokens_per_second)
        return cls(
            family=family,
            patch_size=patch,
            merge_size=merge,
            temporal_patch_size=unit,
            image_mean=tuple(mean),
            image_std=tuple(std),
            video_rule=video_rule,
            default_total_pixels=_DEFAULT_TOTAL_PIXELS[video_rule](files.clips, patch * merge, unit),
            rescale_factor=files.images.get("rescale_factor", 1 / 255),
            tokens_per_second=tokens_per_second,
        )

    @property
    def factor(self) -> int:
        """Width and height are multiples of this."""
        return self.patch_size * self.merge_size

    @property
    def token_pixels(self) -> int:
        """Pixels of one token."""
        return self.factor**2

    def plan_image(self, width: int, height: int, budget: BudgetClass) -> MediaPlan:
        """A 640 x 480 photo, max_pixels 84 * 84, patches of 14 merged by 2: 84 x 56 pixels, grid (1, 4, 6), 6 tokens.

        A crop smaller than one token is enlarged.
        """
        _check_aspect(width, height)
        new_w, new_h = _fit_area(width, height, low=budget.min_pixels, high=budget.max_pixels, factor=self.factor)
        return self._plan("image", 1, new_w, new_h)

    def plan_clip(self, num_frames: int, width: int, height: int, budget: BudgetClass) -> MediaPlan:
        """A clip shorter than a temporal patch is planned as the one padded patch that it becomes (the qwen3 processor
        refuses it). Nine 240 x 180 frames, max_pixels 112 * 112, qwen2, patches of 14: 112 x 84, grid (5, 6, 8).
        """
        rule = _size_qwen2 if self.video_rule == "qwen2" else _size_qwen3
        new_w, new_h = rule(max(num_frames, self.temporal_patch_size), width, height, budget, self)
        return self._plan("video", -(-num_frames // self.temporal_patch_size), new_w, new_h)

    def _plan(self, kind: MediaKind, patches_t: int, width: int, height: int) -> MediaPlan:
        grid = (patches_t, height // self.patch_size, width // self.patch_size)
        return MediaPlan(width, height, grid, self.count_tokens(kind, grid, (width, height)))

    def sample(self, total_frames: int, source_fps: float, budget: BudgetClass) -> tuple[int, ...]:
        """60 frames at 30 fps, sample_fps 2, min_frames 4: qwen2 takes 0 15 30 45, qwen3 takes 0 20 39 59.

        The qwen2 rule takes an even count (of 3 frames: 2), except a single frame where evenness leaves none.
        """
        rule = _sample_qwen2 if self.video_rule == "qwen2" else _sample_qwen3
        return rule(total_frames, source_fps, budget, self)

    def count_tokens(self, kind: MediaKind, grid_thw: Grid, source_size: tuple[int, int]) -> int:
        """t * h * w / merge_size ** 2."""
        del kind, source_size
        return math.prod(grid_thw) // self.merge_size**2

    def frame_size(self, grid_thw: Grid) -> tuple[int, int]:
        return grid_thw[1] * self.patch_size, grid_thw[2] * self.patch_size

    def fits(self, entry: MediaEntry) -> bool:
        whole_tokens = all(side % self.merge_size == 0 for side in entry.grid_thw[1:])
        return whole_tokens and VisionGeometry.fits(self, entry)

    def sizing(self, kind: MediaKind) -> dict[str, Any]:
        sizes: dict[str, Any] = {"patch_size": self.patch_size, "merge_size": self.merge_size}
        if kind == "image":
            return sizes
        return sizes | {
            "temporal_patch_size": self.temporal_patch_size,
            "video_rule": self.video_rule,
            "default_total_pixels": self.default_total_pixels,
        }

    def placeholder(self, entry: MediaEntry) -> Sequence[str | int]:
        if entry.kind == "image" or self.video_rule == "qwen2":
            return (entry.num_tokens,)
        start, end = RUN_MARKS
        length = entry.num_tokens // entry.grid_thw[0]
        times = patch_seconds(entry, self.temporal_patch_size)
        return [piece for seconds in times for piece in (f"<{seconds:.1f} seconds>{start}", length, end)]

    def run_positions(self, run: Placeholder, entry: MediaEntry, *, start: int) -> torch.Tensor:
        """Whole temporal patches of a grid of tokens."""
        from mmrl.data.positions import grid_positions, patch_times

        height, width = entry.grid_thw[1] // self.merge_size, entry.grid_thw[2] // self.merge_size
        times = patch_times(run.length // (height * width), entry, self)
        return grid_positions(start, times, height, width)

    def pixel_values(self, entry: MediaEntry) -> torch.Tensor:
        """Patches fp32 (N, X), those of one token after each other.

        A 2-frame clip of 112 x 84 pixels, patches of 14: (1 * 6 * 8, 3 * 2 * 14 * 14) = (48, 1176).
        """
        from mmrl.data.pixels import normalise, patchify

        return patchify(normalise(entry.frames_F3HW, self), self)

    def tower_inputs(self, entries: Sequence[MediaEntry]) -> dict[str, torch.Tensor]:
        import torch

        pixels, grid = ("pixel_values", "image_grid_thw")
        if entries[0].kind == "video":
            pixels, grid = ("pixel_values_videos", "video_grid_thw")
        return {
            pixels: torch.cat([self.pixel_values(entry) for entry in entries]),
            grid: torch.tensor([entry.grid_thw for entry in entries]),
        }

    def engine_inputs(self, entry: MediaEntry) -> dict[str, torch.Tensor]:
        return self.tower_inputs([entry]) | self._clip_seconds(entry)

    def engine_features(self, entry: MediaEntry) -> dict[str, torch.Tensor]:
        """Tokens with their deepstack levels beside them: (K, D * levels)."""
        import torch

        assert entry.features is not None
        levels = (entry.features.tokens_KD, *entry.features.deepstack)
        tensors = {
            f"{entry.kind}_embeds": torch.cat(levels, dim=-1),
            f"{entry.kind}_grid_thw": torch.tensor([entry.grid_thw]),
        }
        return tensors | self._clip_seconds(entry)

    def _clip_seconds(self, entry: MediaEntry) -> dict[str, torch.Tensor]:
        import torch

        from mmrl.data.positions import seconds_per_patch

        seconds = seconds_per_patch(entry, self) if entry.kind == "video" else None
        return {} if seconds is None else {"second_per_grid_ts": torch.tensor([seconds], dtype=torch.float64)}

    def encoder_output(self, kind: MediaKind, features: Sequence[torch.Tensor]) -> Any:
        """One tensor per run."""
        del kind
        return tuple(features)

    def processor_settings(self, kind: MediaKind, budget: BudgetClass) -> dict[str, Any]:
        """See the equivalences above."""
        if kind == "image":
            return {"size": {"shortest_edge": budget.min_pixels, "longest_edge": budget.max_pixels}}
        clip_pixels = total_pixels(budget, self)
        if self.video_rule == "qwen2":
            longest = budget.max_pixels
            # The small addition makes up for rounding: the processor multiplies back and cuts to a whole number.
            tokens = (clip_pixels / self.temporal_patch_size + 1e-3) / 0.9 / self.token_pixels
        else:
            longest, tokens = clip_pixels, budget.max_pixels / self.token_pixels
        return {
            "size": {"shortest_edge": budget.min_pixels, "longest_edge": longest},
            "cap_pixels_per_frame": True,
            "max_video_tokens": tokens,
            "min_frames": budget.min_frames,
            "max_frames": budget.max_frames,
            "fps": budget.sample_fps,
        }


def total_pixels(budget: BudgetClass, geometry: QwenGeometry) -> int:
    """The cap over all frames of a clip: the budget's, else the family's."""
    return geometry.default_total_pixels if budget.total_pixels is None else budget.total_pixels


def patch_seconds(entry: MediaEntry, temporal_patch_size: int) -> list[float]:
    """The time of each temporal patch: the mean of its first and its last frame's, the last frame repeated to fill it.

    Frames at 0, 0.5 and 1 s in patches of 2: 0.25 and 1.
    """
    times = entry.timestamps_s
    padded = [*times, *[times[-1]] * (-len(times) % temporal_patch_size)]
    return [(padded[i] + padded[i + temporal_patch_size - 1]) / 2 for i in range(0, len(padded), temporal_patch_size)]


def _check_tower(files: ModelFiles, vision: Mapping[str, Any]) -> None:
    """The tower must cut the patches that the processor cuts."""
    for key in ("patch_size", "merge_size", "temporal_patch_size"):
        stated = files.images[key]
        of_tower = vision.get("spatial_merge_size" if key == "merge_size" else key, stated)
        if of_tower != stated:
            raise ConfigError(f"{files.source}: {key} is {stated}, but {of_tower} in config.json's vision_config")


def _total_pixels_qwen2(clips: Mapping[str, Any], factor: int, unit: int) -> int:
    """Nine tenths of the context, in pixels of temporal patches, each standing for `unit` frames."""
    return int(clips.get("max_video_tokens", 128_000) * factor * factor * 0.9) * unit


def _total_pixels_qwen3(clips: Mapping[str, Any], factor: int, unit: int) -> int:
    """The processor's cap on a clip; without one, that of the released checkpoints (24,576 tokens' worth of pixels)."""
    del unit
    return clips.get("size", {}).get("longest_edge", 24_576 * factor * factor)


_DEFAULT_TOTAL_PIXELS = {"qwen2": _total_pixels_qwen2, "qwen3": _total_pixels_qwen3}


def _check_aspect(width: int, height: int) -> None:
    if max(width, height) / min(width, height) > MAX_ASPECT_RATIO:
        raise SizeError(f"{width}x{height} pixels: one side is more than {MAX_ASPECT_RATIO} times the other; crop it")


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
    num_frames: int, width: int, height: int, budget: BudgetClass, geometry: QwenGeometry
) -> tuple[int, int]:
    _check_aspect(width, height)
    high = _frame_cap(num_frames, budget, clip_pixels=total_pixels(budget, geometry))
    return _fit_area(width, height, low=budget.min_pixels, high=high, factor=geometry.factor)


def _size_qwen3(
    num_frames: int, width: int, height: int, budget: BudgetClass, geometry: QwenGeometry
) -> tuple[int, int]:
    factor = geometry.factor
    if min(width, height) < factor:
        scale = max(factor / height, factor / width)
        width, height = int(width * scale), int(height * scale)
    _check_aspect(width, height)
    high = num_frames * _frame_cap(num_frames, budget, clip_pixels=total_pixels(budget, geometry))
    unit = geometry.temporal_patch_size
    return _fit_area(width, height, low=budget.min_pixels, high=high, factor=factor, frames=num_frames, unit=unit)


def _sample_qwen2(total: int, source_fps: float, budget: BudgetClass, geometry: QwenGeometry) -> tuple[int, ...]:
    import torch

    unit = geometry.temporal_patch_size
    most = min(budget.max_frames, total) // unit * unit
    wanted = min(max(total / source_fps * budget.sample_fps, budget.min_frames), most, total)
    count = int(wanted // unit * unit) or 1
    # The processor's float32 arange decides which frame wins where a position falls on a whole number, so the same
    # call is made here. It may yield one index too many, equal to `total`, which is no frame: that one is left out.
    return tuple(torch.arange(0, total, total / count).int().tolist()[:count])


def _sample_qwen3(total: int, source_fps: float, budget: BudgetClass, geometry: QwenGeometry) -> tuple[int, ...]:
    count = int(total / source_fps * budget.sample_fps)
    count = min(max(count, budget.min_frames), budget.max_frames, total)
    return tuple(np.linspace(0, total - 1, count).round().astype(int).tolist())


_read_qwen2 = functools.partial(QwenGeometry.read, video_rule="qwen2")
FAMILIES = (
    Family(
        name="qwen2_vl",
        architectures=("Qwen2VLForConditionalGeneration",),
        geometry=_read_qwen2,
        box_space="0..1000",
        module_groups=QWEN_MODULES,
        banned_tokens=VISION_TOKENS,
        position_axes=3,
    ),
    Family(
        name="qwen2_5_vl",
        architectures=("Qwen2_5_VLForConditionalGeneration",),
        geometry=functools.partial(_read_qwen2, tokens_per_second=4.0),
        box_space="model_px",
        module_groups=QWEN_MODULES,
        banned_tokens=VISION_TOKENS,
        position_axes=3,
    ),
    Family(
        name="qwen3_vl",
        architectures=("Qwen3VLForConditionalGeneration",),
        geometry=functools.partial(QwenGeometry.read, video_rule="qwen3"),
        box_space="0..1000",
        module_groups=QWEN_MODULES,
        banned_tokens=VISION_TOKENS,
        position_axes=3,
        run_marks=RUN_MARKS,
    ),
)
