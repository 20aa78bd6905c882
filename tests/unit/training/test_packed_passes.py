"""The passes of a step: each medium through the tower once per micro-batch, prompts once per row, no padding."""

from collections import Counter
from dataclasses import replace

import pytest
import torch
from makers.rendered import random_completions
from makers.tiled import picture
from makers.tiled_prompts import rendered
from makers.tiny_models import TILE_KINDS
from makers.vlm import FAMILIES, TinyVlm, tiny_vlm

from mmrl.data.rendered import RenderedPrompt
from mmrl.errors import ConfigError
from mmrl.models.attention import attention_way
from mmrl.models.logprobs import LogprobModule
from mmrl.models.packing import group_rows, separate_rows
from mmrl.training.step import LogprobSettings, _padding, logprob_pass, micro_batches

EVERY_FAMILY = (*FAMILIES, *TILE_KINDS)
GROUP = 4


def settings_of(vlm: TinyVlm, **changes) -> LogprobSettings:
    banned = vlm.processor.banned_ids
    common = {"temperature": 0.7, "banned_ids": banned, "chunk": 16, "micro_batch_tokens": 4096}
    return LogprobSettings(vlm.processor, **{**common, **changes})


def prompts_of(family: str) -> list[RenderedPrompt]:
    """Three prompts; the first two show the same picture, the third another and the first one again."""
    vlm = tiny_vlm(family)
    if family in FAMILIES:
        one, other = vlm.image(1), vlm.image(2)
        return [vlm.prompt([1], one, [2, 3]), vlm.prompt([4], one), vlm.prompt(other, [5], one, [6])]
    one, other = picture(family, 90, 60, seed=1), picture(family, 90, 60, seed=2)
    return [rendered(family, one, "left"), rendered(family, "up", one), rendered(family, other, one, "down")]


class TowerCount:
    """Calls of the vision tower, frames or patches through it, and how often a gradient came back out of it."""

    def __init__(self, vlm: TinyVlm) -> None:
        base = vlm.model.model
        names = ("visual", "vision_tower", "vision_model")
        self._tower = next(getattr(base, name) for name in names if hasattr(base, name))
        self.rows: list[int] = []
        self.gradients: Counter[str] = Counter()

    def __enter__(self):
        self._hook = self._tower.register_forward_hook(self._count, with_kwargs=True)
        return self

    def __exit__(self, *exception) -> None:
        self._hook.remove()

    def _count(self, module, args, kwargs, output) -> None:
        pixels = args[0] if args else kwargs["pixel_values"]
        self.rows.append(len(pixels))
        states = output if isinstance(output, torch.Tensor) else output.last_hidden_state
        inner = () if isinstance(output, torch.Tensor) else output.get("hidden_states") or ()  # some families take one
        for number, hidden in enumerate((states, *inner)):
            key = f"call {len(self.rows)}, state {number}"
            if hidden.requires_grad:
                hidden.register_hook(lambda gradient, key=key: self.gradients.update([key]))


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_each_medium_goes_through_the_tower_once_in_a_micro_batch_and_back(family: str):
    """Two distinct pictures in 3 groups of 4, which show them 4 times, 16 times over the completions."""
    vlm, prompts = tiny_vlm(family), prompts_of(family)
    module, settings = LogprobModule(vlm.model), settings_of(vlm, padded=False)
    completions = [random_completions((3, 2, 4, 1), seed=i) for i in range(3)]
    shape = (3 * GROUP, 4)
    for rows_of in (
        lambda p, c, n: group_rows(p, c, n, max_tokens=4096),
        separate_rows,
    ):
        rows = [
            row
            for i, prompt in enumerate(prompts)
            for row in rows_of(prompt, completions[i], range(GROUP * i, GROUP * (i + 1)))
        ]
        with TowerCount(vlm) as alone, torch.no_grad():
            [[micro, _]] = micro_batches(rows, settings)
            settings.run(module, replace(micro, media=micro.media[:1], media_order=()))
        with TowerCount(vlm) as old:  # the old and the reference pass are this one
            logprob_pass(module, rows, settings=settings, shape=shape)
        with TowerCount(vlm) as policy:
            vlm.model.zero_grad()
            settings.run(module, micro).logprobs_L.sum().backward()
        vlm.model.zero_grad()

        assert old.rows == policy.rows == [2 * alone.rows[0]]  # both pictures have one size
        assert policy.gradients and set(policy.gradients.values()) == {1}


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_prompts_are_held_once_in_the_passes_without_gradient_too(family: str):
    vlm, prompts = tiny_vlm(family), prompts_of(family)
    assert vlm.processor.family.shares_prefix
    settings, completions = settings_of(vlm, padded=False), random_completions((3, 2, 4, 1), seed=0)
    tokens: list[int] = []
    decoder = getattr(vlm.model.model, "language_model", None) or vlm.model.model.text_model
    count = decoder.layers[0].register_forward_hook(
        lambda module, args, output: tokens.append((output[0] if isinstance(output, tuple) else output)[..., 0].numel())
    )
    logprob_pass(
        LogprobModule(vlm.model),
        group_rows(prompts[0], completions, range(GROUP), max_tokens=4096),
        settings=settings,
        shape=(GROUP, 4),
    )
    count.remove()

    assert tokens == [len(prompts[0].prompt_ids_T) + 10]


