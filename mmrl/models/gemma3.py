"""Gemma 3: every picture squeezed into one square, whose tokens see each other in both directions.

A budget changes nothing but must have room for the square. Pan and scan, which adds crops of long pictures and is off
by default in transformers, is not supported; the family reads no clips.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from mmrl.config.section import BudgetClass
from mmrl.data.vision import MediaPlan, ModelFiles, Resample, SizeError
from mmrl.errors import ConfigError, EngineError
from mmrl.models.family import Family
from mmrl.models.tiles import TileGeometry, check_tower, common_settings, square_side

if TYPE_CHECKING:
    import torch

    from mmrl.data.rendered import MediaEntry
    from mmrl.data.sample import MediaKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Gemma3Geometry(TileGeometry):
    """One tile a picture."""

    resample: ClassVar[Resample] = "bilinear"
    reads_clips: ClassVar[bool] = False

    @classmethod
    def read(cls, files: ModelFiles, *, family: str) -> Gemma3Geometry:
        [size] = files.of_images("size")
        side = square_side(files, size, key="size")
        check_tower(files, side)
        if files.images.get("do_pan_and_scan"):
            raise ConfigError(f"{files.source}: do_pan_and_scan is true, which is not supported; set it to false")
        tokens = files.config.get("mm_tokens_per_image", 256)
        stated = files.processor.get("image_seq_length", tokens)
        if stated != tokens:
            raise ConfigError(
                f"{files.source}: image_seq_length is {stated}, but the model makes {tokens} of a picture"
            )
        return cls(family=family, tile=side, tile_tokens=tokens, **common_settings(files))

    def layout(self, width: int, height: int, budget: BudgetClass) -> tuple[int, int]:
        del width, height, budget
        return 1, 1

    def plan_clip(self, num_frames: int, width: int, height: int, budget: BudgetClass) -> MediaPlan:
        raise SizeError(f"a clip, but the {self.family} family reads none")

    def sample(self, total_frames: int, source_fps: float, budget: BudgetClass) -> tuple[int, ...]:
        raise SizeError(f"a clip, but the {self.family} family reads none")

    def placeholder(self, entry: MediaEntry) -> Sequence[str | int]:
        return ("\n\n<start_of_image>", entry.num_tokens, "<end_of_image>\n\n")

    def engine_inputs(self, entry: MediaEntry) -> dict[str, torch.Tensor]:
        """Raises EngineError without a GPU: vLLM 0.32's attention on CPUs shows pictures in one direction only."""
        import torch

        if not torch.cuda.is_available():
            raise EngineError(
                "vLLM on a CPU does not let the tokens of a Gemma 3 picture see each other, so log-probs would differ "
                "from the trainer's; use rollout.engine hf"
            )
        return {"pixel_values": self.pixel_values(entry), "num_patches": torch.tensor([1])}

    def processor_settings(self, kind: MediaKind, budget: BudgetClass) -> dict[str, Any]:
        return {}


FAMILIES = (
    Family(
        name="gemma3",
        architectures=("Gemma3ForConditionalGeneration",),
        geometry=Gemma3Geometry.read,
        module_groups={
            "vision_tower": ("model.vision_tower.",),
            "projector": ("model.multi_modal_projector.",),
            "language_model": ("model.language_model.", "lm_head."),
        },
        banned_tokens=("<image_soft_token>", "<start_of_image>", "<end_of_image>"),
        image_mark="<start_of_image>",
        attention="window",
        engine_prefixes={"model.vision_tower.": "model.vision_tower.vision_model."},
    ),
)
