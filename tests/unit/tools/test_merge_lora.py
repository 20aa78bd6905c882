"""The command around `merge_lora`."""

import runpy
import sys
from pathlib import Path

import pytest
from makers.lora import disturb, lora_section
from safetensors.torch import load_file

from mmrl.models.load import load_policy, save_model

TOOL = Path(__file__).resolve().parents[3] / "tools" / "merge_lora.py"


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["merge_lora.py", *map(str, arguments)])
    with pytest.raises(SystemExit) as exit_:
        runpy.run_path(str(TOOL), run_name="__main__")
    return int(exit_.value.code)


def test_an_adapter_becomes_an_ordinary_model(monkeypatch, capsys, tmp_path: Path):
    model, processor = load_policy(lora_section("qwen2_5_vl"))
    disturb(model)
    save_model(model, processor, tmp_path / "adapter")
    assert run(monkeypatch, tmp_path / "adapter", tmp_path / "merged", "--base", processor.folder) == 0
    base, merged = (load_file(folder / "model.safetensors") for folder in (processor.folder, tmp_path / "merged"))
    assert {name for name in base if not base[name].equal(merged[name])} != set()
    assert capsys.readouterr().out.splitlines()[-1] == str(tmp_path / "merged")


def test_a_folder_without_an_adapter_is_one_line(monkeypatch, capsys, tmp_path: Path):
    assert run(monkeypatch, tmp_path, tmp_path / "merged") == 2
    error = f"error: {tmp_path}: adapter_config.json is missing; name the folder of a LoRA adapter\n"
    assert capsys.readouterr().err == error
