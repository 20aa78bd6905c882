"""Every parameter belongs to one group; frozen ones get no gradient, the others get the same as before."""

import pytest
import torch
from makers.rendered import random_completions
from makers.vlm import FAMILIES as TINY_FAMILIES
from makers.vlm import TinyVlm, tiny_vlm

from mmrl.errors import ConfigError
from mmrl.models.families import FAMILIES
from mmrl.models.freeze import freeze, module_group
from mmrl.models.logprobs import token_logprobs
from mmrl.models.packing import group_row, pack

GROUPS = ("vision_tower", "projector", "language_model")


@pytest.fixture
def thaw():
    """Leaves the shared tiny models trainable."""
    yield
    for family in TINY_FAMILIES:
        tiny_vlm(family).model.requires_grad_(True)


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("model.visual.blocks.0.attn.qkv.weight", "vision_tower"),
        ("model.visual.patch_embed.proj.weight", "vision_tower"),
        ("model.visual.merger.mlp.0.weight", "projector"),
        ("model.visual.deepstack_merger_list.0.norm.weight", "projector"),
        ("model.language_model.layers.0.mlp.up_proj.weight", "language_model"),
        ("lm_head.weight", "language_model"),
    ],
)
def test_the_longest_prefix_decides_the_group(name: str, group: str):
    assert module_group(name, FAMILIES["qwen3_vl"]) == group


def test_an_unknown_parameter_is_an_error():
    with pytest.raises(ConfigError, match=r"'adapter\.weight' belongs to no module group of family 'qwen2_5_vl'"):
        module_group("adapter.weight", FAMILIES["qwen2_5_vl"])


def gradients(vlm: TinyVlm) -> dict[str, torch.Tensor]:
    prompt = vlm.prompt([1], vlm.image(1), [2], vlm.clip(2), [3])
    micro = pack([group_row(prompt, random_completions((3, 5), seed=0), [0, 1])], vlm.processor)
    vlm.model.zero_grad()
    result = token_logprobs(vlm.model, micro, vlm.processor, temperature=1.0, banned_ids=(), chunk=4)
    result.logprobs_L.sum().backward()
    return {name: p.grad.clone() for name, p in vlm.model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("frozen", [("vision_tower",), ("vision_tower", "projector"), ("language_model",)])
@pytest.mark.parametrize("family", TINY_FAMILIES)
def test_freezing_changes_no_other_gradient(
    family: str, frozen: tuple[str, ...], checkpointing: bool, thaw
):  # fault 59
    vlm = tiny_vlm(family)
    everything = gradients(vlm)
    counts = freeze(vlm.model, frozen, family=vlm.processor.family)
    if checkpointing:
        vlm.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        vlm.model.train()
    try:
        left = gradients(vlm)
    finally:
        vlm.model.gradient_checkpointing_disable()
        vlm.model.eval()

    expected = {name for name in everything if module_group(name, vlm.processor.family) not in frozen}
    assert set(left) == expected
    for name in expected:
        torch.testing.assert_close(left[name], everything[name], atol=1e-6, rtol=1e-5)
    assert {group for group, count in counts.items() if count == 0} == set(frozen)
    assert all(gradient.abs().max() > 0 for name, gradient in left.items() if name.endswith("qkv.weight"))


def test_freezing_everything_is_an_error(thaw):
    vlm = tiny_vlm("qwen2_5_vl")
    with pytest.raises(ConfigError, match="nothing is left to train"):
        freeze(vlm.model, GROUPS, family=vlm.processor.family)
