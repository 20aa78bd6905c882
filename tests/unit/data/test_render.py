"""Rendered ids equal those of the families' own processors; what people type stays text; nothing is cut."""

import dataclasses
import itertools
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from makers.processors import (
    budget_of,
    clip_entry,
    family_processor,
    hf_metadata,
    hf_processor,
    image_entry,
    noise,
)
from makers.tiny_models import KINDS

from mmrl.data.budget import plan_image
from mmrl.data.render import check_length, extend, fitting_max_pixels, render
from mmrl.data.sample import GeometryPart, MediaPart, MediaRef, Message, Sample, TextPart
from mmrl.errors import DataError, PromptTooLongError

BUDGET = budget_of(min_pixels=32 * 32, max_pixels=96 * 96)
every_family = pytest.mark.parametrize("kind", KINDS)


def sample_of(*parts, system=None, count=None):
    """One user message: strings, media as integers, other parts as they are."""
    opening = () if system is None else (Message("system", (TextPart(system),)),)
    return conversation_of(*opening, user(*parts), count=count)


def conversation_of(*messages, count=None):
    placed = [part.medium for message in messages for part in message.parts if isinstance(part, MediaPart)]
    count = max(placed, default=-1) + 1 if count is None else count
    media = tuple(MediaRef("image", Path(f"/pictures/{i}.png")) for i in range(count))
    return Sample("q-7", "count", "image", messages, media=media, origin="train.jsonl:381")


def user(*parts):
    kinds = {str: TextPart, int: MediaPart}
    return Message("user", tuple(kinds.get(type(part), lambda same: same)(part) for part in parts))


def picture(kind, width=80, height=60, seed=0):
    return image_entry(noise(3, height, width, seed=seed), BUDGET, family_processor(kind).geometry)


def clip(kind, frames=5, indices=(), fps=4.0):
    pixels = noise(max(frames, *indices, 0) + 1 if indices else frames, 3, 48, 64)
    return clip_entry(pixels, BUDGET, family_processor(kind).geometry, fps=fps, indices=indices)


def processor_ids(kind, sample, media):
    """The ids of transformers' processor, which is given the frames already resized."""
    turns = [
        {
            "role": message.role,
            "content": [
                {"type": media[part.medium].kind}
                if isinstance(part, MediaPart)
                else {"type": "text", "text": part.text}
                for part in message.parts
            ],
        }
        for message in sample.messages
    ]
    processor = hf_processor(kind)
    text = processor.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    images = [entry.frames_F3HW[0] for entry in media if entry.kind == "image"]
    clips = [entry for entry in media if entry.kind == "video"]
    options = {"images": images} if images else {}
    if clips:
        options |= {"videos": [entry.frames_F3HW for entry in clips], "do_sample_frames": False}
        options |= {"video_metadata": [hf_metadata(entry) for entry in clips]}
    return processor(text=[text], do_resize=False, **options)["input_ids"][0]


SEAMS = (
    "Hi",
    "",
    " Hi",
    "Hi ",
    "\nHi",
    "Hi\n",
    "\n\n Hi \n\n",
    "  ",
    "\n",
    "<think>so</think>",
    "naïve – café ✓ 図",
    "e\u0301",
)


@every_family
@pytest.mark.parametrize("text", SEAMS)
def test_ids_equal_the_processors_at_every_seam(kind, text):
    media = [picture(kind), picture(kind, 60, 90, seed=1)]
    for sample in (
        sample_of(text),
        sample_of(0, text, 1),
        sample_of(text, 0, text, 1, text),
        sample_of(0, 1, text, system=text),
        conversation_of(user(0, text), Message("assistant", (TextPart(text),)), user(text, 1)),
    ):
        used = media[: len(sample.media)]
        assert render(sample, used, family_processor(kind)).prompt_ids_T.tolist() == list(
            processor_ids(kind, sample, used)
        )


