"""Tiny random VLMs of the real classes in fp32, and prompts for them."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from makers.rendered import make_clip, make_image, make_prompt, render_parts
from makers.tiny_models import tiny_model_dir

from mmrl.data.rendered import MediaEntry, RenderedPrompt
from mmrl.models.families import load_processor
from mmrl.rollout.types import Group, Request, Sampling

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

    def rendered(self, *parts: str | MediaEntry) -> RenderedPrompt:
        return render_parts(self.processor, *parts)


@functools.cache
def tiny_vlm(family: str) -> TinyVlm:
    """The tiny model of a family, loaded once per test process; tests must not leave weights changed."""
    from transformers import AutoModelForImageTextToText

    folder = tiny_model_dir(family)
    model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa")
    return TinyVlm(family, model, load_processor(folder))


def mixed_prompts(vlm: TinyVlm) -> list[RenderedPrompt]:
    """Text; an image; two images of different size; a clip; a clip, an image and the clip again."""
    clip = vlm.clip(3, frames=5)
    return [
        vlm.rendered("What colour is the square?"),
        vlm.rendered(vlm.image(1), "left or right"),
        vlm.rendered(vlm.image(1), "and", vlm.image(2, height=6), "up"),
        vlm.rendered(clip, "What?"),
        vlm.rendered(clip, vlm.image(4), clip, "down"),
    ]


def requests_for(prompts: Sequence[RenderedPrompt], **changes: Any) -> list[Request]:
    """Requests 0, 1, .. of four short completions each, or as the changes say."""
    fields = {"n": 4, "sampling": Sampling(max_new_tokens=7, temperature=0.7), **changes}
    return [Request(request_id=str(i), prompt=p, seed=10 + i, **fields) for i, p in enumerate(prompts)]


def answers(engine: Any, requests: Sequence[Request]) -> list[Group]:
    """What an engine gives, in the order of the requests."""
    return sorted(engine.generate(requests), key=lambda group: int(group.request.request_id))
