"""What a hook may ask of a forward pass equals what the full logits give, and nothing is computed unasked."""

import math

import pytest
import torch
from makers.rendered import random_completions
from makers.vlm import tiny_vlm

from mmrl.algorithms.requests import is_request
from mmrl.models.decoder import DecoderInputs, run_decoder
from mmrl.models.logprobs import LogprobModule, ValueHead
from mmrl.models.packing import group_row, pack
from mmrl.training.step import LogprobSettings, logprob_pass

BANNED = (3, 17, 200)
REQUESTS = (
    "entropy",
    "hidden:0",
    "hidden:1",
    "mean_logprob",
    "min_p:0",
    "min_p:0.02",
    "min_p:0.9",
    "top:3",
    "distribution",
    "top:1",
)


@pytest.fixture(scope="module")
def vlm():
    return tiny_vlm("qwen2_5_vl")


def some_row(vlm):
    completions = [[t if t not in BANNED else 4 for t in ids] for ids in random_completions((5, 1, 3), seed=4)]
    return group_row(vlm.prompt([1, 2, 3]), completions, [0, 1, 2])


def asked(model, micro, vlm, *requests, chunk=4):
    options = {"temperature": 0.7, "banned_ids": BANNED, "chunk": chunk}
    module = model if isinstance(model, LogprobModule) else LogprobModule(model)
    return module(micro, vlm.processor, requests=requests, want_entropy="entropy" in requests, **options)


def full_logprobs(vlm, micro):
    """(L, V) log-softmax of tempered logits without the banned ids, and the hidden states they come from."""
    inputs = DecoderInputs(micro.ids_BT, micro.positions_3BT, micro.mask_B1TT)
    hidden_LD = run_decoder(vlm.model, inputs).last_hidden_state.flatten(0, 1)[micro.predict_L]
    logits = vlm.model.lm_head(hidden_LD).float() / 0.7
    logits[:, list(BANNED)] = -torch.inf
    return logits.log_softmax(-1), hidden_LD


@torch.no_grad()
@pytest.mark.parametrize("chunk", [4, 100])
def test_the_statistics_are_those_of_the_full_logits(vlm, chunk):
    micro = pack([some_row(vlm)], vlm.processor)
    result = asked(vlm.model, micro, vlm, *REQUESTS, chunk=chunk)
    logprobs_LV, _ = full_logprobs(vlm, micro)
    allowed = [v for v in range(logprobs_LV.shape[1]) if v not in BANNED]
    torch.testing.assert_close(result.extra["mean_logprob"], logprobs_LV[:, allowed].mean(1), atol=1e-5, rtol=0)
    for share in (0.02, 0.9):
        cut_LV = logprobs_LV.masked_fill(logprobs_LV < logprobs_LV.amax(1, keepdim=True) + math.log(share), -torch.inf)
        expected_L = cut_LV.log_softmax(-1).gather(1, micro.target_L[:, None])[:, 0]
        torch.testing.assert_close(result.extra[f"min_p:{share:g}"], expected_L, atol=1e-5, rtol=0)
    assert result.extra["min_p:0.9"].isinf().any()
    torch.testing.assert_close(result.extra["min_p:0"], result.logprobs_L, atol=1e-6, rtol=0)
    torch.testing.assert_close(result.extra["distribution"], logprobs_LV, atol=1e-5, rtol=0)
    for count in (1, 3):
        ids_LA, values_LA = result.extra[f"top:{count}"].chunk(2, dim=1)
        torch.testing.assert_close(values_LA, logprobs_LV.topk(count).values, atol=1e-5, rtol=0)
        torch.testing.assert_close(logprobs_LV.gather(1, ids_LA.long()), values_LA, atol=1e-5, rtol=0)


@torch.no_grad()
def test_hidden_states_are_those_behind_the_layers(vlm):
    micro = pack([some_row(vlm)], vlm.processor)
    result = asked(vlm.model, micro, vlm, "hidden:0", "hidden:1")
    _, hidden_LD = full_logprobs(vlm, micro)
    decoder = vlm.model.model.language_model
    torch.testing.assert_close(decoder.norm(result.extra["hidden:1"]), hidden_LD)  # a norm follows the last layer
    assert not torch.allclose(result.extra["hidden:0"], result.extra["hidden:1"])
    assert not any(layer._forward_hooks for layer in decoder.layers)


def test_what_is_not_asked_is_not_computed_and_changes_nothing(vlm):
    micro = pack([some_row(vlm)], vlm.processor)
    plain, rich = asked(vlm.model, micro, vlm), asked(vlm.model, micro, vlm, *REQUESTS)
    assert (plain.extra, plain.entropy_L) == ({}, None)
    assert torch.equal(plain.logprobs_L, rich.logprobs_L)
    gradients = [torch.autograd.grad(r.logprobs_L.sum(), vlm.model.lm_head.weight)[0] for r in (plain, rich)]
    assert torch.equal(*gradients)
    assert not any(rich.extra[name].requires_grad for name in REQUESTS[1:])


@pytest.mark.parametrize("detach", [False, True])
def test_the_value_head_starts_at_zero_and_may_leave_the_model_alone(vlm, detach):
    head, micro = ValueHead(vlm.model, detach=detach), pack([some_row(vlm)], vlm.processor)
    module = LogprobModule(vlm.model, head)
    assert asked(module, micro, vlm, "value").extra["value"].tolist() == [0.0] * 9
    torch.nn.init.ones_(head.linear.weight)
    with torch.no_grad():
        _, hidden_LD = full_logprobs(vlm, micro)
    value_L = asked(module, micro, vlm, "value").extra["value"]
    torch.testing.assert_close(value_L.detach(), hidden_LD.sum(1))
    weights = [head.linear.weight, vlm.model.model.language_model.norm.weight]
    of_head, of_model = torch.autograd.grad(value_L.sum(), weights, allow_unused=True)
    torch.testing.assert_close(of_head[0], hidden_LD.sum(0))
    assert (of_model is None) == detach


def test_a_pass_leaves_what_was_asked_on_the_grid_of_completions(vlm):
    settings = LogprobSettings(vlm.processor, temperature=0.7, banned_ids=BANNED, chunk=4, micro_batch_tokens=4096)
    logprobs_NC, extra = logprob_pass(
        LogprobModule(vlm.model), [some_row(vlm)], settings=settings, shape=(3, 6), requests=REQUESTS
    )
    assert sorted(extra) == sorted(REQUESTS)
    width = vlm.model.lm_head.weight.shape[1]
    assert {name: tuple(grid.shape) for name, grid in extra.items() if grid.dim() == 3} == {
        "hidden:0": (3, 6, width),
        "hidden:1": (3, 6, width),
        "top:3": (3, 6, 6),
        "top:1": (3, 6, 2),
        "distribution": (3, 6, vlm.model.lm_head.weight.shape[0]),
    }
    for grid in (logprobs_NC, *extra.values()):
        assert (grid[0, 5:] == 0).all()
        assert (grid[1, 1:] == 0).all()
        assert (grid[0, 0] != 0).any()
    torch.testing.assert_close(extra["min_p:0"], logprobs_NC)


def test_names_of_requests():
    assert all(map(is_request, REQUESTS))
    assert not any(
        map(is_request, ("old", "ref", "min_p", "hidden:1.5", "min_p:x", "value:1", "", "top", "top:0", "top:1.5"))
    )
