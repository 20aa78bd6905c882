"""A whole run, sft then grpo, of every family that sees tiles: text, pictures and, where it reads them, clips."""

import json

import pytest
import yaml
from makers.processors import family_processor
from makers.tiny_models import TILE_KINDS, tiny_model_dir
from makers.tiny_run import write_run

from mmrl.commands.export import export_command
from mmrl.config.load import load_config
from mmrl.training.checkpoint import find_checkpoints
from mmrl.training.run import train

STAGES = [
    {"name": "warmup", "kind": "sft", "steps": 1, "prompts_per_step": 4, "lr": 1e-3},
    {"name": "rl", "kind": "grpo", "steps": 2, "prompts_per_step": 4, "lr": 1e-3},
]


@pytest.mark.parametrize("kind", TILE_KINDS)
def test_a_run_trains_and_exports(kind, tmp_path):
    from safetensors.torch import load_file
    from transformers import AutoModelForImageTextToText, AutoProcessor

    geometry = family_processor(kind).geometry
    tile = geometry.token_pixels
    clips = 2 if geometry.reads_clips else 0
    budgets = {
        "image": {"min_pixels": 1, "max_pixels": 2 * tile},
        "video": {"min_pixels": 1, "max_pixels": tile, "max_frames": 4},
    }
    path = write_run(tmp_path, kind=kind, clips=clips, stages=STAGES, budgets=budgets)
    assert train(load_config(path)) == 0
    run = tmp_path / "runs" / "tiny"
    steps = [row for row in map(json.loads, (run / "metrics.jsonl").read_text().splitlines()) if "lr" in row]
    assert [row["stage"] for row in steps] == ["warmup", "rl", "rl"]
    assert all(row["policy/rollout_gap"] < 1e-4 for row in steps[1:])
    folders = (tiny_model_dir(kind), find_checkpoints(run)[-1] / "model")
    first, last = (load_file(folder / "model.safetensors") for folder in folders)
    assert first.keys() == last.keys()
    assert any(not first[name].equal(last[name]) for name in first)
    assert export_command(run, tmp_path / "out", step="latest", merge=False) == 0
    AutoModelForImageTextToText.from_pretrained(tmp_path / "out")
    exported = AutoProcessor.from_pretrained(tmp_path / "out")
    for key, value in geometry.processor_settings("image", load_config(path).budgets["image"]).items():
        told = getattr(exported.image_processor, key)
        assert (dict(told) if key == "size" else told) == value


@pytest.mark.parametrize("kind", TILE_KINDS)
def test_adapters_train_and_merge(kind, tmp_path):
    from safetensors.torch import load_file

    geometry = family_processor(kind).geometry
    budgets = {"image": {"min_pixels": 1, "max_pixels": 2 * geometry.token_pixels}, "video": {"max_frames": 4}}
    stages = [{"name": "rl", "kind": "grpo", "steps": 1, "prompts_per_step": 4, "lr": 1e-2}]
    path = write_run(tmp_path, kind=kind, clips=2 if geometry.reads_clips else 0, stages=stages, budgets=budgets)
    tree = yaml.safe_load(path.read_text())
    tree["model"]["lora"] = {"rank": 2, "alpha": 4, "targets": ["language_model", "vision_tower"]}
    path.write_text(yaml.safe_dump(tree))
    assert train(load_config(path)) == 0
    assert export_command(tmp_path / "runs" / "tiny", tmp_path / "out", step="latest", merge=True) == 0
    base, merged = (load_file(folder / "model.safetensors") for folder in (tiny_model_dir(kind), tmp_path / "out"))
    assert base.keys() == merged.keys()
    changed = {name for name in base if not base[name].equal(merged[name])}
    assert any("q_proj" in name or "self_attn" in name for name in changed)
    assert not any("embed" in name for name in changed)