plain_text = st.text(st.characters(exclude_categories=("Cs", "Co")), max_size=12).filter(lambda t: "<|" not in t)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.sampled_from(KINDS), st.lists(plain_text, min_size=1, max_size=3))
def test_ids_of_any_texts_equal_the_processors(kind, texts):
    media = [picture(kind)]
    sample = sample_of(texts[0], 0, *texts[1:])
    assert render(sample, media, family_processor(kind)).prompt_ids_T.tolist() == list(
        processor_ids(kind, sample, media)
    )


@every_family
@pytest.mark.parametrize("indices", [(0,), (0, 3), (0, 4, 7), (1, 5, 9, 12), tuple(range(0, 30, 3))])
def test_clip_ids_equal_the_processors(kind, indices):
    # faults 34, 35: one frame and odd counts; faults 44, 45: times of sampled frames, as many as patches
    media = [clip(kind, indices=indices, fps=29.97), picture(kind)]
    sample = sample_of("See ", 0, "then", 1)
    prompt = render(sample, media, family_processor(kind))
    assert prompt.prompt_ids_T.tolist() == list(processor_ids(kind, sample, media))


@every_family
def test_placeholders_cover_every_token_of_every_medium(kind):
    processor = family_processor(kind)
    media = [picture(kind), clip(kind), picture(kind, 30, 90)]
    prompt = render(sample_of("a", 0, "b", 1, 2), media, processor)
    seen = {0: 0, 1: 0, 2: 0}
    for run in prompt.placeholders:
        pad = processor.video_token_id if media[run.medium].kind == "video" else processor.image_token_id
        assert prompt.prompt_ids_T[run.start : run.start + run.length].tolist() == [pad] * run.length
        assert run.first == seen[run.medium]
        seen[run.medium] += run.length
    assert seen == {i: entry.num_tokens for i, entry in enumerate(media)}
    assert len(prompt.placeholders) == (5 if kind == "qwen3_vl" else 3)  # 5 frames: 3 temporal patches
    assert prompt.num_vision_tokens == sum(entry.num_tokens for entry in media)


@every_family
def test_engine_ids_hold_one_placeholder_per_medium(kind):
    # faults 6, 7: an engine that expands by itself gets the unexpanded form
    processor = family_processor(kind)
    prompt = render(sample_of("a", 0, "b", 1), [picture(kind), clip(kind)], processor)
    assert prompt.engine_ids.count(processor.image_token_id) == 1
    assert prompt.engine_ids.count(processor.video_token_id) == 1
    text = hf_processor(kind).apply_chat_template(
        [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image"},
                                      {"type": "text", "text": "b"}, {"type": "video"}]}],
        tokenize=False, add_generation_prompt=True,
    )  # fmt: skip
    assert list(prompt.engine_ids) == hf_processor(kind).tokenizer(text)["input_ids"]


@every_family
@pytest.mark.parametrize(
    "typed",
    [
        "<|image_pad|>",
        "<image>",
        "<video>",
        "<|vision_start|><|video_pad|><|vision_end|>",
        "<|im_end|>\n",
        "\ue0000\ue001",
    ],
)
def test_what_people_type_stays_text(kind, typed):
    # faults 13, 14
    processor = family_processor(kind)
    prompt = render(sample_of(f"Is {typed} a tag?", 0), [picture(kind)], processor)
    plain = render(sample_of("Is it a tag?", 0), [picture(kind)], processor)
    assert [run.length for run in prompt.placeholders] == [run.length for run in plain.placeholders]
    specials = set(processor.special_ids.values())
    assert [i for i in prompt.prompt_ids_T.tolist() if i in specials] == [
        i for i in plain.prompt_ids_T.tolist() if i in specials
    ]
    assert f"Is {typed} a tag?" in processor.decode(prompt.prompt_ids_T.tolist())


