"""The families' own processors of transformers, the yardstick for this program's arithmetic, and entries to compare."""

from __future__ import annotations

import copy
import functools
from collections.abc import Sequence
from typing import Any

import torch
from makers.tiny_models import Kind, tiny_model_dir

from mmrl.config.schema import BudgetClass
from mmrl.data.budget import plan_image, plan_video, sampled_fps
from mmrl.data.rendered import MediaEntry
from mmrl.models.families import FamilyProcessor, load_processor
from mmrl.models.qwen import QwenGeometry, total_pixels


def budget_of(**values: Any) -> BudgetClass:
    return BudgetClass.model_validate(values)


@functools.cache
def family_processor(kind: Kind) -> FamilyProcessor:
    return load_processor(tiny_model_dir(kind))


@functools.cache
def hf_processor(kind: Kind) -> Any:
    from transformers import AutoProcessor

    return AutoProcessor.from_pretrained(tiny_model_dir(kind))


def hf_image_processor(budget: BudgetClass, geometry: QwenGeometry) -> Any:
    """transformers' image processor set to the same budget."""
    return _set_size(_bare_processor("Qwen2VLImageProcessor", geometry), budget.min_pixels, budget.max_pixels)


def hf_video_processor(budget: BudgetClass, geometry: QwenGeometry) -> Any:
    """transformers' clip processor set to the same budget, as the docstring of mmrl.data.budget says."""
    clip_pixels, token_pixels = total_pixels(budget, geometry), geometry.factor**2
    if geometry.video_rule == "qwen2":
        bare = _bare_processor("Qwen2VLVideoProcessor", geometry)
        processor = _set_size(bare, budget.min_pixels, budget.max_pixels)
        # The small addition makes up for rounding: the processor multiplies back and cuts to a whole number.
        processor.max_video_tokens = (clip_pixels / geometry.temporal_patch_size + 1e-3) / 0.9 / token_pixels
    else:
        processor = _set_size(_bare_processor("Qwen3VLVideoProcessor", geometry), budget.min_pixels, clip_pixels)
        processor.max_video_tokens = budget.max_pixels / token_pixels
    processor.cap_pixels_per_frame = True
    processor.min_frames, processor.max_frames = budget.min_frames, budget.max_frames
    return processor


def _set_size(bare: Any, shortest: int, longest: int) -> Any:
    from transformers.image_utils import SizeDict

    processor = copy.copy(bare)
    processor.size = SizeDict(shortest_edge=shortest, longest_edge=longest)
    return processor


@functools.cache
def _bare_processor(class_name: str, geometry: QwenGeometry) -> Any:
    import transformers

    return getattr(transformers, class_name)(
        patch_size=geometry.patch_size,
        merge_size=geometry.merge_size,
        temporal_patch_size=geometry.temporal_patch_size,
        image_mean=list(geometry.image_mean),
        image_std=list(geometry.image_std),
    )


def resized(frames: torch.Tensor, width: int, height: int) -> torch.Tensor:
    """The resize the cache stores: torchvision v2, bicubic, antialias, uint8 in and out."""
    from torchvision.transforms.v2 import functional as tv

    return tv.resize(frames, [height, width], interpolation=tv.InterpolationMode.BICUBIC, antialias=True)


def image_entry(image: torch.Tensor, budget: BudgetClass, geometry: QwenGeometry) -> MediaEntry:
    """An opened still from uint8 (3, H, W)."""
    plan = plan_image(image.shape[2], image.shape[1], budget, geometry)
    return MediaEntry(
        key=f"image-{image.shape}-{int(image.sum())}",
        kind="image",
        frames_F3HW=resized(image[None], plan.width, plan.height),
        grid_thw=plan.grid_thw,
        num_tokens=plan.num_tokens,
        source_size=(image.shape[2], image.shape[1]),
    )


def clip_entry(
    frames: torch.Tensor, budget: BudgetClass, geometry: QwenGeometry, *, fps: float, indices: Sequence[int] = ()
) -> MediaEntry:
    """An opened clip from uint8 (F, 3, H, W) of constant rate; `indices` are the sampled frames, all without any."""
    indices = tuple(indices) or tuple(range(len(frames)))
    plan = plan_video(len(indices), frames.shape[3], frames.shape[2], budget, geometry)
    return MediaEntry(
        key=f"clip-{frames.shape}-{int(frames.sum())}",
        kind="video",
        frames_F3HW=resized(frames[list(indices)], plan.width, plan.height),
        grid_thw=plan.grid_thw,
        num_tokens=plan.num_tokens,
        source_size=(frames.shape[3], frames.shape[2]),
        timestamps_s=tuple(index / fps for index in indices),
        frame_indices=indices,
        source_fps=fps,
        duration_s=len(frames) / fps,
        sample_fps=sampled_fps(len(indices), len(frames), fps),
    )


def hf_metadata(entry: MediaEntry) -> dict[str, Any]:
    """What transformers wants to know about the clip behind the entry."""
    assert entry.source_fps and entry.duration_s
    return {
        "fps": entry.source_fps,
        "total_num_frames": round(entry.duration_s * entry.source_fps),
        "frames_indices": list(entry.frame_indices),
        "duration": entry.duration_s,
    }


def noise(*shape: int, seed: int = 0) -> torch.Tensor:
    """Random uint8 pixels."""
    return torch.randint(0, 256, shape, generator=torch.Generator().manual_seed(seed), dtype=torch.uint8)
