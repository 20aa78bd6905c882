"""Points of the acceptance list of evaluations (unit/evaluate/test_acceptance.py) that no other test shows."""

import hashlib
import json
import shutil
import socket
from pathlib import Path

import yaml
from makers.benchmarks import ROWS, write_benchmarks
from makers.clips import ClipSpec, write_clip
from makers.command import mmrl
from makers.tiny_models import tiny_model_dir


def evaluate(files: Path, out: Path, tasks: str, *more: object, kind="qwen2_5_vl"):
    model = ("--model", tiny_model_dir(kind), "--dtype", "float32", "--max-new-tokens", 2)
    return mmrl("evaluate", *model, "--tasks", tasks, "--root", files, "--out", out, "--cache", files / "cache", *more)


def results(out: Path) -> dict:
    return json.loads((out / "results.json").read_text())


def test_local_files_of_each_kind_are_read_with_the_network_blocked(tmp_path, monkeypatch):
    """A1: Parquet, TSV and JSON lines, and a model folder."""
    files = write_benchmarks(tmp_path / "files", ["mmstar", "refcoco", "charades_sta"])
    tried = []

    def refuse(self, address):
        tried.append(address)
        raise OSError("no network here")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)
    said = evaluate(files, tmp_path / "out", "mmstar,refcoco,charades_sta", "--limit", ROWS, "--strict")
    assert said.code == 0, said.err
    assert {row["n_scored"] for row in results(tmp_path / "out")["benchmarks"].values()} == {ROWS}
    assert tried == []


def on_clip(files: Path, name: str) -> Path:
    """A task file with one question about clip.mp4."""
    (files / f"{name}.jsonl").write_text(json.dumps({"question": f"{name}?", "answer": "A", "clip": "clip.mp4"}) + "\n")
    columns = {"prompt": "question", "answer": "answer", "videos": "clip"}
    task = {
        "data": {
            "path": f"{name}.jsonl",
            "card": {"columns": columns, "placeholders": "leading", "video_placeholder": None},
            "budgets": {"video": {"min_pixels": 784, "max_pixels": 3136, "max_frames": 8}},
        },
        "score": [{"reward": "choice"}],
        "provenance": {"source": "made"},
    }
    path = files / f"{name}.yaml"
    path.write_text(yaml.safe_dump(task))
    return path


def entries(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.rglob("*.safetensors"))


def test_two_benchmarks_and_training_open_a_shared_clip_once(tmp_path):
    """A5."""
    files = tmp_path / "files"
    files.mkdir()
    write_clip(files / "clip.mp4", ClipSpec())
    one, two = on_clip(files, "one"), on_clip(files, "two")
    said = evaluate(files, tmp_path / "out", f"{one},{two}", "--strict")
    assert said.code == 0, said.err
    [entry] = entries(files / "cache")
    task = yaml.safe_load(one.read_text())
    dataset = {"path": str(files / "one.jsonl"), "card": {**task["data"]["card"], "task": "q"}}
    run = {
        "name": "shared",
        "model": {"path": str(tiny_model_dir("qwen2_5_vl"))},
        "budgets": task["data"]["budgets"],
        "data": {"train": [dataset]},
        "cache": {"dir": str(files / "cache"), "on_miss": "error"},
        "rewards": {"tasks": {"q": [{"reward": "choice"}]}},
        "stages": [{"name": "rl", "kind": "grpo", "steps": 1, "prompts_per_step": 1, "lr": 1.0e-4}],
        "rollout": {"group_size": 2, "max_new_tokens": 2},
    }
    config = tmp_path / "run.yaml"
    config.write_text(yaml.safe_dump(run))
    said = mmrl("train", config, f"out_dir={tmp_path / 'runs'}", "model.dtype=float32")
    assert said.code == 0, said.err
    assert entries(files / "cache") == [entry]


def test_places_of_a_model_whose_space_is_not_known_are_refused_before_anything_is_generated(tmp_path):
    """A15."""
    files = write_benchmarks(tmp_path / "files", ["screenspot_pro", "mmstar"])
    said = evaluate(files, tmp_path / "out", "screenspot_pro,mmstar", "--limit", ROWS, kind="smolvlm")
    assert said.code == 1
    assert said.line_with("screenspot_pro: cannot run", "`model.box_space`", "the model family has no default")
    assert not (tmp_path / "out" / "screenspot_pro" / "samples.jsonl").exists()
    assert results(tmp_path / "out")["benchmarks"]["mmstar"]["n_scored"] == ROWS


def test_results_say_prompts_sampling_budgets_files_and_code(tmp_path):
    """A17."""
    files = write_benchmarks(tmp_path / "files", ["screenspot_pro", "vsibench"])
    said = evaluate(files, tmp_path / "out", "screenspot_pro,vsibench", "--limit", ROWS, "--temperature", 0.5)
    assert said.code == 0, said.err
    found = results(tmp_path / "out")
    clicks, rooms = found["benchmarks"]["screenspot_pro"], found["benchmarks"]["vsibench"]
    assert clicks["template"].startswith("{{ prompt }}\n") and "in {{ point_space }}." in clicks["template"]
    assert set(rooms["task_templates"]) == {"multiple choice", "regression"} and rooms["system_prompt"] is None
    assert (clicks["answers"]["temperature"], clicks["answers"]["max_new_tokens"]) == (0.5, 2)
    assert clicks["budgets"]["gui"]["max_pixels"] == 12845056
    rows = files / "valid_data" / "vsibench.json"
    assert found["data"]["vsibench"] == {"valid_data/vsibench.json": hashlib.sha256(rows.read_bytes()).hexdigest()[:16]}
    annotations = (files / "ScreenSpot-Pro" / "annotations").glob("*.json")
    assert list(found["data"]["screenspot_pro"]) == sorted(str(file.relative_to(files)) for file in annotations)
    assert (found["seed"], found["engine"]) == (0, "hf") and len(found["model"]["weights"]) == 16
    assert len(found["environment"]["git"]["commit"]) == 40 and found["environment"]["versions"]["transformers"]
    rows.write_text(rows.read_text() + "\n")
    shutil.rmtree(tmp_path / "out")
    assert evaluate(files, tmp_path / "out", "vsibench", "--limit", ROWS).code == 0
    assert results(tmp_path / "out")["data"]["vsibench"] != found["data"]["vsibench"], "another revision of the file"
