"""InternVL in transformers' own form (`OpenGVLab/InternVL3-1B-hf` and others): 1 to N tiles, then the whole picture.

Of all layouts with an allowed number of tiles the one whose shape is nearest to the picture's is taken; of equally near
ones the one with more tiles, as long as its area is less than twice the picture's. That is `GotOcr2ImageProcessor` of
transformers 5.19 with crop_to_patches, min_patches and max_patches.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mmrl.config.section import BudgetClass
from mmrl.data.vision import ModelFiles
from mmrl.errors import ConfigError
from mmrl.models.family import Family
from mmrl.models.tiles import TileGeometry, check_tower, common_settings, square_side

if TYPE_CHECKING:
    import torch

    from mmrl.data.rendered import MediaEntry
    from mmrl.data.sample import MediaKind


@dataclass(frozen=True, slots=True, kw_only=True)
class InternVLGeometry(TileGeometry):
    """image_token_id: of config.json; vLLM wants it with every picture."""

    image_token_id: int

    @classmethod
    def read(cls, files: ModelFiles, *, family: str) -> InternVLGeometry:
        [size] = files.of_images("size")
        side = square_side(files, size, key="size")
        files.check_equal("size")
        check_tower(files, side)
        patch = files.config.get("vision_config", {}).get("patch_size", 14)
        patch = patch if isinstance(patch, int) else patch[0]
        tokens = int((side // patch) ** 2 * files.config.get("downsample_ratio", 0.5) ** 2)
        stated = files.processor.get("image_seq_length", tokens)
        if stated != tokens:
            raise ConfigError(f"{files.source}: image_seq_length is {stated}, but the model makes {tokens} of a tile")
        common = common_settings(files)
        return cls(
            family=family, tile=side, tile_tokens=tokens, image_token_id=files.config.get("image_token_id", 0), **common
        )

    def layout(self, width: int, height: int, budget: BudgetClass) -> tuple[int, int]:
        """A 1000 x 500 photo, tiles of 448, 1 to 5 tiles: 1 row of 2 columns."""
        low, high = self.tile_range(budget)
        best, best_distance = (1, 1), float("inf")
        for columns, rows in _layouts(low, high):
            distance = abs(width / height - columns / rows)
            covered = 0.5 * self.tile**2 * columns * rows
            if distance < best_distance or (distance == best_distance and width * height > covered):
                best, best_distance = (rows, columns), distance
        return best

    def sample(self, total_frames: int, source_fps: float, budget: BudgetClass) -> tuple[int, ...]:
        """The middle frames of equally long parts: of 60 frames at 30 fps, sample_fps 2: 7 22 37 52 (4 parts)."""
        import torch

        low, high = self.clip_range(total_frames, budget)
        count = min(max(int(total_frames / source_fps * budget.sample_fps), low), high)
        step = total_frames / count
        # In float32, as the processor does it: it decides which frame wins where a middle falls on a whole number.
        return tuple(torch.arange(step / 2, total_frames, step).int().tolist()[:count])

    def placeholder(self, entry: MediaEntry) -> Sequence[str | int]:
        if entry.kind == "image":
            return ("<img>", entry.num_tokens, "</img>")
        pieces: list[str | int] = []
        for number in range(1, entry.grid_thw[0] + 1):
            lead = "" if number == 1 else "\n"
            pieces += [f"{lead}Frame{number}: <img>", self.tile_tokens, "</img>"]
        return pieces

    def engine_inputs(self, entry: MediaEntry) -> dict[str, torch.Tensor]:
        """A clip is a picture in as many tiles to vLLM: its frames go through the same tower in the same way."""
        import torch

        return {
            "pixel_values": self.pixel_values(entry),
            "image_num_patches": torch.tensor([entry.grid_thw[0]]),
            "image_token_id": torch.tensor(self.image_token_id),
        }

    def processor_settings(self, kind: MediaKind, budget: BudgetClass) -> dict[str, Any]:
        """The processor knows no most frames, so a clip longer than max_frames / sample_fps gets more of them there."""
        if kind == "video":
            return {"do_sample_frames": True, "fps": budget.sample_fps, "num_frames": None}
        low, high = self.tile_range(budget)
        return {"crop_to_patches": True, "min_patches": low, "max_patches": high}


@functools.cache
def _layouts(low: int, high: int) -> tuple[tuple[int, int], ...]:
    """(columns, rows) with low to high tiles, few tiles first, else by columns."""
    found = [(c, r) for c in range(1, high + 1) for r in range(1, high // c + 1) if low <= c * r]
    return tuple(sorted(found, key=lambda layout: layout[0] * layout[1]))


FAMILIES = (
    Family(
        name="internvl",
        architectures=("InternVLForConditionalGeneration",),
        geometry=InternVLGeometry.read,
        module_groups={
            "vision_tower": ("model.vision_tower.",),
            "projector": ("model.multi_modal_projector.",),
            "language_model": ("model.language_model.", "lm_head."),
        },
        banned_tokens=("<IMG_CONTEXT>", "<img>", "</img>", "<video>"),
        box_space="0..1000",
        clip_mark="<video>",
        clip_tokens="image",
    ),
)
