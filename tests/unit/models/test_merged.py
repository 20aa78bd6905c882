"""Weights with adapters added in, against peft's own merge."""

import pytest
import torch
from makers.lora import disturb, lora_section
from makers.vlm import FAMILIES, tiny_vlm
from peft import get_peft_model_state_dict

from mmrl.models.load import load_policy
from mmrl.models.merged import merged_parameters


@pytest.mark.parametrize("family", FAMILIES)
def test_names_are_the_bases_and_the_merged_model_computes_the_same(family: str):
    model, _ = load_policy(lora_section(family, lora={"modules_to_save": ["lm_head"]}))
    disturb(model)
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    merged = dict(merged_parameters(model))
    plain = type(tiny_vlm(family).model)(tiny_vlm(family).model.config).eval()
    plain.load_state_dict(merged)
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad():
        expected, found = model.eval()(input_ids=ids).logits, plain(input_ids=ids).logits

    assert len(get_peft_model_state_dict(model)) > 10
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=0)
    assert all(torch.equal(parameter, before[name]) for name, parameter in model.named_parameters())


def test_a_model_without_adapters_comes_out_as_it_is():
    model = tiny_vlm("qwen2_5_vl").model
    merged = dict(merged_parameters(model))

    assert merged.keys() == dict(model.named_parameters()).keys()
    assert all(merged[name] is parameter for name, parameter in model.named_parameters())
