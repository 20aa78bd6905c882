"""Tiny random VLMs of the real classes in fp32, and prompts for them."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from makers.rendered import make_clip, make_image, make_prompt
from makers.tiny_models import tiny_model_dir

from mmrl.data.rendered import MediaEntry, RenderedPrompt
from mmrl.models.families import load_processor

FAMILIES = ("qwen2_5_vl", "qwen3_vl")


@dataclass(frozen=True)
class TinyVlm:
    family: str
    model: Any
    processor: Any

    def image(self, seed: int, **size: int) -> MediaEntry:
        return make_image(self.family, seed=seed, **size)

    def clip(self, seed: int, **size: int) -> MediaEntry:
        return make_clip(self.family, seed=seed, **size)

    def prompt(self, *parts: Sequence[int] | MediaEntry) -> RenderedPrompt:
        pad_ids = {"image": self.processor.image_token_id, "video": self.processor.video_token_id}
        return make_prompt(parts, family=self.family, pad_ids=pad_ids)


@functools.cache
def tiny_vlm(family: str) -> TinyVlm:
    """The tiny model of a family, loaded once per test process; tests must not leave weights changed."""
    from transformers import AutoModelForImageTextToText

    folder = tiny_model_dir(family)
    model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa")
    return TinyVlm(family, model, load_processor(folder))
