"""Sizes, tokens and sampled frames equal those of the families' own processors of transformers."""

import itertools
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from makers.processors import budget_of, hf_image_processor, hf_video_processor

from mmrl.data.budget import (
    SourceSize,
    largest_max_pixels,
    plan_image,
    plan_video,
    sample_frames,
    sample_times,
    sampled_fps,
)
from mmrl.data.vision import SizeError
from mmrl.models.qwen import QwenGeometry

ZERO, ONE = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
COMMON: dict[str, Any] = {"merge_size": 2, "temporal_patch_size": 2, "image_mean": ZERO, "image_std": ONE}
QWEN2 = QwenGeometry(
    family="qwen2_5_vl",
    patch_size=14,
    video_rule="qwen2",
    default_total_pixels=2 * int(128_000 * 28 * 28 * 0.9),
    **COMMON,
)
QWEN3 = QwenGeometry(
    family="qwen3_vl", patch_size=16, video_rule="qwen3", default_total_pixels=24_576 * 32 * 32, **COMMON
)

geometries = st.sampled_from((QWEN2, QWEN3))
sides = st.one_of(st.integers(1, 60), st.integers(1, 4000))
areas = st.integers(1, 2_000_000)
rates = st.one_of(st.sampled_from((1.0, 2.0, 24.0, 25.0, 29.97, 30.0, 30000 / 1001, 60.0)), st.floats(0.2, 120))
many = settings(max_examples=2000, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module", autouse=True)
def sizes_only():
    """The processors' `resize` returns the size it decided on; interpolating 4,000 random sizes would take minutes."""
    from transformers.image_processing_backends import TorchvisionBackend

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TorchvisionBackend, "resize", lambda self, image, size, **_: (size.width, size.height))
        yield


def processor_size(processor, pixels, geometry, **options):
    """(width, height) the processor resizes to."""
    return processor.resize(pixels, size=processor.size, resample=processor.resample, factor=geometry.factor, **options)


