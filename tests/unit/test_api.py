"""`from mmrl import ...`: functions that do what the commands do."""

import json
import subprocess
import sys

import pytest
from makers.tiny_run import write_run

import mmrl
from mmrl.errors import ConfigError


def test_functions_do_what_the_commands_do(tmp_path, capsys):
    config = write_run(tmp_path)
    assert mmrl.check(config, media="none") == 0
    assert mmrl.preprocess(config) == 0
    assert mmrl.train(config, "stages.warmup.steps=1", "stages.rl.steps=1") == 0
    code = f"import mmrl; mmrl.train({str(config)!r}, 'name=child', 'stages.warmup.steps=1', 'stages.rl.steps=1')"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)  # in the environment this training has left
    assert (tmp_path / "runs" / "tiny" / "checkpoints" / "best" / "model" / "config.json").is_file()
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps({"completion": "B", "answer": "B", "task": "choice"}) + "\n")
    assert mmrl.score(rows, out=tmp_path / "scored.jsonl") == 0
    assert json.loads((tmp_path / "scored.jsonl").read_text())["reward"] == 1.0


def test_errors_are_raised(tmp_path):
    config = write_run(tmp_path)
    with pytest.raises(ConfigError, match="'sead' is unknown"):
        mmrl.train(config, "sead=1")
    with pytest.raises(ConfigError, match="give one of them"):
        mmrl.train(config, resume=True, overwrite=True)
    with pytest.raises(ConfigError, match="model_copy"):
        mmrl.check(mmrl.api.load(config), "seed=1")
    with pytest.raises(ConfigError, match="media is 'al'; known: all, sample, none; did you mean 'all'"):
        mmrl.check(config, media="al")
    with pytest.raises(ConfigError, match="workers is -1; give 1 or more"):
        mmrl.preprocess(config, workers=-1)
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        mmrl.trian  # noqa: B018


def test_names_are_functions_whatever_was_imported_before():
    code = "import mmrl.training.run, mmrl; from mmrl import train; assert callable(train) and callable(mmrl.train)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
