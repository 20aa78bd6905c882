"""Model folders: loaded as configured, saved under the same keys, refused where weights do not fit."""

import logging
import shutil
from pathlib import Path

import pytest
import torch
from makers.tiny_models import tiny_model_dir
from makers.vlm import FAMILIES
from safetensors.torch import load_file, save_file

from mmrl.config.schema import ModelSection
from mmrl.errors import ConfigError
from mmrl.models.load import load_policy, load_weights, save_model


def section(path: Path, **changes) -> ModelSection:
    return ModelSection.model_validate({"path": str(path), "dtype": "float32", **changes})


def copy_of(family: str, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_model_dir(family), tmp_path / "base"))


def test_a_policy_is_loaded_as_the_section_says():
    changes = {"dtype": "bfloat16", "attention": "eager", "freeze": ["vision_tower"], "box_space": "0..1"}
    model, processor = load_policy(section(tiny_model_dir("qwen2_5_vl"), **changes))

    assert model.training
    assert model.is_gradient_checkpointing
    assert {p.dtype for p in model.parameters()} == {torch.bfloat16}
    assert model.config._attn_implementation == "eager"
    assert not model.model.visual.blocks[0].attn.qkv.weight.requires_grad
    assert model.model.visual.merger.mlp[0].weight.requires_grad
    assert (processor.box_space, processor.time_space) == ("0..1", "seconds")


def test_loading_is_silent(capfd):
    load_weights(ModelSection(path=str(tiny_model_dir("qwen2_5_vl"))))
    said = capfd.readouterr()
    assert (said.out, "Loading weights" in said.err) == ("", False)
    assert not logging.getLogger("bitsandbytes.backends.cpu.ops").isEnabledFor(logging.WARNING)


def test_without_checkpointing_and_overrides():
    model, processor = load_policy(section(tiny_model_dir("qwen3_vl"), gradient_checkpointing=False))

    assert not model.is_gradient_checkpointing
    assert all(p.requires_grad for p in model.parameters())
    assert processor.box_space == "0..1000"


@pytest.mark.parametrize("family", FAMILIES)
def test_a_saved_model_has_the_keys_of_its_base_and_loads_everywhere(family: str, tmp_path: Path):  # fault 58
    from transformers import AutoModelForImageTextToText, AutoProcessor

    base = tiny_model_dir(family)
    model, processor = load_policy(section(base))
    with torch.no_grad():
        model.lm_head.weight.add_(1.0)
    save_model(model, processor, tmp_path / "saved")
    again, _ = load_policy(section(tmp_path / "saved"))

    saved, original = (load_file(folder / "model.safetensors") for folder in (tmp_path / "saved", base))
    assert saved.keys() == original.keys()
    assert all(torch.equal(p, dict(again.named_parameters())[n]) for n, p in model.named_parameters())
    assert type(AutoModelForImageTextToText.from_pretrained(tmp_path / "saved")) is type(model)
    assert AutoProcessor.from_pretrained(tmp_path / "saved").tokenizer.get_vocab() == processor.tokenizer.get_vocab()


def test_a_base_that_names_its_weights_otherwise_keeps_its_names(tmp_path: Path):  # fault 58
    """Qwen2.5-VL folders exist with `visual.*` and, saved by other versions, with `model.visual.*`."""
    base = copy_of("qwen2_5_vl", tmp_path)
    model, _ = load_policy(section(base))
    modules = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    earlier = load_file(base / "model.safetensors").keys()
    save_file(modules, base / "model.safetensors", metadata={"format": "pt"})
    model, processor = load_policy(section(base))
    save_model(model, processor, tmp_path / "saved")

    assert modules.keys() != earlier
    assert load_file(tmp_path / "saved" / "model.safetensors").keys() == modules.keys()


def test_missing_weights_are_an_error_that_names_them(tmp_path: Path):
    base = copy_of("qwen2_5_vl", tmp_path)
    weights = load_file(base / "model.safetensors")
    weights["extra.weight"] = weights.pop("lm_head.weight")
    save_file(weights, base / "model.safetensors", metadata={"format": "pt"})

    with pytest.raises(ConfigError, match=r"missing keys: lm_head.weight; unexpected keys: extra.weight"):
        load_policy(section(base))


def test_an_unknown_family_names_the_known_ones(tmp_path: Path):
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')

    with pytest.raises(ConfigError, match=r"'llama' is no known family; known: .*qwen2_5_vl"):
        load_policy(section(tmp_path))


def test_a_folder_without_a_model_is_an_error(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"config\.json is missing"):
        load_policy(section(tmp_path / "nowhere"))
