"""`mmrl runs`: what a run folder says about its run."""

import json

import pytest
import yaml

from mmrl.commands.runs import find_runs, runs_command, summarise
from mmrl.errors import MmrlError
from mmrl.training.run_folder import only_run_in

STAGES = [{"name": "a", "steps": 4}, {"name": "b", "steps": 6}]


def make_run(folder, *, steps=0, saved=None, stage=0, best=None):
    """A run folder with `steps` logged and a checkpoint at `saved`."""
    folder.mkdir(parents=True)
    (folder / "resolved.yaml").write_text(yaml.safe_dump({"stages": STAGES}))
    rows = [json.dumps({"step": step + 1}) for step in range(steps)]
    (folder / "metrics.jsonl").write_text("".join(row + "\n" for row in rows) + '{"step": 99')  # the last one is torn
    if saved is not None:
        checkpoint = folder / "checkpoints" / f"step-{saved:06d}"
        checkpoint.mkdir(parents=True)
        position = {"stage": stage, "step": saved, "best": best}
        (checkpoint / "state.json").write_text(json.dumps({"position": position}))
        (checkpoint / "COMPLETE").touch()
    return folder


def test_a_stopped_run_says_how_to_go_on(tmp_path):
    run = make_run(tmp_path / "my run", steps=7, saved=6, stage=1, best=[0.5, "step-000004"])
    summary = summarise(run)
    assert (summary.state, summary.steps, summary.saved_steps, summary.total_steps) == ("stopped", 7, 6, 10)
    assert summary.best == (0.5, "step-000004")
    assert summary.resume == f"mmrl train '{run}/resolved.yaml' --resume"


def test_states(tmp_path):
    finished = summarise(make_run(tmp_path / "a", steps=10, saved=10, stage=2))
    assert (finished.state, finished.resume) == ("finished", None)
    empty = summarise(make_run(tmp_path / "b", steps=2))
    assert (empty.state, empty.steps, empty.saved_steps, empty.best) == ("empty", 2, 0, None)
    assert (empty.resume, empty.begins_again) == (None, f"mmrl train {tmp_path}/b/resolved.yaml --overwrite")
    with only_run_in(make_run(tmp_path / "c", steps=2)):
        assert summarise(tmp_path / "c").state == "running"
        assert summarise(tmp_path / "c").resume is None


def test_a_half_written_checkpoint_counts_for_nothing(tmp_path):  # fault 75
    run = make_run(tmp_path / "a", steps=5, saved=4)
    (run / "checkpoints" / "step-000005").mkdir()
    assert summarise(run).saved_steps == 4


def test_printed_and_as_json(tmp_path, capsys):
    make_run(tmp_path / "a", steps=7, saved=6, best=[0.5, "step-000004"])
    assert runs_command(tmp_path, as_json=False) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{tmp_path}/a  stopped  7/10 steps, 6 saved  best 0.500 at step-000004",
        f"    mmrl train {tmp_path}/a/resolved.yaml --resume",
    ]
    make_run(tmp_path / "empty", steps=2)
    assert runs_command(tmp_path / "empty", as_json=False) == 0
    assert "no checkpoint, so it begins again: mmrl train" in capsys.readouterr().out
    assert runs_command(tmp_path / "a", as_json=True) == 0
    assert json.loads(capsys.readouterr().out)[0]["state"] == "stopped"


def test_no_run(tmp_path):
    assert list(find_runs(tmp_path)) == []
    with pytest.raises(MmrlError, match="no run here"):
        runs_command(tmp_path, as_json=False)
