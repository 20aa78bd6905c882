"""What a model family does with pictures and clips: the contract that every family's geometry keeps.

Sizes, tiles, tokens and placeholder text are arithmetic on numbers, so preprocessing, rollout, training, evaluation and
`mmrl check` count the same tokens without opening a file twice. Families are in mmrl/models, one module each.

Letters: F stored frames, H/W pixels, T tokens of a run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from mmrl.config.section import BudgetClass
from mmrl.errors import ConfigError, MmrlError

if TYPE_CHECKING:  # arithmetic needs no torch
    import numpy as np
    import torch

    from mmrl.data.rendered import MediaEntry, Placeholder
    from mmrl.data.sample import MediaKind

Resample = Literal["bicubic", "bilinear", "lanczos"]
Grid = tuple[int, int, int]


class SizeError(MmrlError):
    """A medium that no budget can fit: without pixels or frames, or longer than 200 times its width."""


@dataclass(frozen=True, slots=True)
class MediaPlan:
    """What a picture or clip becomes.

    width, height: pixels, of a picture that is cut into tiles those of all tiles together, of a clip those of a frame.
    grid_thw: see `MediaEntry`. num_tokens: in the language model.
    """

    width: int
    height: int
    grid_thw: Grid
    num_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VisionGeometry(ABC):
    """What a family's processor does to pixels, besides the budget. Equal geometries make equal entries.

    image_mean, image_std: per RGB channel, of values scaled by rescale_factor.
    temporal_patch_size: frames of one step of a grid's t; a still or an odd last frame is repeated to fill it.
    tokens_per_second: temporal positions per second of a clip, for families whose positions know time.
    """

    family: str
    image_mean: tuple[float, float, float]
    image_std: tuple[float, float, float]
    rescale_factor: float = 1 / 255
    temporal_patch_size: int = 1
    tokens_per_second: float | None = None

    resample: ClassVar[Resample] = "bicubic"
    reads_clips: ClassVar[bool] = True
    # Whether vLLM takes what the vision modules make of a medium in the place of its pixels: see `engine_features`.
    engine_takes_features: ClassVar[bool] = False
    # Whether coordinates in the pixels that the model sees have a meaning: not where a picture is seen in tiles.
    has_model_pixels: ClassVar[bool] = False

    @abstractmethod
    def plan_image(self, width: int, height: int, budget: BudgetClass) -> MediaPlan:
        """What a picture of width x height source pixels becomes. Raises SizeError."""

    @abstractmethod
    def plan_clip(self, num_frames: int, width: int, height: int, budget: BudgetClass) -> MediaPlan:
        """What `num_frames` sampled frames become. Raises SizeError."""

    @abstractmethod
    def sample(self, total_frames: int, source_fps: float, budget: BudgetClass) -> tuple[int, ...]:
        """Indices of the frames taken from a clip of constant rate, in order."""

    @abstractmethod
    def count_tokens(self, kind: MediaKind, grid_thw: Grid, source_size: tuple[int, int]) -> int:
        """Tokens of a medium with this grid, made from source_size (width, height) pixels."""

    @abstractmethod
    def sizing(self, kind: MediaKind) -> dict[str, Any]:
        """The part that decides sizes and frames of this kind, as JSON values: what a cache recipe needs."""

    @abstractmethod
    def placeholder(self, entry: MediaEntry) -> Sequence[str | int]:
        """A medium in the prompt: texts of the template's language, and lengths of runs of its placeholder token.

        A picture of 4 tokens between marks: ("<img>", 4, "</img>").
        """

    @abstractmethod
    def pixel_values(self, entry: MediaEntry) -> torch.Tensor:
        """The normalised pixels in the vision tower's form, fp32: those of the family's processor bit for bit."""

    @abstractmethod
    def tower_inputs(self, entries: Sequence[MediaEntry]) -> dict[str, torch.Tensor]:
        """Arguments of transformers' `get_image_features` or `get_video_features` for media of one kind."""

    @abstractmethod
    def engine_inputs(self, entry: MediaEntry) -> dict[str, torch.Tensor]:
        """The tensors of one medium under the names of the family's processor, which vLLM takes."""

    def engine_features(self, entry: MediaEntry) -> dict[str, torch.Tensor]:
        """The features of an entry under the names that vLLM has for them, for families whose features it takes."""
        raise NotImplementedError(self.family)

    @abstractmethod
    def processor_settings(self, kind: MediaKind, budget: BudgetClass) -> dict[str, Any]:
        """The budget in the words of transformers' processor of this kind."""

    @abstractmethod
    def frame_size(self, grid_thw: Grid) -> tuple[int, int]:
        """(height, width) in pixels of a stored frame of a medium with this grid."""

    @property
    @abstractmethod
    def token_pixels(self) -> int:
        """The step in which it makes sense to change max_pixels."""

    def image_frames(self, rgb_HW3: np.ndarray, plan: MediaPlan) -> torch.Tensor:
        """uint8 (F, 3, H, W): what is stored of a picture."""
        from mmrl.data.resize import resize_frame

        return resize_frame(rgb_HW3, width=plan.width, height=plan.height, resample=self.resample).unsqueeze(0)

    def clip_frame(self, rgb_HW3: np.ndarray, plan: MediaPlan) -> torch.Tensor:
        """uint8 (3, H, W): what is stored of one frame of a clip."""
        from mmrl.data.resize import resize_frame

        return resize_frame(rgb_HW3, width=plan.width, height=plan.height, resample=self.resample)

    def fits(self, entry: MediaEntry) -> bool:
        """Whether frames and token count of an entry are those that its grid stands for.

        An entry of the cache always fits; one that came over a network may not.
        """
        frames, grid = entry.frames_F3HW, entry.grid_thw
        return (
            (entry.kind == "image" or self.reads_clips)
            and min(*grid, *entry.source_size) > 0
            and grid[0] == -(-len(frames) // self.temporal_patch_size)
            and tuple(frames.shape[1:]) == (3, *self.frame_size(grid))
            and entry.num_tokens == self.count_tokens(entry.kind, grid, entry.source_size)
        )

    def run_positions(self, run: Placeholder, entry: MediaEntry, *, start: int) -> torch.Tensor:
        """int64 (3, T): positions of a run of placeholders that begins at `start`; here they count on like text."""
        del entry
        import torch

        return torch.arange(start, start + run.length).expand(3, -1)

    def per_medium(self, pooled: Any, entries: Sequence[MediaEntry]) -> Sequence[torch.Tensor]:
        """Tokens (T, D) of each medium, from transformers' `pooler_output` for all of `tower_inputs`."""
        if isinstance(pooled, (tuple, list)):
            return pooled
        return pooled.flatten(0, -2).split([entry.num_tokens for entry in entries])

    def encoder_output(self, kind: MediaKind, features: Sequence[torch.Tensor]) -> Any:
        """Features (T, D) of runs in the form of transformers' `pooler_output` for this kind: here one batch of one."""
        del kind
        import torch

        return torch.cat(list(features))[None]

    def model_settings(self, budget: BudgetClass) -> dict[str, Any]:
        """What the picture budget changes in config.json, for models that read it there."""
        del budget
        return {}

    def budget_problem(self, kind: MediaKind, budget: BudgetClass) -> str | None:
        """Why no medium of this kind fits the budget, with the remedy; None: some do."""
        del budget
        if kind == "video" and not self.reads_clips:
            return f"the {self.family} family reads no clips; remove the videos, or use a family that does"
        return None


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """What the files of a model folder say of its eyes.

    config: config.json. images, clips: settings of the processors. processor: of both together, where it has a file.
    source: the file that holds `images`, for errors.
    """

    config: Mapping[str, Any]
    images: Mapping[str, Any]
    clips: Mapping[str, Any]
    processor: Mapping[str, Any]
    source: str

    def of_images(self, *keys: str) -> list[Any]:
        """Settings of the image processor. Raises ConfigError naming the file and the first that is missing."""
        for key in keys:
            if key not in self.images:
                raise ConfigError(f"{self.source}: {key} is missing")
        return [self.images[key] for key in keys]

    def check_equal(self, *keys: str) -> None:
        """ConfigError where images and clips have settings that differ: one geometry serves both."""
        for key in keys:
            if key in self.images and key in self.clips and self.images[key] != self.clips[key]:
                raise ConfigError(
                    f"{self.source}: {key} is {self.images[key]} for images, but {self.clips[key]} for clips"
                )