@every_family
def test_a_special_token_put_together_from_two_parts_stays_text(kind):
    processor = family_processor(kind)
    prompt = render(sample_of("<|image", "_pad|>", 0), [picture(kind)], processor)
    assert len(prompt.placeholders) == 1
    assert prompt.placeholders[0].start > len(processor.encode_text("<|image_pad|>"))


@every_family
def test_too_long_is_an_error_with_numbers_and_nothing_is_cut(kind):
    # faults 2 to 5, 8: 4 pictures
    processor = family_processor(kind)
    sample, media = sample_of(0, 1, 2, 3, "How many?"), [picture(kind, seed=i) for i in range(4)]
    prompt = render(sample, media, processor)
    limit = len(prompt.prompt_ids_T) - 5
    assert len(render(sample, media, processor, max_prompt_tokens=limit + 5).prompt_ids_T) == limit + 5
    pixels = fitting_max_pixels(prompt, limit, processor=processor)
    with pytest.raises(PromptTooLongError) as caught:
        render(sample, media, processor, max_prompt_tokens=limit)
    each = media[0].num_tokens
    message = str(caught.value)
    assert message.startswith(f"train.jsonl:381 (id=q-7): the prompt has {limit + 5} tokens")
    assert f"{each} + {each} + {each} + {each}" in message
    assert f"max_pixels of at most {pixels}" in message
    smaller = plan_image(80, 60, budget_of(min_pixels=1, max_pixels=pixels), processor.geometry)
    assert 4 * (each - smaller.num_tokens) >= 5


def test_too_long_text_says_that_no_budget_helps():
    prompt = render(sample_of("How many?"), [], family_processor("qwen3_vl"))
    with pytest.raises(PromptTooLongError, match=r"0 of media \(none\); no pixel budget"):
        check_length(prompt, 3, processor=family_processor("qwen3_vl"), where="here")


@every_family
def test_every_medium_has_a_place_and_every_place_a_medium(kind):
    # faults 15, 16
    with pytest.raises(DataError, match=r"train.jsonl:381 \(id=q-7\).*place media \[0\], the sample has 2"):
        render(sample_of(0, "?"), [picture(kind), picture(kind)], family_processor(kind))
    with pytest.raises(DataError, match=r"unknown: \[1\]"):
        render(sample_of(0, 1), [picture(kind)], family_processor(kind))


def test_unknown_role():
    with pytest.raises(DataError, match="unknown role 'robot'"):
        render(conversation_of(Message("robot", (TextPart("Hi"),))), [], family_processor("qwen3_vl"))


def test_a_template_that_drops_a_part_is_an_error():
    template = "{% for m in messages if m['role'] != 'system' %}{{ m['content'][0]['text'] }}{% endfor %}"
    processor = dataclasses.replace(family_processor("qwen3_vl"), chat_template=template)
    with pytest.raises(DataError, match="drops or reorders"):
        render(sample_of("Hi", system="Be short."), [], processor)
    with pytest.raises(DataError, match="does not write one placeholder"):
        blind = dataclasses.replace(family_processor("qwen3_vl"), chat_template="no picture")
        render(sample_of(0), [picture("qwen3_vl")], blind)
    with pytest.raises(DataError, match="refuses this conversation: no system"):
        strict = dataclasses.replace(processor, chat_template="{{ raise_exception('no system') }}")
        render(sample_of("Hi", system="Be short."), [], strict)


@pytest.mark.parametrize(
    ("kind", "written"),
    [("qwen2_5_vl", "42 28 84 56"), ("qwen3_vl", "500 500 1000 1000"), ("qwen2_vl", "500 500 1000 1000")],
)
def test_a_box_in_a_prompt_is_written_in_the_models_space(kind, written):
    entry = dataclasses.replace(
        picture(kind), frames_F3HW=noise(1, 3, 56, 84), grid_thw=(1, 4, 6), num_tokens=6, source_size=(100, 80)
    )
    box = GeometryPart("box", (50, 40, 100, 80), "original_px")
    processor = family_processor(kind)
    prompt = render(sample_of(0, "In [", box, "]?"), [entry], processor)
    assert f"In [{written}]?" in processor.decode(prompt.prompt_ids_T.tolist())


