"""`mmrl export`: a folder that transformers loads, equal log-probs, the training's budgets in the processor."""

import json
import shutil

import pytest
import torch
from makers.configs import BUDGETS
from makers.trained import run_dir

from mmrl.commands.export import export_command, find_checkpoint
from mmrl.errors import CheckpointError, ConfigError


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return run_dir(tmp_path_factory.mktemp("runs") / "mine")


def logits(folder):
    from transformers import AutoModelForImageTextToText

    model = AutoModelForImageTextToText.from_pretrained(folder)
    with torch.no_grad():
        return model(input_ids=torch.tensor([[5, 6, 7]])).logits


def test_an_exported_checkpoint_loads_and_says_the_same(run, tmp_path, capsys):
    from transformers import AutoProcessor, GenerationConfig

    out = tmp_path / "out"
    assert export_command(run, out, step="best", merge=False) == 0
    assert capsys.readouterr().out == f"{out}: model of step-000003, budgets image 7,056 pixels, video 3,136 pixels\n"
    assert torch.equal(logits(out), logits(run / "checkpoints" / "step-000003" / "model"))
    processor = AutoProcessor.from_pretrained(out)
    assert processor.image_processor.size["longest_edge"] == BUDGETS["image"]["max_pixels"]
    assert processor.video_processor.max_frames == BUDGETS["video"]["max_frames"]
    assert GenerationConfig.from_pretrained(out).eos_token_id is not None
    assert json.loads((out / "mmrl.json").read_text())["policy_version"] == 7
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_which_checkpoint(run, tmp_path):
    name = {step: find_checkpoint(run, step).name for step in ("best", "latest", "6", "step-000006")}
    assert name == {"best": "step-000003", "latest": "step-000006", "6": "step-000006", "step-000006": "step-000006"}
    assert find_checkpoint(run / "checkpoints" / "step-000003", "best").name == "step-000003"
    with pytest.raises(CheckpointError, match=r"no checkpoint of step '5'; there are: step-000003, step-000006, best"):
        find_checkpoint(run, "5")
    with pytest.raises(CheckpointError, match="no complete checkpoint here"):
        find_checkpoint(tmp_path, "best")
    with pytest.raises(CheckpointError, match="no score was watched"):
        find_checkpoint(run_dir(tmp_path / "unwatched", (2,), best=None), "best")


def test_nothing_is_overwritten_or_merged_without_need(run, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a").touch()
    with pytest.raises(ConfigError, match="full holds files already"):
        export_command(run, tmp_path / "full", step="best", merge=False)
    with pytest.raises(ConfigError, match="there is no adapter to merge"):
        export_command(run, tmp_path / "new", step="best", merge=True)
    assert not (tmp_path / "new").exists()


def test_averaged_weights_are_exported_unless_raw_ones_are_asked_for(tmp_path, capsys):
    run = run_dir(tmp_path / "run", (3,))
    checkpoint = run / "checkpoints" / "step-000003"
    with pytest.raises(ConfigError, match=r"no averaged weights \(train\.ema_decay was null\)"):
        export_command(run, tmp_path / "none", step="best", merge=False, weights="average")
    shutil.copytree(checkpoint / "model", checkpoint / "model_ema")
    (checkpoint / "model_ema" / "averaged").touch()
    for weights, said, is_average in ((None, "averaged", True), ("average", "averaged", True), ("raw", "raw", False)):
        out = tmp_path / str(weights)
        assert export_command(run, out, step="best", merge=False, weights=weights) == 0
        assert f"{out}: model of step-000003, {said} weights" in capsys.readouterr().out
        assert (out / "averaged").is_file() == is_average
