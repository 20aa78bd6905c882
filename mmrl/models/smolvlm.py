"""Idefics3 and SmolVLM: every picture scaled to one longest side, cut into tiles between tokens for row and column.

The longest side is a whole number of tiles, as many as a square of max_pixels is wide: with tiles of 512 and 4,194,304
pixels it is 2,048. Smaller pictures are enlarged to it, so min_pixels has no effect. The other side is rounded up to
whole tiles. One tile is the whole picture, squeezed. That is `Idefics3ImageProcessor(size={longest_edge: ...})` of
transformers 5.19. Pictures are resized three times, one from the other, as there: to the longest side, to whole tiles,
and those to the one tile that shows the whole.

Frames of a SmolVLM clip are one tile each, after their time in words. Idefics3 reads no clips.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from mmrl.config.section import BudgetClass
from mmrl.data.vision import MediaPlan, ModelFiles, Resample, SizeError
from mmrl.errors import ConfigError
from mmrl.models.family import Family, ModuleGroup
from mmrl.models.tiles import TileGeometry, check_tower, common_settings

if TYPE_CHECKING:
    import torch

    from mmrl.data.rendered import MediaEntry
    from mmrl.data.sample import MediaKind

# The vocabularies know places up to this row and column, and the processor no longer side.
MOST_TILES_A_SIDE = 6
LONGEST_SIDE = 4096
_FAKE, _GLOBAL = "<fake_token_around_image>", "<global-img>"
_SKIPPED_S = 1
"""Seconds left out at both ends of a long clip."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Idefics3Geometry(TileGeometry):
    """clip_side: longest side that a frame of a clip is scaled to before it becomes a tile."""

    clip_side: int

    resample: ClassVar[Resample] = "lanczos"
    reads_clips: ClassVar[bool] = False

    @classmethod
    def read(cls, files: ModelFiles, *, family: str) -> Idefics3Geometry:
        [size] = files.of_images("max_image_size")
        side = size["longest_edge"]
        files.check_equal("max_image_size")
        check_tower(files, side)
        if side % 2 or not files.images.get("do_image_splitting", True):
            raise ConfigError(
                f"{files.source}: max_image_size is {side} and do_image_splitting "
                f"{files.images.get('do_image_splitting', True)}; it must be even and true (for whole pictures in one "
                f"tile set max_pixels to {side**2})"
            )
        patches = side // files.config.get("vision_config", {}).get("patch_size", 14)
        tokens = int(patches**2 / files.config.get("scale_factor", 2) ** 2)
        stated = files.processor.get("image_seq_len", tokens)
        if stated != tokens:
            raise ConfigError(f"{files.source}: image_seq_len is {stated}, but the model makes {tokens} of a tile")
        said = files.clips.get("video_sampling", {}).get("video_size") or files.clips.get("size") or {}
        clip_side = min(LONGEST_SIDE, said.get("longest_edge", side))
        return cls(family=family, tile=side, tile_tokens=tokens, clip_side=clip_side, **common_settings(files))

    def longest_side(self, budget: BudgetClass) -> int:
        """Tiles of 64, 40,000 pixels: 3 tiles are 192, whose square is 36,864."""
        most = min(MOST_TILES_A_SIDE, LONGEST_SIDE // self.tile)
        return self.tile * max(1, min(most, math.isqrt(budget.max_pixels) // self.tile))

    def layout(self, width: int, height: int, budget: BudgetClass) -> tuple[int, int]:
        """A 300 x 100 picture, tiles of 64, longest side 192: 64 pixels high, so 1 row of 3 columns."""
        width, height = scaled_to(self.longest_side(budget), width, height)
        ratio = width / height
        if width >= height:
            columns = math.ceil(width / self.tile)
            rows = math.ceil(int(columns * self.tile / ratio) / self.tile)
        else:
            rows = math.ceil(height / self.tile)
            columns = math.ceil(int(rows * self.tile * ratio) / self.tile)
        return rows, columns

    def plan_clip(self, num_frames: int, width: int, height: int, budget: BudgetClass) -> MediaPlan:
        raise SizeError(f"a clip, but the {self.family} family reads none")

    def sample(self, total_frames: int, source_fps: float, budget: BudgetClass) -> tuple[int, ...]:
        raise SizeError(f"a clip, but the {self.family} family reads none")

    def image_frames(self, rgb_HW3: np.ndarray, plan: MediaPlan) -> torch.Tensor:
        import torch

        from mmrl.data.resize import resize_frame, resize_tensor

        height, width = rgb_HW3.shape[:2]
        width, height = scaled_to(max(plan.width, plan.height), width, height)
        scaled_3HW = resize_frame(rgb_HW3, width=width, height=height, resample=self.resample)
        canvas_3HW = resize_tensor(scaled_3HW, width=plan.width, height=plan.height, resample=self.resample)
        tiles_F3SS = self.cut(canvas_3HW)
        if len(tiles_F3SS) == 1:
            return tiles_F3SS
        whole_3SS = resize_tensor(canvas_3HW, width=self.tile, height=self.tile, resample=self.resample)
        return torch.cat([tiles_F3SS, whole_3SS[None]])

    def placeholder(self, entry: MediaEntry) -> Sequence[str | int]:
        pieces: list[str | int] = []
        pictures, rows, columns = entry.grid_thw
        if pictures > 1:
            for row in range(1, rows + 1):
                for column in range(1, columns + 1):
                    pieces += [f"{_FAKE}<row_{row}_col_{column}>", self.tile_tokens]
                pieces.append("\n")
            pieces.append("\n")
        return [*pieces, f"{_FAKE}{_GLOBAL}", self.tile_tokens, _FAKE]

    def tower_inputs(self, entries: Sequence[MediaEntry]) -> dict[str, torch.Tensor]:
        """All of them as the pictures of one sample. (The model drops pictures that are all 0: no uint8 becomes 0.)"""
        return {name: tensor[None] for name, tensor in TileGeometry.tower_inputs(self, entries).items()}

    def encoder_output(self, kind: MediaKind, features: Sequence[torch.Tensor]) -> Any:
        """(tiles, tokens of one, D): the model places tile by tile."""
        joined = TileGeometry.encoder_output(self, kind, features)
        return joined.view(-1, self.tile_tokens, joined.shape[-1])

    def engine_inputs(self, entry: MediaEntry) -> dict[str, torch.Tensor]:
        """A clip is a picture in as many tiles to vLLM."""
        import torch

        count = entry.grid_thw[0]
        return {
            "pixel_values": self.pixel_values(entry),
            "pixel_attention_mask": torch.ones(count, self.tile, self.tile, dtype=torch.int64),
            "num_patches": torch.tensor([count]),
        }

    def processor_settings(self, kind: MediaKind, budget: BudgetClass) -> dict[str, Any]:
        if kind == "image":
            return {"size": {"longest_edge": self.longest_side(budget)}}
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class SmolVLMGeometry(Idefics3Geometry):
    """Idefics3's tiles, and clips."""

    reads_clips: ClassVar[bool] = True

    def plan_clip(self, num_frames: int, width: int, height: int, budget: BudgetClass) -> MediaPlan:
        return TileGeometry.plan_clip(self, num_frames, width, height, budget)

    def sizing(self, kind: MediaKind) -> dict[str, Any]:
        sizes = TileGeometry.sizing(self, kind)
        return sizes | {"clip_side": self.clip_side} if kind == "video" else sizes

    def sample(self, total_frames: int, source_fps: float, budget: BudgetClass) -> tuple[int, ...]:
        """Spread from first to last frame; of a clip longer than max_frames * sample_fps + 2 s without a second at
        either end. 300 frames at 30 fps, sample_fps 1, max_frames 5: 30 89 149 209 269.
        """
        low, high = self.clip_range(total_frames, budget)
        duration_s = total_frames / source_fps
        count = min(max(round(budget.sample_fps * duration_s), low, 1), high)
        first, last = 0, total_frames - 1
        if duration_s - 2 * _SKIPPED_S > high * budget.sample_fps:
            first = int(_SKIPPED_S * source_fps)
            last = min(int(total_frames - _SKIPPED_S * source_fps), last)
        if first >= last:
            first, last = 0, total_frames - 1
        return tuple(np.unique(np.linspace(first, last, count, dtype=int)).tolist())

    def clip_frame(self, rgb_HW3: np.ndarray, plan: MediaPlan) -> torch.Tensor:
        from mmrl.data.resize import resize_frame, resize_tensor

        height, width = rgb_HW3.shape[:2]
        width, height = scaled_to(self.clip_side, width, height)
        scaled_3HW = resize_frame(rgb_HW3, width=width, height=height, resample=self.resample)
        return resize_tensor(scaled_3HW, width=plan.width, height=plan.height, resample=self.resample)

    def placeholder(self, entry: MediaEntry) -> Sequence[str | int]:
        if entry.kind == "image":
            return Idefics3Geometry.placeholder(self, entry)
        from num2words import num2words  # here: only prompts with clips need it

        length = timedelta(seconds=int(entry.duration_s or 0))
        count = num2words(entry.grid_thw[0])
        text = f"You are provided the following series of {count} frames from a {length} [H:MM:SS] video.\n"
        pieces: list[str | int] = [text]
        for seconds in entry.timestamps_s:
            time = f"{int(seconds // 60):02d}:{int(seconds % 60):02d}"
            pieces += [f"\nFrame from {time}:{_FAKE}{_GLOBAL}", self.tile_tokens, _FAKE]
        return [*pieces, "\n\n"]

    def processor_settings(self, kind: MediaKind, budget: BudgetClass) -> dict[str, Any]:
        if kind == "image":
            return Idefics3Geometry.processor_settings(self, kind, budget)
        size = {"longest_edge": self.clip_side}
        sampling = {"fps": budget.sample_fps, "max_frames": budget.max_frames, "video_size": size}
        return {"size": size, "video_sampling": sampling, "fps": budget.sample_fps, "num_frames": budget.max_frames}


def scaled_to(longest: int, width: int, height: int) -> tuple[int, int]:
    """The picture's shape with this longest side; the other one is even, and at least 1.

    >>> scaled_to(192, 300, 100), scaled_to(64, 10, 31)
    ((192, 64), (20, 64))
    """
    ratio = width / height
    if width >= height:
        other = int(longest / ratio)
        return longest, max(other + other % 2, 1)
    other = int(longest * ratio)
    return max(other + other % 2, 1), longest


_MODULES: dict[ModuleGroup, tuple[str, ...]] = {
    "vision_tower": ("model.vision_model.",),
    "projector": ("model.connector.",),
    "language_model": ("model.text_model.", "lm_head."),
}
_PLACES = tuple(
    f"<row_{row}_col_{column}>" for row in range(1, MOST_TILES_A_SIDE + 1) for column in range(1, MOST_TILES_A_SIDE + 1)
)
FAMILIES = (
    Family(
        name="idefics3",
        architectures=("Idefics3ForConditionalGeneration",),
        geometry=Idefics3Geometry.read,
        module_groups=_MODULES,
        banned_tokens=("<image>", _FAKE, _GLOBAL, *_PLACES),
    ),
    Family(
        name="smolvlm",
        architectures=("SmolVLMForConditionalGeneration",),
        geometry=SmolVLMGeometry.read,
        module_groups=_MODULES,
        banned_tokens=("<image>", "<video>", _FAKE, _GLOBAL, *_PLACES),
        clip_mark="<video>",
        clip_tokens="image",
    ),
)
