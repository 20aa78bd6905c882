"""Families that see a picture as square tiles of one size, each with a fixed number of tokens.

A picture is resized to a canvas of rows x columns tiles and cut; where there is more than one tile, the whole picture,
resized to one, is seen as well. Entries store the tiles row by row and the whole picture last; grid_thw is (pictures,
rows, columns). Every frame of a clip is one tile: (frames, 1, 1). Budgets choose the tiles: see `tile_range`.

Letters: F stored pictures or frames, S side of a tile, H/W pixels.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mmrl.config.section import BudgetClass
from mmrl.data.vision import Grid, MediaPlan, ModelFiles, VisionGeometry
from mmrl.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    import torch

    from mmrl.data.rendered import MediaEntry
    from mmrl.data.sample import MediaKind


@dataclass(frozen=True, slots=True, kw_only=True)
class TileGeometry(VisionGeometry):
    """tile: side in pixels. tile_tokens: tokens of one tile in the language model."""

    tile: int
    tile_tokens: int

    @abstractmethod
    def layout(self, width: int, height: int, budget: BudgetClass) -> tuple[int, int]:
        """Rows and columns of the tiles that a picture of width x height pixels is cut into."""

    @property
    def token_pixels(self) -> int:
        """Pixels of one tile."""
        return self.tile**2

    def plan_image(self, width: int, height: int, budget: BudgetClass) -> MediaPlan:
        rows, columns = self.layout(width, height, budget)
        tiles = rows * columns
        grid = (tiles + 1 if tiles > 1 else 1, rows, columns)
        tokens = self.count_tokens("image", grid, (width, height))
        return MediaPlan(columns * self.tile, rows * self.tile, grid, tokens)

    def plan_clip(self, num_frames: int, width: int, height: int, budget: BudgetClass) -> MediaPlan:
        grid = (num_frames, 1, 1)
        return MediaPlan(self.tile, self.tile, grid, self.count_tokens("video", grid, (width, height)))

    def count_tokens(self, kind: MediaKind, grid_thw: Grid, source_size: tuple[int, int]) -> int:
        """Pictures or frames x tokens of a tile."""
        del kind, source_size
        return grid_thw[0] * self.tile_tokens

    def frame_size(self, grid_thw: Grid) -> tuple[int, int]:
        del grid_thw
        return self.tile, self.tile

    def fits(self, entry: MediaEntry) -> bool:
        pictures, rows, columns = entry.grid_thw
        tiles = rows * columns
        is_layout = tiles == 1 if entry.kind == "video" else pictures == tiles + 1 or pictures == tiles == 1
        return is_layout and VisionGeometry.fits(self, entry)

    def sizing(self, kind: MediaKind) -> dict[str, Any]:
        """The layout's name stands for its rule; it changes when the rule does."""
        return {"layout": f"{self.family} tiles", "tile": self.tile}

    def image_frames(self, rgb_HW3: np.ndarray, plan: MediaPlan) -> torch.Tensor:
        import torch

        from mmrl.data.resize import resize_frame

        canvas_3HW = resize_frame(rgb_HW3, width=plan.width, height=plan.height, resample=self.resample)
        tiles_F3SS = self.cut(canvas_3HW)
        if len(tiles_F3SS) == 1:
            return tiles_F3SS
        whole_3SS = resize_frame(rgb_HW3, width=self.tile, height=self.tile, resample=self.resample)
        return torch.cat([tiles_F3SS, whole_3SS[None]])

    def cut(self, canvas_3HW: torch.Tensor) -> torch.Tensor:
        """(F, 3, S, S), row by row."""
        _, height, width = canvas_3HW.shape
        cut = canvas_3HW.view(3, height // self.tile, self.tile, width // self.tile, self.tile)
        return cut.permute(1, 3, 0, 2, 4).reshape(-1, 3, self.tile, self.tile)

    def pixel_values(self, entry: MediaEntry) -> torch.Tensor:
        """fp32 (F, 3, S, S)."""
        from mmrl.data.pixels import normalise

        return normalise(entry.frames_F3HW, self)

    def tower_inputs(self, entries: Sequence[MediaEntry]) -> dict[str, torch.Tensor]:
        import torch

        return {"pixel_values": torch.cat([self.pixel_values(entry) for entry in entries])}

    def budget_problem(self, kind: MediaKind, budget: BudgetClass) -> str | None:
        unread = VisionGeometry.budget_problem(self, kind, budget)
        if unread is not None:
            return unread
        if kind == "image" and budget.max_pixels < self.tile**2:
            return (
                f"max_pixels is {budget.max_pixels}, but the {self.family} family sees a picture in tiles of "
                f"{self.tile} x {self.tile} pixels; set it to at least {self.tile**2}"
            )
        if kind == "video" and budget.total_pixels is not None and budget.total_pixels < self.tile**2:
            return (
                f"total_pixels is {budget.total_pixels}, but every frame of a clip is {self.tile} x {self.tile} pixels "
                f"for the {self.family} family; set it to at least {self.tile**2}"
            )
        return None

    def tile_range(self, budget: BudgetClass) -> tuple[int, int]:
        """Least and most tiles of a picture, without the whole picture: as many as min_pixels and max_pixels hold.

        Tiles of 448, 56 * 56 to 1,003,520 pixels: 1 to 5.
        """
        most = max(1, budget.max_pixels // self.tile**2)
        return min(max(1, -(-budget.min_pixels // self.tile**2)), most), most

    def clip_range(self, total_frames: int, budget: BudgetClass) -> tuple[int, int]:
        """Least and most frames of a clip: min_frames and max_frames, what it has, and what total_pixels holds."""
        most = min(budget.max_frames, total_frames)
        if budget.total_pixels is not None:
            most = max(1, min(most, budget.total_pixels // self.tile**2))
        return min(budget.min_frames, most), most


def common_settings(files: ModelFiles) -> dict[str, Any]:
    """What every family states of its pixels: mean, deviation, rescale factor; equal for images and clips."""
    mean, std = files.of_images("image_mean", "image_std")
    files.check_equal("image_mean", "image_std", "rescale_factor")
    return {
        "image_mean": tuple(mean),
        "image_std": tuple(std),
        "rescale_factor": files.images.get("rescale_factor", 1 / 255),
    }


def square_side(files: ModelFiles, size: Any, *, key: str) -> int:
    """The side of a square size {height, width}; ConfigError where it is none."""
    height, width = (size.get("height"), size.get("width")) if isinstance(size, dict) else (None, None)
    if not isinstance(height, int) or height != width:
        raise ConfigError(f"{files.source}: {key} is {size}, but tiles are squares with a height and a width")
    return height


def check_tower(files: ModelFiles, side: int) -> None:
    """ConfigError unless the vision tower takes tiles of this side."""
    size = files.config.get("vision_config", {}).get("image_size", side)
    if size not in (side, [side, side]):
        raise ConfigError(
            f"{files.source}: tiles of {side} pixels, but image_size is {size} in config.json's vision_config"
        )
