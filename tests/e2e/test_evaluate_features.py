"""`mmrl evaluate` on cached features: the answers of pixels, without the vision tower."""

import json
from pathlib import Path

import pytest
from makers.benchmarks import ROWS, write_benchmarks
from makers.command import mmrl
from makers.tiny_models import tiny_model_dir
from makers.towers import counted_towers


def answers(out: Path) -> dict[str, str]:
    return {
        f"{task}/{row['key']}": row["completion"]
        for task in ("mmstar", "screenspot_pro")
        for row in map(json.loads, (out / task / "samples.jsonl").read_text().splitlines())
    }


def test_answers_on_features_are_those_on_pixels(tmp_path: Path):
    files = write_benchmarks(tmp_path / "files")
    model = ("--model", tiny_model_dir("qwen2_5_vl"), "--dtype", "float32", "--workers", 1)
    rest = ("--root", files, "--cache", tmp_path / "cache", "--limit", ROWS, "--max-new-tokens", 6)

    def evaluate(level: str) -> tuple[dict[str, str], list[str]]:
        out = tmp_path / f"out-{len(list(tmp_path.iterdir()))}"
        with counted_towers() as calls:
            said = mmrl(
                "evaluate", *model, *rest, "--out", out, "--tasks", "mmstar,screenspot_pro", "--cache-level", level
            )
        assert said.code == 0, said.err
        return answers(out), calls

    pixels, calls = evaluate("auto")  # no features are there, and none are made
    assert calls and not (tmp_path / "cache" / "features").exists()
    features, calls = evaluate("features")
    entries = list((tmp_path / "cache" / "features").glob("*/*.safetensors"))
    assert features == pixels and len(calls) == len(entries) > 0  # each medium once
    again, calls = evaluate("auto")
    assert again == pixels and calls == []
    _, calls = evaluate("pixels")
    assert calls


@pytest.mark.parametrize(("options", "named"), [(("--dp", 2), "--dp 2"), (("--engine", "openai"), "--engine openai")])
def test_features_need_the_model_in_this_process(tmp_path: Path, options, named):
    model = ("--model", tiny_model_dir("qwen2_5_vl"), "--tasks", "mmstar", "--out", tmp_path)
    said = mmrl("evaluate", *model, "--cache-level", "features", *options)
    assert said.code == 2
    assert f"--cache-level features needs the model in this process, but {named} has it in another" in said.err
