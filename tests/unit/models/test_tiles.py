"""Families that see tiles against their own processors of transformers: sizes, tokens, pixels and ids, for any size."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from makers.processors import family_processor, noise
from makers.tiled import FPS, budget_for, hf_with_budget, open_frames, open_picture, picture
from makers.tiny_models import TILE_KINDS, tiny_model_dir

from mmrl.config.schema import ModelSection
from mmrl.data.budget import plan_video, sample_frames
from mmrl.data.render import render
from mmrl.data.sample import MediaPart, MediaRef, Message, Sample, SpacePart, TextPart
from mmrl.data.vision import SizeError
from mmrl.errors import ConfigError, DataError, EngineError
from mmrl.models.load import processor_of

every_family = pytest.mark.parametrize("kind", TILE_KINDS)
CLIP_KINDS = tuple(kind for kind in TILE_KINDS if family_processor(kind).geometry.reads_clips)
every_clip_family = pytest.mark.parametrize("kind", CLIP_KINDS)
many = settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
sides = st.one_of(st.integers(1, 30), st.integers(1, 400))


def turns(*parts):
    return [{"role": "user", "content": list(parts)}]


def text(words):
    return {"type": "text", "text": words}


def rendered(kind, parts, media):
    sample = Sample("made", "t", "image", (Message("user", tuple(parts)),), _refs(media))
    return render(sample, media, family_processor(kind))


def _refs(media):
    return tuple(MediaRef(entry.kind, torch.zeros(1)) for entry in media)


def ids_of(inputs):
    return inputs["input_ids"][0].tolist()


@every_family
@many
@given(width=sides, height=sides, tiles=st.integers(1, 12), least=st.integers(1, 12))
def test_pictures_of_any_size_equal_the_processors(kind, width, height, tiles, least):
    budget = budget_for(
        kind, tiles=max(tiles, least), min_pixels=family_processor(kind).geometry.token_pixels * min(tiles, least)
    )
    image = noise(3, height, width)
    entry = open_picture(kind, image, budget)
    ours = family_processor(kind).geometry.tower_inputs([entry])
    hf = hf_with_budget(kind, budget)
    parts = [MediaPart(0), TextPart("What colour is it?")]
    template = hf.apply_chat_template(turns({"type": "image"}, text("What colour is it?")), add_generation_prompt=True)
    theirs = hf(text=[template], images=[image], return_tensors="pt")
    assert torch.equal(ours["pixel_values"], theirs["pixel_values"].view(ours["pixel_values"].shape))
    assert rendered(kind, parts, [entry]).prompt_ids_T.tolist() == ids_of(theirs)


@every_clip_family
@many
@given(
    total=st.integers(1, 300),
    source_fps=st.sampled_from((1.0, 8.0, 24.0, 29.97, 30.0)),
    sample_fps=st.sampled_from((0.5, 1.0, 2.0, 7.3)),
    max_frames=st.integers(1, 40),
)
def test_sampled_frames_equal_the_processors(kind, total, source_fps, sample_fps, max_frames):
    from transformers.video_utils import VideoMetadata

    geometry = family_processor(kind).geometry
    budget = budget_for(kind, sample_fps=sample_fps, max_frames=max_frames)
    ours = sample_frames(total, source_fps, budget, geometry)
    told = _told_frames(kind, ours, budget)
    metadata = VideoMetadata(total_num_frames=total, fps=source_fps, duration=total / source_fps)
    processor = hf_with_budget(kind, budget).video_processor
    assert list(ours) == [int(index) for index in processor.sample_frames(metadata, **told)]
    assert 1 <= len(ours) <= min(max_frames, total)


def _told_frames(kind, ours, budget):
    """Only SmolVLM's processor knows a rate and a most; the others are told how many frames."""
    return (
        {"num_frames": budget.max_frames, "fps": budget.sample_fps} if kind == "smolvlm" else {"num_frames": len(ours)}
    )


@every_clip_family
@pytest.mark.parametrize(("width", "height"), [(60, 40), (33, 90), (56, 56), (1, 1), (200, 3)])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_clips_equal_the_processors(kind, width, height, count):
    frames = noise(count, 3, height, width)
    budget = budget_for(kind)
    entry = open_frames(kind, frames, budget)
    ours = family_processor(kind).geometry.tower_inputs([entry])
    assert len(entry.frames_F3HW) == count
    theirs = hf_clip(kind, frames, budget)
    pixels = next(value for name, value in theirs.items() if name.startswith("pixel_values"))
    mine = next(value for name, value in ours.items() if name.startswith("pixel_values"))
    assert torch.equal(mine, pixels.view(mine.shape))
    parts = [MediaPart(0), TextPart("What happens?")]
    assert rendered(kind, parts, [entry]).prompt_ids_T.tolist() == ids_of(theirs)