def test_passes_without_padding_equal_padded_ones_and_the_saved_share_is_told():
    """Rows of 18, 12, 8 and 5 tokens: 43 in one line; padded 4 x 18 = 72 in one micro-batch."""
    vlm = tiny_vlm("qwen2_5_vl")
    rows = [
        row
        for n, (prompt, new) in enumerate([(3, 15), (10, 2), (4, 4), (4, 1)])
        for row in separate_rows(vlm.prompt(range(5, 5 + prompt)), random_completions((new,), seed=n), [n])
    ]
    passes = []
    for changes in ({}, {"padded": False}, {"padded": False, "micro_batch_tokens": 20}):
        settings = settings_of(vlm, **changes)
        passes.append(logprob_pass(LogprobModule(vlm.model), rows, settings=settings, shape=(4, 15))[0])
    for found in passes[1:]:
        torch.testing.assert_close(found, passes[0], atol=1e-6, rtol=0)

    assert _padding(rows, settings_of(vlm, padded=False))["rows/padding_saved"] == pytest.approx(1 - 43 / 72)
    assert _padding(rows, settings_of(vlm))["rows/padding_saved"] == 0.0


@pytest.mark.parametrize(("limit", "expected"), [(43, [4]), (30, [2, 2]), (29, [1, 3]), (10, [1, 1, 1, 1])])
def test_without_padding_a_micro_batch_is_filled_by_tokens(limit: int, expected: list[int]):
    vlm = tiny_vlm("qwen2_5_vl")
    rows = [row for size in (18, 12, 8, 5) for row in separate_rows(vlm.prompt(range(5, 4 + size)), [[7]], [0])]

    assert [len(batch) for batch in settings_of(vlm, micro_batch_tokens=limit, padded=False).plan(rows)] == expected


def test_ways_that_a_device_has_not_are_refused():
    vlm = tiny_vlm("qwen2_5_vl")
    cpu, gpu = torch.device("cpu"), torch.device("cuda")

    assert [attention_way("auto", vlm.model, device) for device in (cpu, gpu)] == ["parts", "flex"]
    assert attention_way("sdpa", vlm.model, cpu) == "sdpa"
    with pytest.raises(ConfigError, match="no backward pass on a CPU; use auto, parts or sdpa"):
        attention_way("flex", vlm.model, cpu)
    with pytest.raises(ConfigError, match="parts are for CPUs; use auto, flex or sdpa"):
        attention_way("parts", vlm.model, gpu)
