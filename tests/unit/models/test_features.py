"""Features in the place of pixels: the same log-probs on every family, and fingerprints that follow the weights."""

import copy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from makers.tiled_prompts import logprobs_of, prompts_of
from makers.tiny_models import TILE_KINDS
from makers.vlm import FAMILIES, mixed_prompts, tiny_vlm

from mmrl.config.schema import ModelSection
from mmrl.data.cache import PixelCache
from mmrl.data.feature_cache import FeatureCache
from mmrl.errors import ConfigError
from mmrl.models.features import (
    STORED,
    VisionEncoder,
    check_frozen,
    trained_vision,
    vision_tensors,
    weights_fingerprint,
)
from mmrl.models.freeze import freeze
from mmrl.models.logprobs import LogprobModule
from mmrl.models.packing import group_row, separate_rows
from mmrl.training.media_cache import reads_pixels
from mmrl.training.step import LogprobSettings, logprob_pass

ALL = (*FAMILIES, *TILE_KINDS)
every_family = pytest.mark.parametrize("kind", ALL)
COMPLETIONS = [[3, 4, 5, 6], [7], [8, 9]]
SECTION = ModelSection(path="unused", dtype="float32")


def encoder_of(kind, **options):
    vlm = tiny_vlm(kind)
    return VisionEncoder.of(vlm.model, vlm.processor, SECTION, **options)


def prompts(kind):
    return mixed_prompts(tiny_vlm(kind))[1:] if kind in FAMILIES else prompts_of(kind)


def with_features(prompt, encoder, dtype=torch.float32):
    """The prompt whose media have features, rounded as a store of that type rounds them, and no frames to look at."""
    media = []
    for entry in prompt.media:
        features = encoder.encode(entry)
        rounded = replace(
            features,
            tokens_KD=features.tokens_KD.to(dtype),
            deepstack=tuple(level.to(dtype) for level in features.deepstack),
        )
        frames = torch.empty(entry.frames_F3HW.shape, dtype=torch.uint8, device="meta")
        media.append(replace(entry, frames_F3HW=frames, features=rounded))
    return replace(prompt, media=tuple(media))


def rows_of(kind, prompt):
    if tiny_vlm(kind).processor.family.shares_prefix:
        return [group_row(prompt, COMPLETIONS, [0, 1, 2])]
    return separate_rows(prompt, COMPLETIONS, [0, 1, 2])


def largest_gap(kind, dtype):
    vlm, encoder, gaps = tiny_vlm(kind), encoder_of(kind), []
    with torch.no_grad():
        for prompt in prompts(kind):
            pixels = logprobs_of(vlm, rows_of(kind, prompt))
            features = logprobs_of(vlm, rows_of(kind, with_features(prompt, encoder, dtype)))
            gaps += [abs(a - b) for p, f in zip(pixels, features, strict=True) for a, b in zip(p, f, strict=True)]
    return max(gaps)


@every_family
def test_logprobs_equal_those_of_the_pixels(kind):
    assert largest_gap(kind, torch.float32) <= 1e-5


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
@every_family
def test_narrow_types_cost_little(kind, name):
    assert 0 < largest_gap(kind, STORED[name]) < {"bfloat16": 0.02, "float16": 0.003}[name]


@every_family
def test_the_tower_is_not_run(kind, monkeypatch):
    vlm, encoder = tiny_vlm(kind), encoder_of(kind)
    seen = [with_features(prompt, encoder) for prompt in prompts(kind)]

    def refuse(*args, **kwargs):
        raise AssertionError("the vision tower was run")

    for name in ("get_image_features", "get_video_features"):
        if hasattr(vlm.model.model, name):
            monkeypatch.setattr(vlm.model.model, name, refuse)
    with torch.no_grad():
        for prompt in seen:
            logprobs_of(vlm, rows_of(kind, prompt))


@every_family
def test_copied_modules_encode_alike_without_the_language_model(kind):
    own, copied = encoder_of(kind), encoder_of(kind, copies=True)
    assert copied.settings == own.settings
    assert sum(p.numel() for p in copied.model.parameters()) < sum(p.numel() for p in own.model.parameters())
    for entry in {entry.key: entry for prompt in prompts(kind) for entry in prompt.media}.values():
        one, other = own.encode(entry), copied.encode(entry)
        assert torch.equal(one.tokens_KD, other.tokens_KD) and len(one.deepstack) == len(other.deepstack)
        assert all(torch.equal(a, b) for a, b in zip(one.deepstack, other.deepstack, strict=True))


@every_family
def test_every_vision_weight_is_in_the_fingerprint_and_no_other(kind):
    vlm = tiny_vlm(kind)
    family = vlm.processor.family
    before = weights_fingerprint(vlm.model, family)
    vision = dict(vision_tensors(vlm.model, family))
    with torch.no_grad():
        for name, parameter in vlm.model.named_parameters():
            kept = parameter.flatten()[0].item()
            parameter.view(-1)[0] = kept + 1
            assert (weights_fingerprint(vlm.model, family) != before) == (name in vision), name
            parameter.view(-1)[0] = kept
    assert weights_fingerprint(vlm.model, family) == before


@every_family
def test_features_are_allowed_while_tower_and_projector_are_frozen(kind):
    vlm = tiny_vlm(kind)
    model, family = copy.deepcopy(vlm.model), vlm.processor.family
    freeze(model, ["vision_tower", "projector"], family=family)
    assert trained_vision(model, family) == []
    check_frozen(model, family)
    freeze(model, ["vision_tower"], family=family)
    assert trained_vision(model, family)
    with pytest.raises(ConfigError, match=r"'cache.level' is features but .*'model.freeze'.*or set 'cache.level'"):
        check_frozen(model, family)


def test_a_model_with_other_eyes_is_given_pixels():
    vlm, other = tiny_vlm("qwen2_5_vl"), copy.deepcopy(tiny_vlm("qwen2_5_vl").model)
    cache = FeatureCache(PixelCache(Path("unused")), encoder_of("qwen2_5_vl"), stored="float32")
    with torch.no_grad():
        other.lm_head.weight += 1
    assert not reads_pixels(cache, other, vlm.processor)
    with torch.no_grad():
        other.model.visual.merger.mlp[2].bias += 1
    assert reads_pixels(cache, other, vlm.processor)
    assert not reads_pixels(cache.pixels, other, vlm.processor)
    module = LogprobModule(other)
    pixels, encoder = prompts("qwen2_5_vl")[0], encoder_of("qwen2_5_vl")
    media = tuple(replace(m, features=encoder.encode(m), reopen=lambda m=m: m) for m in pixels.media)
    [row] = rows_of("qwen2_5_vl", replace(pixels, media=media))
    options = {"temperature": 1.0, "banned_ids": vlm.processor.banned_ids, "chunk": 8, "micro_batch_tokens": 1000}
    settings = LogprobSettings(processor=vlm.processor, **options)

    def logprobs(rows):
        return logprob_pass(module, rows, settings=settings, shape=(3, 4))[0]

    expected = logprobs(rows_of("qwen2_5_vl", pixels))
    assert not torch.allclose(logprobs([row]), expected, atol=1e-5)  # the policy's features would mislead it
    module.reads_pixels = True
    assert torch.equal(logprobs([row]), expected)


def test_encoding_leaves_the_mode_of_the_language_model_alone():
    encoder = encoder_of("qwen3_vl")
    encoder.model.train()
    encoder.encode(tiny_vlm("qwen3_vl").image(1))
    assert all(module.training for module in encoder.model.model.language_model.modules())
    assert not any(module.training for module in encoder.model.model.visual.modules())
    encoder.model.eval()
