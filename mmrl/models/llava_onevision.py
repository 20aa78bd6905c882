"""LLaVA-OneVision: a picture padded onto one of the model's canvases and cut into tiles, the whole picture first.

Of the canvases (`image_grid_pinpoints`) between min_pixels and max_pixels the one is taken that keeps most of the
picture's pixels, then the one that wastes least. Tokens of the padding are dropped, every row of tokens ends with a
newline token, and where more than `anyres_max_N` tiles' worth of tokens remain they are shrunk to about that. That is
`LlavaOnevisionImageProcessor` of transformers 5.19 for one picture. (Given several pictures of one sample in a nested
list it shows each as one padded square; here, as in vLLM, every picture is cut into tiles, whatever is beside it.)

Every frame of a clip is one tile, whose tokens are halved on both sides; a clip ends with one newline token.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mmrl.config.section import BudgetClass
from mmrl.data.vision import Grid, MediaPlan, ModelFiles
from mmrl.errors import ConfigError, EngineError
from mmrl.models.family import Family
from mmrl.models.tiles import TileGeometry, check_tower, common_settings, square_side

if TYPE_CHECKING:
    import numpy as np
    import torch

    from mmrl.data.rendered import MediaEntry
    from mmrl.data.sample import MediaKind

_PADDING_RULE = "anyres_max_"
# The model shrinks the tokens of a picture only where they are more than so many times too many on a side.
_SLACK = 1.1
_ENGINE_TILES = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class LlavaGeometry(TileGeometry):
    """canvases: (height, width) in pixels of every canvas of the model. most_tiles: N of anyres_max_N."""

    canvases: tuple[tuple[int, int], ...]
    most_tiles: int

    @classmethod
    def read(cls, files: ModelFiles, *, family: str) -> LlavaGeometry:
        size, canvases = files.of_images("size", "image_grid_pinpoints")
        side = square_side(files, size, key="size")
        files.check_equal("size")
        check_tower(files, side)
        if (of_model := files.config.get("image_grid_pinpoints", canvases)) != canvases:
            raise ConfigError(f"{files.source}: image_grid_pinpoints differ from config.json's, {of_model}")
        strategy = files.config.get("vision_feature_select_strategy", "full")
        rule = files.config.get("vision_aspect_ratio", "anyres_max_9")
        if strategy != "full" or not rule.startswith(_PADDING_RULE):
            raise ConfigError(
                f"{files.source}: vision_feature_select_strategy is {strategy} and vision_aspect_ratio {rule}; "
                f"full and {_PADDING_RULE}N are supported"
            )
        return cls(
            family=family,
            tile=side,
            tile_tokens=(side // files.config.get("vision_config", {}).get("patch_size", 14)) ** 2,
            canvases=tuple((height, width) for height, width in canvases),
            most_tiles=int(rule.removeprefix(_PADDING_RULE)),
            **common_settings(files),
        )

    @property
    def side_tokens(self) -> int:
        """Tokens on one side of a tile."""
        return math.isqrt(self.tile_tokens)

    def allowed(self, budget: BudgetClass) -> list[tuple[int, int]]:
        """Canvases within the budget; where none is, the largest below max_pixels, or else the smallest of all."""
        below = [canvas for canvas in self.canvases if math.prod(canvas) <= budget.max_pixels]
        if not below:
            return [min(self.canvases, key=math.prod)]
        return [canvas for canvas in below if math.prod(canvas) >= budget.min_pixels] or [max(below, key=math.prod)]

    def layout(self, width: int, height: int, budget: BudgetClass) -> tuple[int, int]:
        """A 1000 x 500 picture, tiles of 384, canvases of up to 4 tiles: 1 row of 2 columns."""
        canvas = best_canvas(width, height, self.allowed(budget))
        return canvas[0] // self.tile, canvas[1] // self.tile

    def plan_image(self, width: int, height: int, budget: BudgetClass) -> MediaPlan:
        rows, columns = self.layout(width, height, budget)
        grid = (rows * columns + 1, rows, columns)
        tokens = self.count_tokens("image", grid, (width, height))
        return MediaPlan(columns * self.tile, rows * self.tile, grid, tokens)

    def count_tokens(self, kind: MediaKind, grid_thw: Grid, source_size: tuple[int, int]) -> int:
        if kind == "video":
            return grid_thw[0] * math.ceil(self.side_tokens / 2) ** 2 + 1
        rows, columns = self.shrunk(*self.unpadded(grid_thw, source_size))
        return self.tile_tokens + rows * (columns + 1)

    def unpadded(self, grid_thw: Grid, source_size: tuple[int, int]) -> tuple[int, int]:
        """Rows and columns of the tokens on the canvas that are not padding."""
        rows, columns = grid_thw[1] * self.side_tokens, grid_thw[2] * self.side_tokens
        width, height = source_size
        if width / height > columns / rows:
            used = int(round(height * (columns / width), 7))
            return rows - (rows - used) // 2 * 2, columns
        used = int(round(width * (rows / height), 7))
        return rows, columns - (columns - used) // 2 * 2

    def shrunk(self, rows: int, columns: int) -> tuple[int, int]:
        """Rows and columns after the cap of most_tiles. Tiles of 27 x 27 tokens, 9 of them: 108 x 108 are 81 x 81."""
        ratio = math.sqrt(rows * columns / (self.most_tiles * self.side_tokens**2))
        return (int(rows // ratio), int(columns // ratio)) if ratio > _SLACK else (rows, columns)

    def sizing(self, kind: MediaKind) -> dict[str, Any]:
        sizes = TileGeometry.sizing(self, kind)
        if kind == "video":
            return sizes
        return sizes | {"canvases": [list(canvas) for canvas in self.canvases], "most_tiles": self.most_tiles}

    def sample(self, total_frames: int, source_fps: float, budget: BudgetClass) -> tuple[int, ...]:
        """Frames at the start of equally long parts: of 60 frames at 30 fps, sample_fps 2: 0 15 30 45 (4 parts)."""
        low, high = self.clip_range(total_frames, budget)
        count = min(max(int(total_frames / source_fps * budget.sample_fps), low), high)
        return tuple(part * total_frames // count for part in range(count))

    def image_frames(self, rgb_HW3: np.ndarray, plan: MediaPlan) -> torch.Tensor:
        import torch

        from mmrl.data.resize import resize_frame

        height, width = rgb_HW3.shape[:2]
        across, down = plan.width / width, plan.height / height
        new_w, new_h = plan.width, plan.height
        if across < down:
            new_h = min(math.ceil(height * across), plan.height)
        else:
            new_w = min(math.ceil(width * down), plan.width)
        fitted_3HW = resize_frame(rgb_HW3, width=new_w, height=new_h, resample=self.resample)
        canvas_3HW = torch.zeros(3, plan.height, plan.width, dtype=torch.uint8)
        left, top = (plan.width - new_w) // 2, (plan.height - new_h) // 2
        canvas_3HW[:, top : top + new_h, left : left + new_w] = fitted_3HW
        whole_3SS = resize_frame(rgb_HW3, width=self.tile, height=self.tile, resample=self.resample)
        return torch.cat([self.cut(canvas_3HW), whole_3SS[None]])

    def placeholder(self, entry: MediaEntry) -> Sequence[str | int]:
        return (entry.num_tokens,)

    def pixel_values(self, entry: MediaEntry) -> torch.Tensor:
        """fp32 (F, 3, S, S), of a picture the whole one first."""
        pixels_F3SS = TileGeometry.pixel_values(self, entry)
        return pixels_F3SS.roll(1, dims=0) if entry.kind == "image" else pixels_F3SS

    def tower_inputs(self, entries: Sequence[MediaEntry]) -> dict[str, torch.Tensor]:
        """Everything as loose tiles, or as the frames of one clip; `per_medium` puts together what belongs together.

        So the tower runs once, and the layouts are the entries' and not those the model's own configuration allows.
        """
        import torch

        pixels = TileGeometry.tower_inputs(self, entries)["pixel_values"]
        if entries[0].kind == "video":
            return {"pixel_values_videos": pixels[None]}
        count = len(pixels)
        # More than one picture in a sample means to the model that each is a tile of its own.
        loose = {"image_sizes": torch.full((count, 2), self.tile), "batch_num_images": torch.tensor([count + 1])}
        return {"pixel_values": pixels, **loose}

    def per_medium(self, pooled: Any, entries: Sequence[MediaEntry]) -> Sequence[torch.Tensor]:
        import torch

        if entries[0].kind == "video":
            frames_KD, newline_1D = pooled[0, :-1], pooled[0, -1:]
            parts = frames_KD.split([entry.num_tokens - 1 for entry in entries])
            return [torch.cat([part, newline_1D]) for part in parts]
        newline_D = pooled[0][-1]
        tiles = torch.stack([tile[:-1] for tile in pooled]).split([entry.grid_thw[0] for entry in entries])
        return [self._packed(tiles_FKD, newline_D, entry) for tiles_FKD, entry in zip(tiles, entries, strict=True)]

    def _packed(self, tiles_FKD: torch.Tensor, newline_D: torch.Tensor, entry: MediaEntry) -> torch.Tensor:
        """The whole picture's tokens, then those of the canvas without padding, row by row."""
        import torch

        side, (_, rows, columns) = self.side_tokens, entry.grid_thw
        canvas = tiles_FKD[1:].view(rows, columns, side, side, -1).permute(4, 0, 2, 1, 3)
        canvas_DHW = canvas.reshape(-1, rows * side, columns * side)
        height, width = self.unpadded(entry.grid_thw, entry.source_size)
        top, left = (rows * side - height) // 2, (columns * side - width) // 2
        canvas_DHW = canvas_DHW[:, top : top + height, left : left + width]
        if (small := self.shrunk(height, width)) != (height, width):
            canvas_DHW = torch.nn.functional.interpolate(canvas_DHW[None], list(small), mode="bilinear")[0]
        ends_DH1 = newline_D[:, None, None].expand(-1, canvas_DHW.shape[1], 1)
        lines_KD = torch.cat([canvas_DHW, ends_DH1], dim=2).flatten(1).T
        return torch.cat([tiles_FKD[0], lines_KD])

    def encoder_output(self, kind: MediaKind, features: Sequence[torch.Tensor]) -> Any:
        return tuple(features) if kind == "image" else TileGeometry.encoder_output(self, kind, features)

    def engine_inputs(self, entry: MediaEntry) -> dict[str, torch.Tensor]:
        """Raises EngineError for a picture that vLLM, which knows no budget, would put together otherwise."""
        import torch

        pixels = self.pixel_values(entry)[None]
        if entry.kind == "video":
            return {"pixel_values_videos": pixels}
        width, height = entry.source_size
        self._check_engine(entry, best_canvas(width, height, self.canvases))
        return {"pixel_values": pixels, "image_sizes": torch.tensor([[height, width]])}

    def _check_engine(self, entry: MediaEntry, expected: tuple[int, int]) -> None:
        if self.most_tiles != _ENGINE_TILES:
            raise EngineError(
                f"vision_aspect_ratio is {_PADDING_RULE}{self.most_tiles}, but vLLM shrinks pictures by "
                f"{_PADDING_RULE}{_ENGINE_TILES} whatever the model says; use rollout.engine hf"
            )
        if expected != (entry.grid_thw[1] * self.tile, entry.grid_thw[2] * self.tile):
            raise EngineError(
                "a picture of {} x {} pixels is not on the canvas that vLLM takes for it by the ".format(
                    *entry.source_size
                )
                + f"model's configuration, {expected[1]} x {expected[0]}; raise max_pixels of its budget to "
                f"{max(map(math.prod, self.canvases))} and lower min_pixels, or use rollout.engine hf"
            )

    def processor_settings(self, kind: MediaKind, budget: BudgetClass) -> dict[str, Any]:
        """The processor knows no most frames, so a clip longer than max_frames / sample_fps gets more of them there."""
        if kind == "video":
            return {"do_sample_frames": True, "fps": budget.sample_fps, "num_frames": None}
        return {"image_grid_pinpoints": [list(canvas) for canvas in self.allowed(budget)]}

    def model_settings(self, budget: BudgetClass) -> dict[str, Any]:
        return self.processor_settings("image", budget)


def best_canvas(width: int, height: int, canvases: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """(height, width) of the canvas that keeps most pixels of the picture, then of the one that wastes least."""
    best, most_kept, least_wasted = canvases[0], 0, math.inf
    for canvas_h, canvas_w in canvases:
        scale = min(canvas_w / width, canvas_h / height)
        kept = min(int(width * scale) * int(height * scale), width * height)
        wasted = canvas_w * canvas_h - kept
        if kept > most_kept or (kept == most_kept and wasted < least_wasted):
            best, most_kept, least_wasted = (canvas_h, canvas_w), kept, wasted
    return best


FAMILIES = (
    Family(
        name="llava_onevision",
        architectures=("LlavaOnevisionForConditionalGeneration",),
        geometry=LlavaGeometry.read,
        module_groups={
            "vision_tower": ("model.vision_tower.",),
            "projector": ("model.multi_modal_projector.", "model.image_newline"),
            "language_model": ("model.language_model.", "lm_head."),
        },
        banned_tokens=("<image>", "<video>"),
        box_space="0..1",
        engine_prefixes={"model.vision_tower.": "model.vision_tower.vision_model."},
    ),
)