def hf_clip(kind, frames, budget):
    hf = hf_with_budget(kind, budget)
    template = hf.apply_chat_template(turns({"type": "video"}, text("What happens?")), add_generation_prompt=True)
    metadata = {"fps": FPS, "total_num_frames": len(frames), "frames_indices": list(range(len(frames)))}
    options = {"video_metadata": [metadata | {"duration": len(frames) / FPS}], "do_sample_frames": False}
    videos = [[frames]] if kind == "smolvlm" else [frames]
    return hf(text=[template], videos=videos, return_tensors="pt", **options)


@every_family
def test_a_conversation_with_pictures_equals_the_processors(kind):
    hf = hf_with_budget(kind, budget_for(kind))
    images = [noise(3, 90, 200, seed=1), noise(3, 40, 40, seed=2)]
    entries = [open_picture(kind, image, budget_for(kind)) for image in images]
    conversation = [
        {"role": "user", "content": [text(" Left\n"), {"type": "image"}, text("\n\n or "), {"type": "image"}]},
        {"role": "assistant", "content": [text("red")]},
        {"role": "user", "content": [text("<image><img> typed")]},
    ]
    template = hf.apply_chat_template(conversation[:2], add_generation_prompt=False)
    theirs = ids_of(hf(text=[template], images=images, return_tensors="pt"))
    messages = (
        Message("user", (TextPart(" Left\n"), MediaPart(0), TextPart("\n\n or "), MediaPart(1))),
        Message("assistant", (TextPart("red"),)),
        Message("user", (TextPart("<image><img><IMG_CONTEXT> typed"),)),
    )
    prompt = render(Sample("made", "t", "image", messages, _refs(entries)), entries, family_processor(kind))
    assert prompt.prompt_ids_T.tolist()[: len(theirs)] == theirs
    assert "<image><img><IMG_CONTEXT> typed" in family_processor(kind).decode(prompt.prompt_ids_T.tolist())
    assert prompt.next_position == len(prompt.prompt_ids_T)
    assert prompt.num_vision_tokens == sum(entry.num_tokens for entry in entries)


def test_gemma_on_a_cpu_is_refused_for_vllm():
    if torch.cuda.is_available():
        pytest.skip("vLLM's attention on GPUs lets the tokens of a picture see each other")
    with pytest.raises(EngineError, match="vLLM on a CPU does not let the tokens of a Gemma 3 picture"):
        family_processor("gemma3").geometry.engine_inputs(picture("gemma3", 60, 40))


def test_a_canvas_that_vllm_would_not_take_is_refused():
    geometry = family_processor("llava_onevision").geometry
    with pytest.raises(EngineError, match=r"a picture of 200 x 90 pixels .* raise max_pixels .* to 50176"):
        geometry.engine_inputs(picture("llava_onevision", 200, 90, tiles=1))


@pytest.mark.parametrize("kind", TILE_KINDS)
def test_a_budget_without_room_for_a_tile_is_a_problem(kind):
    geometry = family_processor(kind).geometry
    too_small = budget_for(kind, max_pixels=geometry.token_pixels - 1)
    assert f"set it to at least {geometry.token_pixels}" in (geometry.budget_problem("image", too_small) or "")
    assert geometry.budget_problem("image", budget_for(kind, tiles=1)) is None


@pytest.mark.parametrize("kind", ["idefics3", "gemma3"])
def test_clips_of_a_family_without_them_are_a_problem_of_the_configuration(kind):
    geometry, budget = family_processor(kind).geometry, budget_for(kind)
    assert geometry.budget_problem("video", budget) == (
        f"the {kind} family reads no clips; remove the videos, or use a family that does"
    )
    with pytest.raises(SizeError, match=f"a clip, but the {kind} family reads none"):
        sample_frames(10, 2.0, budget, geometry)
    with pytest.raises(SizeError, match=f"a clip, but the {kind} family reads none"):
        plan_video(4, 60, 40, budget, geometry)


@every_family
def test_places_in_pixels_of_the_model_are_refused(kind):
    section = ModelSection(path=str(tiny_model_dir(kind)), box_space="model_px")
    with pytest.raises(ConfigError, match=f"model_px, but the {kind} family sees a picture in tiles or squeezed"):
        processor_of(section)


def test_a_prompt_that_names_places_needs_a_known_space():
    media = [picture("smolvlm", 60, 40)]
    with pytest.raises(DataError, match=r"made.* how smolvlm models write places is not known; say it with model\.box"):
        rendered("smolvlm", [MediaPart(0), SpacePart("box")], media)


@pytest.mark.parametrize(
    ("tiles", "size", "grid"),
    [(1, (90, 30), (1, 1, 1)), (5, (90, 30), (4, 1, 3)), (4, (50, 50), (1, 1, 1)), (4, (100, 100), (5, 2, 2))],
)
def test_tiles_of_internvl(tiles, size, grid):
    """A picture of 3:1 has three tiles and the whole; a square of 50 pixels is too small for more than one tile."""
    entry = picture("internvl", *size, tiles=tiles)
    assert (entry.grid_thw, entry.num_tokens) == (grid, 4 * grid[0])