def check_plan(plan, size, patches_t, geometry):
    grid = (patches_t, size[1] // geometry.patch_size, size[0] // geometry.patch_size)
    assert (plan.width, plan.height, plan.grid_thw) == (*size, grid)
    assert plan.num_tokens == math.prod(grid) // geometry.merge_size**2


@many
@given(geometries, sides, sides, areas, areas)
def test_image_sizes_equal_the_processors(geometry, width, height, area_a, area_b):
    budget = budget_of(min_pixels=min(area_a, area_b), max_pixels=max(area_a, area_b))
    if max(width, height) / min(width, height) > 200:
        with pytest.raises(SizeError, match="200 times"):
            plan_image(width, height, budget, geometry)
        return
    pixels = torch.empty(1, 3, height, width, dtype=torch.uint8, device="meta")
    size = processor_size(hf_image_processor(budget, geometry), pixels, geometry)
    check_plan(plan_image(width, height, budget, geometry), size, 1, geometry)


@many
@given(geometries, sides, sides, st.integers(1, 800), areas, areas, st.none() | st.integers(1, 10**8))
def test_clip_sizes_equal_the_processors(geometry, width, height, num_frames, area_a, area_b, half_total):
    total = None if half_total is None else 2 * half_total
    budget = budget_of(min_pixels=min(area_a, area_b), max_pixels=max(area_a, area_b), total_pixels=total)
    # A clip shorter than a temporal patch is padded first; the qwen3 processor refuses it unpadded.
    planned = max(num_frames, 2)
    pixels = torch.empty(1, planned, 3, height, width, dtype=torch.uint8, device="meta")
    processor = hf_video_processor(budget, geometry)
    try:
        size = processor_size(processor, pixels, geometry, temporal_factor=2, cap_pixels_per_frame=True)
    except ValueError as refusal:
        assert "aspect ratio" in str(refusal)
        with pytest.raises(SizeError, match="200 times"):
            plan_video(num_frames, width, height, budget, geometry)
        return
    check_plan(plan_video(num_frames, width, height, budget, geometry), size, (num_frames + 1) // 2, geometry)


@many
@given(geometries, st.integers(1, 20_000), rates, rates, st.integers(1, 900), st.integers(1, 900))
def test_sampled_frames_equal_the_processors(geometry, total, source_fps, sample_fps, min_frames, max_frames):
    budget = budget_of(sample_fps=sample_fps, min_frames=min_frames, max_frames=max_frames)
    ours = sample_frames(total, source_fps, budget, geometry)
    processor = hf_video_processor(budget, geometry)
    clip = SimpleNamespace(total_num_frames=total, fps=source_fps)
    try:
        theirs = [int(index) for index in processor.sample_frames(clip, fps=sample_fps)]
    except ZeroDivisionError:  # the qwen2 processor's even count is 0
        theirs = [0]
    if theirs[-1] == total:  # its float arithmetic may add an index behind the last frame, which is no frame
        theirs = theirs[:-1]
    assert list(ours) == theirs
    assert sampled_fps(len(ours), total, source_fps) == len(theirs) / total * source_fps


@settings(max_examples=500, deadline=None, derandomize=True)
@given(geometries, st.integers(1, 3000), rates, rates, st.integers(0, 10**6), st.sampled_from((None, 1000, 90_000)))
def test_times_of_a_constant_rate_give_the_processors_frames(geometry, total, source_fps, sample_fps, first, time_base):
    budget = budget_of(sample_fps=sample_fps)
    times = first / 1000 + np.arange(total) / source_fps
    if time_base:  # as containers store them; frames closer than the base would fall together
        assert source_fps < time_base / 4
        times = np.round(times * time_base) / time_base
    assert sample_times(times, source_fps, budget, geometry) == sample_frames(total, source_fps, budget, geometry)


def test_times_of_a_variable_rate_pick_what_is_near_in_time():
    # fault 40: 5 frames in 13 s, 2 wanted; evenly over indices would take frames 0 and 2, seconds 0 and 2
    budget = budget_of(sample_fps=2 / 13, min_frames=1)
    assert sample_times([0.0, 1.0, 2.0, 3.0, 13.0], 5 / 13, budget, QWEN2) == (0, 3)
    assert sample_times([0.0, 1.0, 2.0, 3.0, 13.0], 5 / 13, budget, QWEN3) == (0, 4)


@pytest.mark.parametrize("geometry", (QWEN2, QWEN3), ids=lambda g: g.family)
@pytest.mark.parametrize("size", [(26, 28), (332, 27), (24, 198), (23, 3), (1, 1)])
def test_tiny_media_are_enlarged(geometry, size):
    # faults 17, 18
    image, clip = plan_image(*size, budget_of(), geometry), plan_video(3, *size, budget_of(), geometry)
    for plan in (image, clip):
        assert plan.width >= geometry.factor and plan.height >= geometry.factor
        assert plan.width % geometry.factor == plan.height % geometry.factor == 0
        assert plan.num_tokens == math.prod(plan.grid_thw) // 4 >= 1


def test_a_known_screen_and_photo_size():
    # fault 19: 150x224 is 5 x 7 tokens of 32 pixels; fault 23: 1920x1080 -> 1932x1092 with tokens of 28
    assert plan_image(224, 150, budget_of(min_pixels=1, max_pixels=10**7), QWEN3).num_tokens == 35
    assert plan_image(224, 150, budget_of(min_pixels=1, max_pixels=10**7), QWEN2).num_tokens == 40
    assert plan_image(1920, 1080, budget_of(max_pixels=10**7), QWEN2).width == 1932
    assert plan_image(1920, 1080, budget_of(max_pixels=10**7), QWEN2).height == 1092


@pytest.mark.parametrize(
    ("geometry", "total", "expected"),
    [
        (QWEN2, 1, (0,)),  # fault 34
        (QWEN2, 2, (0, 1)),
        (QWEN2, 3, (0, 1)),  # an even count
        (QWEN3, 1, (0,)),
        (QWEN3, 3, (0, 1, 2)),  # odd: the last frame is repeated later (fault 35)
        (QWEN2, 9, (0, 2, 4, 6)),  # fault 32: 16 frames asked of 9 is no error
        (QWEN3, 9, (0, 3, 5, 8)),
    ],
)
def test_short_clips(geometry, total, expected):
    assert sample_frames(total, 30.0, budget_of(), geometry) == expected
    assert plan_video(len(expected), 64, 64, budget_of(), geometry).grid_thw[0] == (len(expected) + 1) // 2


def test_more_frames_wanted_than_there_are():
    # fault 32
    for geometry in (QWEN2, QWEN3):
        assert len(sample_frames(9, 30.0, budget_of(min_frames=16, max_frames=16), geometry)) in (8, 9)


def test_no_medium_without_pixels_or_frames():
    with pytest.raises(SizeError, match="0x5 pixels"):
        plan_image(0, 5, budget_of(), QWEN2)
    with pytest.raises(SizeError, match="without frames"):
        plan_video(0, 5, 5, budget_of(), QWEN3)
    for total, fps in ((0, 30.0), (10, 0.0)):
        with pytest.raises(SizeError, match="cannot sample"):
            sample_frames(total, fps, budget_of(), QWEN2)


def test_total_pixels_caps_the_clip():
    # 64 frames of 1000x1000 in 3,136,000 pixels: 49,000 a frame; the area of all frames stays below
    budget = budget_of(max_pixels=10**6, total_pixels=3_136_000)
    for geometry in (QWEN2, QWEN3):
        plan = plan_video(64, 1000, 1000, budget, geometry)
        assert plan.width * plan.height * 64 <= 3_136_000 < (plan.width + 32) * (plan.height + 32) * 64


def test_sizes_do_not_depend_on_a_first_resize():
    # fault 47: planning what was already planned changes nothing, in no family is the factor applied twice
    for geometry, (w, h) in itertools.product((QWEN2, QWEN3), [(640, 480), (333, 1001), (56, 84)]):
        once = plan_video(8, w, h, budget_of(max_pixels=100_000), geometry)
        twice = plan_video(8, once.width, once.height, budget_of(max_pixels=100_000), geometry)
        assert once == twice


def test_largest_max_pixels_of_four_pictures():
    # fault 3: 4 pictures of 2,048 tokens, room for 4,000
    pictures = [SourceSize(1792, 896, None, 2048)] * 4
    pixels = largest_max_pixels(pictures, 4000, QWEN2)
    assert pixels == 828_688
    assert plan_image(1792, 896, budget_of(max_pixels=pixels), QWEN2).num_tokens == 990
    assert 4 * plan_image(1792, 896, budget_of(max_pixels=pixels + 28 * 28), QWEN2).num_tokens > 4000
    assert largest_max_pixels(pictures, 3, QWEN2) is None
    assert largest_max_pixels([], 10, QWEN2) is None


@settings(max_examples=200, deadline=None, derandomize=True)
@given(geometries, st.lists(st.tuples(st.integers(30, 900), st.integers(30, 900), st.none() | st.integers(1, 20))))
def test_largest_max_pixels_fits(geometry, sizes):
    def plan(size, budget):
        w, h, frames = size
        return plan_image(w, h, budget, geometry) if frames is None else plan_video(frames, w, h, budget, geometry)

    media = [SourceSize(*size, plan(size, budget_of()).num_tokens) for size in sizes]
    limit = sum(medium.num_tokens for medium in media) // 2
    pixels = largest_max_pixels(media, limit, geometry)
    if pixels is None:
        assert sum(plan(size, budget_of(min_pixels=1, max_pixels=1)).num_tokens for size in sizes) >= limit
    else:
        assert sum(plan(size, budget_of(min_pixels=1, max_pixels=pixels)).num_tokens for size in sizes) <= limit
