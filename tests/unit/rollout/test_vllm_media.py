"""Spans and tempo of media as vLLM wants them; vLLM itself is not needed."""

import dataclasses

import pytest
import torch
from makers.vlm import tiny_vlm

from mmrl.data.positions import patch_times, seconds_per_patch
from mmrl.errors import EngineError
from mmrl.rollout.vllm_media import media_spans


def test_an_image_and_a_clip_of_one_run_span_their_placeholders():
    vlm = tiny_vlm("qwen2_5_vl")
    image, clip = vlm.image(1), vlm.clip(2, frames=4)
    spans = media_spans(vlm.prompt([1, 2], image, [3], clip, image), vlm.processor)

    assert [(s.entry.key, s.start, s.length) for s in spans] == [
        (image.key, 2, 4),
        (clip.key, 7, 4),
        (image.key, 11, 4),
    ]
    assert all(span.is_placeholder_S is None for span in spans)


def test_a_clip_of_timed_runs_spans_from_its_first_start_token_to_its_last_placeholder():
    vlm = tiny_vlm("qwen3_vl")
    clip = vlm.clip(2, frames=4)
    start, end = (vlm.processor.special_ids[name] for name in ("<|vision_start|>", "<|vision_end|>"))
    made = vlm.prompt([start], clip, [end, 9])  # start 7 P P 7 P P end 9
    pad = vlm.processor.video_token_id
    ids = torch.tensor([start, 7, start, pad, pad, end, 7, start, pad, pad, end, end, 9])
    runs = (
        dataclasses.replace(made.placeholders[0], start=3),
        dataclasses.replace(made.placeholders[1], start=8),
    )
    [span] = media_spans(dataclasses.replace(made, prompt_ids_T=ids, placeholders=runs), vlm.processor)

    assert (span.start, span.length) == (2, 8)
    assert span.is_placeholder_S is not None
    assert span.is_placeholder_S.long().tolist() == [0, 1, 1, 0, 0, 0, 1, 1]
    with pytest.raises(EngineError, match="hand-made: the placeholders at 2 of a clip are not enclosed"):
        media_spans(made, vlm.processor)


@pytest.mark.parametrize("sample_fps", [0.7, 1.0, 1.3, 2.0, 20 / 7, 3.0, 4.0, 10.0, 23.976, 29.97])
@pytest.mark.parametrize("frames", [1, 2, 4, 63, 768])
def test_a_clips_tempo_gives_the_reference_positions_in_float64(sample_fps: float, frames: int):
    vlm = tiny_vlm("qwen2_5_vl")
    geometry = dataclasses.replace(vlm.processor.geometry, tokens_per_second=2)
    clip = dataclasses.replace(vlm.clip(1, frames=2), sample_fps=sample_fps, grid_thw=((frames + 1) // 2, 2, 4))
    seconds = seconds_per_patch(clip, geometry)

    assert seconds is not None
    expected = patch_times(clip.grid_thw[0], clip, geometry).tolist()
    assert [int(i * (seconds * 2)) for i in range(clip.grid_thw[0])] == expected


def test_families_whose_positions_know_no_time_have_no_tempo():
    vlm = tiny_vlm("qwen3_vl")
    assert seconds_per_patch(vlm.clip(1), vlm.processor.geometry) is None
