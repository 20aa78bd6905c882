"""Adapters: where they go, that they learn, that saving, loading and merging keep what they say."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from makers.lora import GROUPS, disturb, lora_section, media_logprobs
from makers.tiny_models import tiny_model_dir
from makers.vlm import FAMILIES
from safetensors.torch import load_file

from mmrl.config.schema import TrainSection
from mmrl.errors import ConfigError
from mmrl.models.families import FAMILIES as TABLE
from mmrl.models.freeze import module_group
from mmrl.models.load import load_policy, load_weights, processor_of, save_model
from mmrl.models.lora import target_layers
from mmrl.models.merge import merge_lora
from mmrl.models.trained import swapped, trained_tensors
from mmrl.training.schedule import build_optimizer


def trained_groups(model: torch.nn.Module, family: str) -> set[str]:
    return {module_group(name, TABLE[family]) for name in trained_tensors(model)}


@pytest.mark.parametrize("group", GROUPS)
def test_a_module_group_means_its_linear_layers_without_the_head(group: str):
    model = load_weights(lora_section("qwen3_vl"))
    names = target_layers(model, [group], family=TABLE["qwen3_vl"])

    assert {module_group(f"{name}.weight", TABLE["qwen3_vl"]) for name in names} == {group}
    assert len(names) == {"vision_tower": 3 * 4, "projector": 3 * 2, "language_model": 2 * 7}[group]
    assert all(isinstance(model.get_submodule(name), torch.nn.Linear) for name in names)


def test_layers_may_be_named():
    model = load_weights(lora_section("qwen2_5_vl"))
    names = target_layers(model, ["q_proj", "layers.1.mlp.up_proj", "lm_head"], family=TABLE["qwen2_5_vl"])
    text = "model.language_model.layers"
    assert names == [
        f"{text}.0.self_attn.q_proj",
        f"{text}.1.self_attn.q_proj",
        f"{text}.1.mlp.up_proj",
        "lm_head",
    ]


def test_a_layer_that_is_not_there_names_those_that_are():
    with pytest.raises(ConfigError, match=r"no linear layer is called 'q_pro'.*; did you mean 'q_proj'\?"):
        load_policy(lora_section("qwen2_5_vl", lora={"targets": ["q_pro"]}))
    with pytest.raises(ConfigError, match=r"modules_to_save: no module is called 'head'"):
        load_policy(lora_section("qwen2_5_vl", lora={"modules_to_save": ["head"]}))


@pytest.mark.parametrize("family", FAMILIES)
def test_only_adapters_are_trained_and_a_fresh_one_changes_nothing(family: str):
    model, _ = load_policy(lora_section(family))
    optimizer = build_optimizer(model, TrainSection())

    assert trained_groups(model, family) == set(GROUPS)
    assert all(".lora_" in name for name in trained_tensors(model))
    in_optimizer = {id(p) for group in optimizer.param_groups for p in group["params"]}
    assert in_optimizer == {id(p) for p in model.parameters() if p.requires_grad}  # all that DeepSpeed receives
    base = load_weights(lora_section(family))
    assert torch.equal(media_logprobs(model, family), media_logprobs(base, family))


def test_adapters_start_alike_whatever_was_drawn_before():
    def first(seed: int) -> torch.Tensor:
        torch.rand(seed + 1)
        return next(iter(trained_tensors(load_policy(lora_section("qwen2_5_vl", lora={"seed": seed}))[0]).values()))

    assert torch.equal(first(3), first(3))
    assert not torch.equal(first(3), first(4))


@pytest.mark.parametrize("checkpointing", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_adapter_gets_a_gradient(family: str, checkpointing: bool):  # fault 59
    model, _ = load_policy(lora_section(family, gradient_checkpointing=checkpointing))
    disturb(model)
    media_logprobs(model, family).sum().backward()

    # The tiny Qwen3-VL adds this one to the outputs of its last layer, where no token looks at vision tokens any more.
    idle = "deepstack_merger_list.1."
    for name, parameter in model.named_parameters():
        if parameter.requires_grad and idle not in name:
            assert parameter.grad is not None and parameter.grad.abs().max() > 0, name
        elif not parameter.requires_grad:
            assert parameter.grad is None, name


@pytest.mark.parametrize("family", FAMILIES)
def test_a_saved_adapter_is_read_by_us_by_transformers_and_by_peft(family: str, tmp_path: Path):
    from peft import PeftModel
    from transformers import AutoModelForImageTextToText, AutoProcessor

    section = lora_section(family, lora={"modules_to_save": ["lm_head"]})
    model, processor = load_policy(section)
    disturb(model)
    save_model(model, processor, tmp_path / "saved")
    with torch.no_grad():
        expected = media_logprobs(model.eval(), family)
        again, _ = load_policy(lora_section(family, tmp_path / "saved", lora={"modules_to_save": ["lm_head"]}))
        by_transformers = AutoModelForImageTextToText.from_pretrained(tmp_path / "saved")
        by_peft = PeftModel.from_pretrained(load_weights(section), str(tmp_path / "saved")).base_model.model

        assert all(torch.equal(t, trained_tensors(model)[n]) for n, t in trained_tensors(again).items())
        for other in (load_weights(lora_section(family, tmp_path / "saved")), by_transformers, by_peft):
            assert torch.equal(media_logprobs(other.eval(), family), expected)
    names = {path.name for path in (tmp_path / "saved").iterdir()}
    assert {"adapter_config.json", "adapter_model.safetensors", "tokenizer.json", "chat_template.jinja"} <= names
    assert not names & {"model.safetensors", "config.json"}
    stored = json.loads((tmp_path / "saved" / "adapter_config.json").read_text())
    assert (stored["base_model_name_or_path"], stored["r"]) == (str(tiny_model_dir(family)), 4)
    assert AutoProcessor.from_pretrained(tmp_path / "saved").tokenizer.get_vocab() == processor.tokenizer.get_vocab()
    assert processor_of(lora_section(family, tmp_path / "saved")).geometry == processor.geometry


@pytest.mark.parametrize("family", FAMILIES)
def test_a_merged_model_says_what_the_adapter_said(family: str, tmp_path: Path):
    model, processor = load_policy(lora_section(family))
    disturb(model)
    save_model(model, processor, tmp_path / "adapter")
    merge_lora(None, tmp_path / "adapter", tmp_path / "merged")
    merged = load_weights(lora_section(family, tmp_path / "merged", lora={}))
    with torch.no_grad():
        adapted, base = media_logprobs(model.eval(), family), media_logprobs(load_weights(lora_section(family)), family)
        assert (media_logprobs(merged, family) - adapted).abs().max() < 1e-5
        assert (base - adapted).abs().max() > 1e-2

    keys = [load_file(folder / "model.safetensors").keys() for folder in (tmp_path / "merged", tiny_model_dir(family))]
    assert keys[0] == keys[1]  # fault 58
    with pytest.raises(ConfigError, match="holds files already"):
        merge_lora(None, tmp_path / "adapter", tmp_path / "merged")
    with pytest.raises(ConfigError, match=r"adapter_config\.json is missing"):
        merge_lora(None, tmp_path / "merged", tmp_path / "other")


def test_an_adapter_is_not_taken_for_a_model_nor_for_another_adapter(tmp_path: Path):
    model, processor = load_policy(lora_section("qwen2_5_vl"))
    save_model(model, processor, tmp_path / "saved")
    with pytest.raises(ConfigError, match=r"saved is a LoRA adapter; set model\.lora .* tools/merge_lora\.py"):
        load_policy(lora_section("qwen2_5_vl", tmp_path / "saved").model_copy(update={"lora": None}))
    with pytest.raises(ConfigError, match=r"model\.lora\.rank is 8, but the adapter in .* has 4; set it to that"):
        load_policy(lora_section("qwen2_5_vl", tmp_path / "saved", lora={"rank": 8}))
    other = Path(shutil.copytree(tmp_path / "saved", tmp_path / "other"))
    config = json.loads((other / "adapter_config.json").read_text())
    (other / "adapter_config.json").write_text(json.dumps({**config, "target_modules": ["q_proj"]}))
    with pytest.raises(ConfigError, match="the adapter does not fit its base model"):
        load_weights(lora_section("qwen2_5_vl", other))


def test_swapped_tensors_come_back():
    model, _ = load_policy(lora_section("qwen2_5_vl"))
    fresh = trained_tensors(model)
    disturb(model)
    moved = trained_tensors(model)
    with torch.no_grad():
        adapted = media_logprobs(model, "qwen2_5_vl")
        with swapped(model, fresh):
            assert torch.equal(media_logprobs(model, "qwen2_5_vl"), media_logprobs(base(), "qwen2_5_vl"))
        assert torch.equal(media_logprobs(model, "qwen2_5_vl"), adapted)
    assert all(torch.equal(tensor, moved[name]) for name, tensor in trained_tensors(model).items())


def base() -> torch.nn.Module:
    return load_weights(lora_section("qwen2_5_vl"))