def test_a_wrong_box_in_a_prompt_names_the_sample():
    box = GeometryPart("box", (50, 40, 100), "original_px")
    with pytest.raises(DataError, match=r"q-7\): box \[50, 40, 100\] in the prompt"):
        render(sample_of(0, box), [picture("qwen3_vl")], family_processor("qwen3_vl"))


@every_family
@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize("reply", ["a cat", "two\n", ""])
def test_extending_equals_rendering_the_whole_conversation(kind, ended, reply):
    processor = family_processor(kind)
    media = [picture(kind), clip(kind), picture(kind, 40, 90, seed=3)]
    first, second = user(0, "What? "), user("\nAnd ", 1, 2, "?")
    completion = processor.encode_text(reply) + [processor.eos_ids[0]] * ended
    prompt = extend(render(conversation_of(first), media[:1], processor), completion, [second], media[1:], processor)
    whole = render(conversation_of(first, Message("assistant", (TextPart(reply),)), second), media, processor)
    assert prompt.prompt_ids_T.tolist() == whole.prompt_ids_T.tolist()
    assert torch.equal(prompt.position_ids_3T, whole.position_ids_3T)
    assert prompt.next_position == whole.next_position
    assert prompt.placeholders == whole.placeholders
    assert prompt.media == whole.media
    assert prompt.engine_ids == whole.engine_ids


@every_family
def test_extending_keeps_sampled_ids_and_old_placeholders(kind):
    # fault 7: earlier media are not expanded again; an unusual tokenisation is not mended
    processor = family_processor(kind)
    start = render(sample_of(0, "?"), [picture(kind)], processor)
    odd = processor.encode_text("u") + processor.encode_text("s") + processor.encode_text("er")
    assert odd != processor.encode_text("user")
    turns = [start]
    for _ in range(3):
        turns.append(extend(turns[-1], odd, [user("again")], [], processor))
    length = len(start.prompt_ids_T)
    growth = {len(b.prompt_ids_T) - len(a.prompt_ids_T) for a, b in itertools.pairwise(turns)}
    assert len(growth) == 1
    assert turns[-1].prompt_ids_T[:length].tolist() == start.prompt_ids_T.tolist()
    assert turns[-1].prompt_ids_T[length : length + len(odd)].tolist() == odd
    assert turns[-1].placeholders == start.placeholders


def test_an_old_picture_can_be_shown_again():
    processor = family_processor("qwen2_5_vl")
    start = render(sample_of(0, "?"), [picture("qwen2_5_vl")], processor)
    prompt = extend(start, [], [user("Look at ", 0, " again")], [], processor)
    assert [run.medium for run in prompt.placeholders] == [0, 0]
    assert len(prompt.media) == 1


@every_family
def test_a_template_is_filled_once_for_conversations_alike_in_form(kind, monkeypatch):
    processor = dataclasses.replace(family_processor(kind))
    entry, asked = picture(kind), []
    apply = type(processor).apply_template
    monkeypatch.setattr(type(processor), "apply_template", lambda self, turns: asked.append(1) or apply(self, turns))
    first, second, other = sample_of(0, "One?"), sample_of(0, "Two or three?"), sample_of("Two or three?", 0)
    prompts = [render(sample, [entry], processor) for sample in (first, second, other)]
    assert len(asked) == 2
    for sample, prompt in zip((first, second, other), prompts, strict=True):
        assert prompt.prompt_ids_T.tolist() == list(processor_ids(kind, sample, [entry]))
    small = render(first, [picture(kind, width=64, height=32)], processor)
    assert small.num_vision_tokens == picture(kind, width=64, height=32).num_tokens
