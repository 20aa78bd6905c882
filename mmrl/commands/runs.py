"""`mmrl runs [DIR]`: the runs of a folder, how far each came, how well it did, and the command that continues it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from mmrl.errors import MmrlError
from mmrl.training.run_folder import command_to_go_on, find_checkpoints, is_running


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One run folder.

    state: `finished`, `running`, `stopped` (a checkpoint can be continued) or `empty` (no checkpoint yet).
    steps: steps in the metrics log. saved_steps: of them, in the newest checkpoint. total_steps: of all stages.
    best: best watched score (`checkpoint.best`) and the checkpoint that has it, where one was measured.
    resume: the command that goes on; None unless the run is stopped. begins_again: the command that starts an empty run
    over; None for the others.
    """

    folder: str
    state: str
    steps: int
    saved_steps: int
    total_steps: int
    best: tuple[float, str] | None
    resume: str | None
    begins_again: str | None


def runs_command(folder: Path, *, as_json: bool) -> int:
    """Print the runs below a folder (or the run that the folder is). Returns 0. MmrlError where there is none."""
    summaries = [summarise(run) for run in find_runs(folder)]
    if not summaries:
        raise MmrlError(
            f"{folder}: no run here (a run folder holds resolved.yaml); `out_dir` says where runs are written"
        )
    if as_json:
        json.dump([asdict(summary) for summary in summaries], sys.stdout, indent=1)
        print()
        return 0
    for summary in summaries:
        print(_line(summary))
        if summary.resume:
            print(f"    {summary.resume}")
        if summary.begins_again:
            print(f"    no checkpoint, so it begins again: {summary.begins_again}")
    return 0


def find_runs(folder: Path) -> Iterator[Path]:
    """Run folders in a folder, newest last; the folder itself if it is one."""
    if (folder / "resolved.yaml").is_file():
        yield folder
        return
    found = [path.parent for path in folder.glob("*/resolved.yaml")]
    yield from sorted(found, key=lambda run: (run / "resolved.yaml").stat().st_mtime)


def summarise(run: Path) -> RunSummary:
    """What the files of a run folder say about it."""
    config = yaml.safe_load((run / "resolved.yaml").read_text(encoding="utf-8"))
    checkpoints = find_checkpoints(run)
    position = json.loads((checkpoints[-1] / "state.json").read_text())["position"] if checkpoints else {}
    state = _state(run, position, stages=len(config["stages"]))
    return RunSummary(
        folder=str(run),
        state=state,
        steps=max(_last_step(run / "metrics.jsonl"), position.get("step", 0)),
        saved_steps=position.get("step", 0),
        total_steps=sum(stage["steps"] for stage in config["stages"]),
        best=tuple(position["best"]) if position.get("best") else None,
        resume=command_to_go_on(run) if state == "stopped" else None,
        begins_again=command_to_go_on(run, flag="--overwrite") if state == "empty" else None,
    )


def _state(run: Path, position: dict[str, Any], *, stages: int) -> str:
    if is_running(run):
        return "running"
    if not position:
        return "empty"
    return "finished" if position["stage"] == stages else "stopped"


def _last_step(metrics: Path) -> int:
    """Step of the last whole line; 0 where there is none. Only the end of the file is read."""
    if not metrics.is_file():
        return 0
    with metrics.open("rb") as file:
        file.seek(max(0, metrics.stat().st_size - 2**18))
        lines = file.read().split(b"\n")[:-1]
    return json.loads(lines[-1])["step"] if lines else 0


def _line(summary: RunSummary) -> str:
    saved = f", {summary.saved_steps} saved" if summary.saved_steps != summary.steps else ""
    best = f"  best {summary.best[0]:.3f} at {summary.best[1]}" if summary.best else ""
    return f"{summary.folder}  {summary.state}  {summary.steps}/{summary.total_steps} steps{saved}{best}"
