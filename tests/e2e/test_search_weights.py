"""A search over weights of rewards: trials in order, what is left behind, and that it goes on exactly."""

import json
from pathlib import Path

from makers.tiny_run import write_run
from typer.testing import CliRunner, Result

from mmrl.cli import app

STAGES = [{"name": "rl", "kind": "grpo", "steps": 1, "prompts_per_step": 2, "lr": 1e-3}]
KEPT = ["data.train.0.max_samples=2", "data.val.0.max_samples=2", "validation.before_first=false"]


def search(folder: Path, *more: str, trials: int = 3) -> Result:
    path = folder / "config.yaml"
    arguments = ["search-weights", str(path), "--out", str(folder / "search"), "--trials", str(trials)]
    return CliRunner().invoke(app, [*arguments, "--population", "2", *more, *KEPT])


def trials(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "search" / "trials.jsonl").read_text().splitlines()]


def test_a_search_that_is_stopped_goes_on_as_if_it_were_not(tmp_path):
    write_run(tmp_path, stages=STAGES)
    asked = ("--weight", "t/format=0.05:1")
    done = search(tmp_path, *asked)
    assert done.exit_code == 0, done.output
    whole = trials(tmp_path)
    assert whole[0]["weights"]["t/format"] == 0.1  # the configuration's own
    assert len({trial["weights"]["t/format"] for trial in whole}) == 3
    assert all(trial["score"] == trial["scores"][0] for trial in whole)
    assert done.output.count("val/mean") == 4  # a line a trial, and the table
    folder = tmp_path / "search" / "trial-001-seed-0"
    assert not (folder / "checkpoints").exists()
    assert f"weight: {whole[1]['weights']['t/format']!r}" in (folder / "resolved.yaml").read_text()
    # A line that was cut while it was written, and the runs of that trial, are made again.
    lines = (tmp_path / "search" / "trials.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "search" / "trials.jsonl").write_text(lines[0] + lines[1] + lines[2][:20])
    again = search(tmp_path, *asked, trials=3)
    assert again.exit_code == 0, again.output
    assert trials(tmp_path) == whole
    other = search(tmp_path, "--weight", "t/format=0.05:2")
    assert other.exit_code != 0
    assert "holds another search (ranges was ['t/format=0.05:1'])" in str(other.exception)


def test_wrong_usage_is_told_before_a_run(tmp_path):
    write_run(tmp_path, stages=STAGES)
    for asked, message in {
        "t/fromat=0.1:1": "has no part 't/fromat'; did you mean 't/format'?",
        "t/format=1": "write TASK/PART=LOW:HIGH",
        "t/format=1:0.1": "LOW must be above 0 and below HIGH",
        "t/letters=0.1:1": "--score val/mean is made with the weight of t/letters",
    }.items():
        result = search(tmp_path, "--weight", asked)
        assert message in str(result.exception), result.output
    assert not (tmp_path / "search").exists()
