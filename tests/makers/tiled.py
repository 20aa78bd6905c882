"""Pictures and clips of the families that see tiles, opened as the framework does, and their own processors."""

from __future__ import annotations

import copy
from typing import Any

import torch
from makers.processors import family_processor, hf_processor, noise
from makers.tiny_models import Kind

from mmrl.config.schema import BudgetClass
from mmrl.data.budget import plan_image, plan_video, sample_frames, sampled_fps
from mmrl.data.rendered import MediaEntry

FPS = 4.0


def budget_for(kind: Kind, *, tiles: int = 4, **values: Any) -> BudgetClass:
    """Pictures of up to so many tiles."""
    side: int = family_processor(kind).geometry.tile  # type: ignore[attr-defined]
    fields = {"min_pixels": 1, "max_pixels": tiles * side**2, "min_frames": 1, "max_frames": 8, "sample_fps": FPS}
    return BudgetClass.model_validate(fields | values)


def open_picture(kind: Kind, image_3HW: torch.Tensor, budget: BudgetClass) -> MediaEntry:
    geometry = family_processor(kind).geometry
    height, width = image_3HW.shape[1:]
    plan = plan_image(width, height, budget, geometry)
    return MediaEntry(
        key=f"{kind} image {tuple(image_3HW.shape)} {int(image_3HW.sum())} {budget.max_pixels}",
        kind="image",
        frames_F3HW=geometry.image_frames(image_3HW.permute(1, 2, 0).contiguous().numpy(), plan),
        grid_thw=plan.grid_thw,
        num_tokens=plan.num_tokens,
        source_size=(width, height),
    )


def open_frames(kind: Kind, frames_F3HW: torch.Tensor, budget: BudgetClass) -> MediaEntry:
    """A clip of FPS frames a second."""
    geometry = family_processor(kind).geometry
    height, width = frames_F3HW.shape[2:]
    picked = sample_frames(len(frames_F3HW), FPS, budget, geometry)
    plan = plan_video(len(picked), width, height, budget, geometry)
    pictures = [frames_F3HW[index].permute(1, 2, 0).contiguous().numpy() for index in picked]
    return MediaEntry(
        key=f"{kind} clip {tuple(frames_F3HW.shape)} {int(frames_F3HW.sum())} {picked}",
        kind="video",
        frames_F3HW=torch.stack([geometry.clip_frame(picture, plan) for picture in pictures]),
        grid_thw=plan.grid_thw,
        num_tokens=plan.num_tokens,
        source_size=(width, height),
        timestamps_s=tuple(index / FPS for index in picked),
        frame_indices=picked,
        source_fps=FPS,
        duration_s=len(frames_F3HW) / FPS,
        sample_fps=sampled_fps(len(picked), len(frames_F3HW), FPS),
    )


def picture(kind: Kind, width: int, height: int, *, seed: int = 0, tiles: int = 4) -> MediaEntry:
    return open_picture(kind, noise(3, height, width, seed=seed), budget_for(kind, tiles=tiles))


def clip(kind: Kind, *, frames: int = 4, seed: int = 0) -> MediaEntry:
    return open_frames(kind, noise(frames, 3, 40, 60, seed=seed), budget_for(kind))


def hf_with_budget(kind: Kind, budget: BudgetClass) -> Any:
    """The family's processor, told the budget as an exported model is."""
    processor = copy.copy(hf_processor(kind))
    geometry = family_processor(kind).geometry
    processor.image_processor = _told(processor.image_processor, geometry.processor_settings("image", budget))
    if geometry.reads_clips:
        processor.video_processor = _told(processor.video_processor, geometry.processor_settings("video", budget))
    return processor


def _told(processor: Any, settings: dict[str, Any]) -> Any:
    return type(processor)(**(processor.to_dict() | settings))
