"""Position ids against transformers where it is right, and against the reference rule where it is not."""

import pytest
import torch
from makers.processors import budget_of, clip_entry, family_processor, image_entry, noise
from makers.tiny_models import KINDS, tiny_model_dir

from mmrl.data.positions import grid_positions, patch_times, prompt_positions, text_positions
from mmrl.data.rendered import Placeholder

BUDGET = budget_of(min_pixels=32 * 32, max_pixels=128 * 128)


def picture(kind, width=80, height=60):
    return image_entry(noise(3, height, width), BUDGET, family_processor(kind).geometry)


def clip(kind, frames=6, fps=4.0):
    return clip_entry(noise(frames, 3, 60, 60), BUDGET, family_processor(kind).geometry, fps=fps)


def laid_out(kind, media, *, gap=3):
    """Media with `gap` text tokens before each and after the last: (number of tokens, placeholder runs)."""
    runs, at = [], gap
    for index, entry in enumerate(media):
        per_patch = entry.num_tokens // entry.grid_thw[0]
        timed = kind == "qwen3_vl" and entry.kind == "video"
        length = per_patch if timed else entry.num_tokens
        for first in range(0, entry.num_tokens, length):
            runs.append(Placeholder(at, length, index, first))
            at += length + gap
    return at, runs


def reference(kind, media, *, gap=3, tokens_per_second=2):
    """The rule of the reference implementation, written out: text after a medium starts at max over t, h, w plus 1."""
    columns, free = [torch.arange(gap).expand(3, -1)], gap
    for entry in media:
        t, h, w = entry.grid_thw
        blocks = [(1, h, w)] * t if kind == "qwen3_vl" and entry.kind == "video" else [(t, h, w)]
        for t, h, w in blocks:
            axes = torch.meshgrid(torch.arange(t), torch.arange(h // 2), torch.arange(w // 2), indexing="ij")
            block = torch.stack(axes).reshape(3, -1).clone()
            if kind == "qwen2_5_vl" and entry.kind == "video":
                block[0] = (block[0] * (2 / entry.sample_fps) * tokens_per_second).long()
            columns.append(block + free)
            free = int(columns[-1].max()) + 1
            columns.append(torch.arange(gap).expand(3, -1) + free)
            free += gap
    return torch.cat(columns, dim=1), free


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fps", [0.5, 2.0, 4.0, 10.0, 24.0])
def test_prompt_positions_follow_the_reference(kind, fps):
    # fault 46: rates above 2 do not collapse to zeros
    media = [picture(kind), clip(kind, 7, fps), picture(kind, 30, 90), clip(kind, 30, fps)]
    length, runs = laid_out(kind, media)
    positions, free = prompt_positions(length, runs, media, family_processor(kind).geometry)
    expected, expected_free = reference(kind, media)
    assert torch.equal(positions, expected)
    assert free == expected_free == int(positions.max()) + 1


@pytest.mark.parametrize("kind", KINDS)
def test_pictures_and_timed_clips_equal_transformers(kind):
    from transformers import AutoConfig, AutoModelForImageTextToText

    media = [picture(kind), picture(kind, 30, 90)] + ([clip(kind, 7), picture(kind)] if kind == "qwen3_vl" else [])
    length, runs = laid_out(kind, media)
    types = torch.zeros(1, length, dtype=torch.int64)
    for run in runs:
        types[0, run.start : run.start + run.length] = 1 if media[run.medium].kind == "image" else 2
    grids = {
        name: torch.tensor([entry.grid_thw for entry in media if entry.kind == which]) if which else None
        for name, which in (("image_grid_thw", "image"), ("video_grid_thw", "video" if kind == "qwen3_vl" else None))
    }
    with torch.device("meta"):
        model = AutoModelForImageTextToText.from_config(AutoConfig.from_pretrained(tiny_model_dir(kind)))
    theirs, _ = model.model.get_rope_index(types, mm_token_type_ids=types, **grids)
    ours, _ = prompt_positions(length, runs, media, family_processor(kind).geometry)
    assert torch.equal(ours, theirs[:, 0])


def test_times_are_cut_after_the_product():
    # fault 46: 5 frames a second, patches of 2 frames, 2 tokens per second: 0.8 a patch
    entry = clip("qwen2_5_vl", 10, 5.0)
    geometry = family_processor("qwen2_5_vl").geometry
    assert patch_times(5, entry, geometry).tolist() == [0, 0, 1, 2, 3]
    assert patch_times(3, entry, family_processor("qwen2_vl").geometry).tolist() == [0, 1, 2]
    assert patch_times(1, picture("qwen2_5_vl"), geometry).tolist() == [0]


def test_text_after_a_long_narrow_clip_starts_after_its_last_moment():
    # 20 patches of 1 x 1 token, 1 temporal position each: h and w end at 3, time at 22
    entry = clip("qwen2_vl", 40)
    small = clip_entry(
        noise(40, 3, 28, 28), budget_of(min_pixels=1, max_pixels=784), family_processor("qwen2_vl").geometry, fps=4.0
    )
    assert small.grid_thw == (20, 2, 2) and entry.grid_thw[0] == 20
    positions, free = prompt_positions(25, [Placeholder(3, 20, 0)], [small], family_processor("qwen2_vl").geometry)
    assert positions[:, 22].tolist() == [22, 3, 3]
    assert positions[:, 23].tolist() == [23, 23, 23]
    assert free == 25


def test_text_and_continuations():
    assert text_positions(5, 3).tolist() == [[5, 6, 7]] * 3
    assert text_positions(5, 0).shape == (3, 0)
    assert grid_positions(4, torch.arange(2), 1, 2).tolist() == [[4, 4, 5, 5], [4, 4, 4, 4], [4, 5, 4, 5]]
    positions, free = prompt_positions(4, [], [], family_processor("qwen3_vl").geometry, start=10)
    assert positions[1].tolist() == [10, 11, 12, 13] and free == 14
