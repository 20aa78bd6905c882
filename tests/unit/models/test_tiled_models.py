"""Tiny models of the families that see tiles: features, log-probs, generation, groups of modules, adapters."""

import pytest
import torch
from makers.processors import family_processor, noise
from makers.tiled import budget_for, hf_with_budget, open_picture, picture
from makers.tiled_prompts import logprobs_of, prompts_of, rendered
from makers.tiny_models import TILE_KINDS, Kind
from makers.vlm import tiny_vlm

from mmrl.data.budget import SourceSize, largest_max_pixels
from mmrl.models.decoder import DecoderInputs, run_decoder
from mmrl.models.encode import encode_media, gather_features, idle_medium
from mmrl.models.freeze import module_group
from mmrl.models.logprobs import token_logprobs
from mmrl.models.lora import target_layers
from mmrl.models.packing import group_row, pack, separate_rows
from mmrl.rollout.hf_engine import HfEngine
from mmrl.rollout.types import Request, Sampling

every_family = pytest.mark.parametrize("kind", TILE_KINDS)
SAMPLING = Sampling(max_new_tokens=7, temperature=0.7)
COMPLETIONS = [[3, 4, 5, 6], [7], [8, 9]]
TOLERANCE = 1e-5


@every_family
@pytest.mark.parametrize(("width", "height"), [(200, 90), (40, 40), (90, 210), (224, 224), (300, 30)])
def test_logits_equal_those_of_transformers_own_forward_pass(kind, width, height):
    vlm = tiny_vlm(kind)
    image, budget = noise(3, height, width, seed=1), budget_for(kind, tiles=16)
    entry = open_picture(kind, image, budget)
    prompt = rendered(kind, entry, "left")
    hf = hf_with_budget(kind, budget)
    turn = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "left"}]}
    inputs = hf(text=[hf.apply_chat_template([turn], add_generation_prompt=True)], images=[image], return_tensors="pt")
    micro = pack([group_row(prompt, [], [])], vlm.processor)
    with torch.no_grad():
        theirs = vlm.model(**inputs).logits
        features = encode_media(vlm.model, micro.media, vlm.processor)
        outputs = gather_features(features, micro.media_order, vlm.processor)
        decoded = run_decoder(vlm.model, DecoderInputs(micro.ids_BT, micro.positions_3BT, encoder_outputs=outputs))
        ours = vlm.model.lm_head(decoded.last_hidden_state)
    assert inputs["input_ids"].tolist() == micro.ids_BT.tolist()
    assert torch.allclose(ours, theirs, atol=TOLERANCE)


@every_family
def test_a_shared_prompt_and_separate_rows_give_the_same_logprobs(kind):
    vlm = tiny_vlm(kind)
    for prompt in prompts_of(kind):
        with torch.no_grad():
            shared = logprobs_of(vlm, [group_row(prompt, COMPLETIONS, [0, 1, 2])])
            separate = logprobs_of(vlm, separate_rows(prompt, COMPLETIONS, [0, 1, 2]))
        for ours, theirs in zip(shared, separate, strict=True):
            assert ours == pytest.approx(theirs, abs=TOLERANCE)


@every_family
def test_the_pictures_are_seen(kind):
    vlm = tiny_vlm(kind)
    with torch.no_grad():
        one, other = (
            logprobs_of(vlm, [group_row(rendered(kind, picture(kind, 90, 200, seed=seed)), COMPLETIONS, [0, 1, 2])])
            for seed in (1, 2)
        )
    assert max(abs(a - b) for a, b in zip(one[0], other[0], strict=True)) > 1e-4


@every_family
def test_behavior_logprobs_equal_the_trainers(kind):
    vlm = tiny_vlm(kind)
    requests = [Request(str(i), prompt, 3, SAMPLING, seed=10 + i) for i, prompt in enumerate(prompts_of(kind))]
    for group in HfEngine(vlm.model, vlm.processor).generate(requests):
        ids = [completion.ids for completion in group.completions]
        with torch.no_grad():
            expected = logprobs_of(vlm, [group_row(group.request.prompt, ids, range(len(ids)))])
        for completion, values in zip(group.completions, expected, strict=True):
            assert completion.behavior_logprobs == pytest.approx(values, abs=TOLERANCE)
            assert set(completion.ids).isdisjoint(vlm.processor.banned_ids)


@every_family
def test_each_distinct_medium_is_encoded_once(kind):
    vlm = tiny_vlm(kind)
    wide = picture(kind, 200, 90, seed=1)
    rows = [row for _ in range(2) for row in separate_rows(rendered(kind, wide, "a", wide), COMPLETIONS, [0, 1, 2])]
    assert [entry.key for entry in pack(rows, vlm.processor).media] == [wide.key]


@every_family
def test_gradients_reach_every_group_of_modules(kind):
    vlm = tiny_vlm(kind)
    vlm.model.zero_grad()
    micro = pack([group_row(prompts_of(kind)[2], COMPLETIONS, [0, 1, 2])], vlm.processor)
    options = {"temperature": 1.0, "banned_ids": vlm.processor.banned_ids, "chunk": 5}
    token_logprobs(vlm.model, micro, vlm.processor, **options).logprobs_L.sum().backward()
    reached = {
        module_group(name, vlm.processor.family)
        for name, parameter in vlm.model.named_parameters()
        if parameter.grad is not None and parameter.grad.abs().max() > 0
    }
    vlm.model.zero_grad()
    assert reached == {"vision_tower", "projector", "language_model"}


@every_family
def test_an_idle_medium_runs_through_the_tower(kind):
    vlm = tiny_vlm(kind)
    kinds = ("image", "video") if vlm.processor.geometry.reads_clips else ("image",)
    for medium in (idle_medium(which, vlm.processor) for which in kinds):
        [features] = encode_media(vlm.model, [medium], vlm.processor)
        assert features.tokens_KD.shape == (medium.num_tokens, 128)


@every_family
def test_groups_are_targets_of_adapters(kind):
    vlm = tiny_vlm(kind)
    family = vlm.processor.family
    for group, prefixes in family.module_groups.items():
        if group == "projector" and kind == "gemma3":  # its one matrix is no linear layer
            continue
        layers = target_layers(vlm.model, [group], family=family)
        assert layers and all(layer.startswith(prefixes) for layer in layers)


@pytest.mark.parametrize("kind", [kind for kind in TILE_KINDS if kind != "gemma3"])  # it has one tile, always
def test_the_largest_budget_that_fits_is_the_largest(kind):
    geometry = family_processor(kind).geometry
    media = [
        SourceSize(entry.source_size[0], entry.source_size[1], None, entry.num_tokens)
        for entry in (picture(kind, 200, 90, tiles=6), picture(kind, 120, 110, tiles=6))
    ]
    total = sum(medium.num_tokens for medium in media)
    for limit in range(geometry.tile_tokens, total + 1, 3):
        pixels = largest_max_pixels(media, limit, geometry)
        if pixels is not None:
            assert _tokens(kind, pixels) <= limit
            assert pixels >= 6 * geometry.token_pixels or _tokens(kind, pixels + geometry.token_pixels) > limit


def _tokens(kind: Kind, pixels: int) -> int:
    tiles = pixels // family_processor(kind).geometry.token_pixels
    return sum(picture(kind, *size, tiles=tiles).num_tokens for size in ((200, 90), (120, 110)))
