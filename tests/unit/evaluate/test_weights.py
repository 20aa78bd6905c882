"""The hash of the weights that a result was made with."""

import json
import shutil

from makers.tiny_models import tiny_model_dir

from mmrl.config.schema import ModelSection
from mmrl.evaluate.weights import weights_hash


def hash_of(folder, tmp_path) -> str:
    return weights_hash(ModelSection(path=str(folder)), tmp_path / "cache")


def test_a_changed_file_changes_the_hash_and_another_place_does_not(tmp_path):
    for name in ("a", "b"):
        shutil.copytree(tiny_model_dir("qwen2_5_vl"), tmp_path / name)
    first = hash_of(tmp_path / "a", tmp_path)
    assert hash_of(tmp_path / "b", tmp_path) == first and len(first) == 16
    with (tmp_path / "b" / "model.safetensors").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x7f")
    assert hash_of(tmp_path / "b", tmp_path) != first


def test_the_hash_of_an_adapter_covers_its_base(tmp_path):
    shutil.copytree(tiny_model_dir("qwen2_5_vl"), tmp_path / "base")
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": str(tmp_path / "base")}))
    (adapter / "adapter_model.safetensors").write_bytes(b"adapter")
    first = hash_of(adapter, tmp_path)
    assert first != hash_of(tmp_path / "base", tmp_path)
    with (tmp_path / "base" / "model.safetensors").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x7f")
    changed = hash_of(adapter, tmp_path)
    assert changed != first
    (adapter / "adapter_model.safetensors").write_bytes(b"another")
    assert hash_of(adapter, tmp_path) not in (first, changed)
