"""QLoRA: adapters over base weights of 4 or 8 bits. bitsandbytes does this on the CPU too."""

import importlib.util

import pytest
import torch
from makers.lora import disturb, lora_section, media_logprobs

from mmrl.errors import ConfigError
from mmrl.models.load import load_policy, load_weights
from mmrl.models.quantize import require_bitsandbytes
from mmrl.models.trained import trained_tensors

needs_bitsandbytes = pytest.mark.skipif(
    importlib.util.find_spec("bitsandbytes") is None, reason="the extra mmrl[quantized] is not installed"
)


@needs_bitsandbytes
@pytest.mark.parametrize(("quantization", "error"), [("nf4", 0.2), ("int8", 0.02)])
def test_a_quantized_base_is_small_near_the_original_and_its_adapters_learn(quantization, error):
    model, _ = load_policy(lora_section("qwen2_5_vl", quantization=quantization))
    whole = load_weights(lora_section("qwen2_5_vl"))
    layer = model.model.language_model.layers[0].mlp.up_proj.base_layer.weight

    assert layer.element_size() == 1 and layer.numel() == 128 * 256 // (2 if quantization == "nf4" else 1)
    assert model.lm_head.weight.dtype == torch.float32
    difference = (media_logprobs(model, "qwen2_5_vl") - media_logprobs(whole, "qwen2_5_vl")).abs().max()
    assert 0 < difference < error
    disturb(model)
    media_logprobs(model, "qwen2_5_vl").sum().backward()
    trained = trained_tensors(model)
    assert all(p.grad.abs().max() > 0 for n, p in model.named_parameters() if n in trained)


def test_without_bitsandbytes_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"model\.quantization 'nf4' needs .* bitsandbytes.* 'mmrl\[quantized\]'"):
        load_policy(lora_section("qwen2_5_vl", quantization="nf4"))
    with pytest.raises(ConfigError, match=r"train\.optimizer 'adamw8bit' needs"):
        require_bitsandbytes("train.optimizer 'adamw8bit'")
