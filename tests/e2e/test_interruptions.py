"""Training as a process that is asked to stop, interrupted and killed: what it leaves behind continues exactly.

One run to the end gives the weights and metrics that every interrupted run must reach after `--resume`. The first run
also fills the pixel cache for the others; rewards are scored in a worker process, so that there is one to leave behind.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from makers.tiny_run import write_run

from mmrl.training.checkpoint import find_checkpoints

PATIENCE_S = 240  # of a loaded machine; a run takes 10 s on an idle one
STAGES = [
    {"name": "warmup", "kind": "sft", "steps": 2, "prompts_per_step": 4, "lr": 1e-3},
    {"name": "rl", "kind": "grpo", "steps": 4, "prompts_per_step": 4, "lr": 1e-3},
]
REWARD_WORKER = "multiprocessing.forkserver"
RUN = ("rewards.workers=1", "algorithm.ref_kl_coef=0.1", "data.val=[]")


class Runs:
    """Runs of one configuration, each in a run folder of its own, as processes."""

    def __init__(self, folder: Path) -> None:
        self.config = write_run(folder, stages=STAGES)
        self.out = folder / "runs"

    def start(self, name: str, *arguments: str) -> subprocess.Popen:
        command = [sys.executable, "-m", "mmrl", "train", str(self.config), f"name={name}", *RUN, *arguments]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(command, **pipes, text=True, env=_environment(), preexec_fn=_heed_ctrl_c)

    def finish(self, name: str, *arguments: str) -> tuple[int, str, str]:
        """Exit code, output and errors of a run that is left alone."""
        process = self.start(name, *arguments)
        out, err = process.communicate(timeout=PATIENCE_S)
        return process.returncode, out, err

    def result(self, name: str) -> tuple[list[dict], bytes, str]:
        """Metrics rows without what depends on the machine, weights, and sampled completions."""
        folder = self.out / name
        rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        metrics = [{k: v for k, v in row.items() if not k.startswith("perf/")} for row in rows]
        model = (find_checkpoints(folder)[-1] / "model" / "model.safetensors").read_bytes()
        return metrics, model, (folder / "rollouts.jsonl").read_text()

    def steps_done(self, name: str) -> int:
        path = self.out / name / "metrics.jsonl"
        return path.read_text().count("\n") if path.is_file() else 0


def _environment() -> dict[str, str]:
    root = str(Path(__file__).resolve().parents[2])
    return {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}


def _heed_ctrl_c() -> None:
    """A shell starts its background jobs with SIGINT ignored, and processes inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def wait_until(condition: Callable[[], bool], process: subprocess.Popen) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "the run did not get there"
        time.sleep(0.01)


def descendants(pid: int) -> set[int]:
    """All processes below this one."""
    children = [int(c) for task in Path(f"/proc/{pid}/task").glob("*/children") for c in task.read_text().split()]
    return set(children).union(*(descendants(child) for child in children))


def wait_for_the_end_of(commands: dict[int, str]) -> None:
    """All these processes (by id, with their command lines) end soon."""
    deadline = time.monotonic() + 30
    while left := [command for pid, command in commands.items() if is_alive(pid)]:
        assert time.monotonic() < deadline, f"left behind: {left}"
        time.sleep(0.05)


def is_alive(pid: int) -> bool:
    """Whether a process still runs; one that has ended may stay listed until whoever inherited it collects it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Runs:
    runs = Runs(tmp_path_factory.mktemp("interrupted"))
    code, _, err = runs.finish("whole")
    assert code == 0, err
    return runs


def interrupt(
    runs: Runs, name: str, number: int, *arguments: str, workers: tuple[str, ...] = (REWARD_WORKER,)
) -> tuple[int, str, str]:
    """Start a run, send it a signal after its third step; its exit code, output and errors.

    It must have had these worker processes, and all its processes must end.
    """
    process = runs.start(name, *arguments)
    wait_until(lambda: runs.steps_done(name) >= 3, process)
    below = {pid: Path(f"/proc/{pid}/cmdline").read_text() for pid in descendants(process.pid)}
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert [w for w in workers if not any(w in command for command in below.values())] == []
    wait_for_the_end_of(below)
    return process.returncode, out, err


def test_sigterm_writes_a_checkpoint_and_the_run_continues_exactly(runs):  # faults 73, 74
    code, out, err = interrupt(runs, "terminated", signal.SIGTERM, "log.console=true")
    assert code == 75, err
    assert "Traceback" not in err
    stopped = find_checkpoints(runs.out / "terminated")[-1]
    state = json.loads((stopped / "state.json").read_text())["position"]
    assert (state["stage"], state["step"]) == (1, runs.steps_done("terminated"))
    assert 3 <= state["step"] < 6

    go_on = f"mmrl train {runs.out / 'terminated' / 'resolved.yaml'} --resume"
    said = f"stopped at step {state['step']} on request (SIGTERM); checkpoint: {stopped}; go on with `{go_on}`"
    assert out.splitlines()[-1] == said

    code, out, err = runs.finish("terminated", "--resume", "log.console=true", "checkpoint.keep_last=5")
    assert code == 0, err
    # A configuration that changed in between is used, and listed key by key.
    assert "changed since this run was started: checkpoint.keep_last: 20 -> 5" in out
    assert f"continuing from {stopped} ({state['step']} steps done)" in out
    assert runs.result("terminated") == runs.result("whole")


def test_a_killed_run_continues_exactly(runs):  # fault 75
    folder = runs.out / "killed"
    cold = f"cache.dir={folder.parent / 'cold'}"  # so that clips and pictures have to be opened, by a decoder process
    code, _, _ = interrupt(runs, "killed", signal.SIGKILL, cold, workers=(REWARD_WORKER, "mmrl.data.decode_worker"))
    assert code == -signal.SIGKILL
    (folder / "checkpoints" / ".building-step-000004" / "model").mkdir(parents=True)  # as if while saving
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"step": 4, "stage": "r')  # as if while writing a row
    code, _, err = runs.finish("killed", "--resume")
    assert code == 0, err
    assert runs.result("killed") == runs.result("whole")
    assert not list((folder / "checkpoints").glob(".building-*"))


def test_ctrl_c_ends_without_a_traceback_and_the_run_continues_exactly(runs):
    code, out, err = interrupt(runs, "interrupted", signal.SIGINT, "log.console=true")
    assert code == 130
    folder = runs.out / "interrupted"
    newest = find_checkpoints(folder)[-1]
    assert out.splitlines()[-1].startswith("interrupted: ") and "lost" in out.splitlines()[-1]
    assert f"{newest} is the newest checkpoint; go on with `mmrl train {folder}/resolved.yaml --resume`" in out
    assert "Traceback" not in err
    code, _, err = runs.finish("interrupted", "--resume")
    assert code == 0, err
    assert runs.result("interrupted") == runs.result("whole")


def test_ctrl_c_before_the_first_step_says_that_nothing_is_lost_and_the_same_command_trains(runs):
    process = runs.start("early")
    wait_until((runs.out / "early" / "environment.json").is_file, process)  # next comes the model
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    said = "no training step was under way and checkpoints are as they were; give the same command again"
    assert err.splitlines()[-1] == f"interrupted: mmrl train was stopped; {said}"
    assert "Traceback" not in err
    code, _, err = runs.finish("early")
    assert code == 0, err
    assert runs.result("early") == runs.result("whole")


def test_a_run_folder_in_use_is_not_touched(runs):
    before = runs.result("whole")
    code, _, err = runs.finish("whole")
    assert code == 2
    assert err.startswith("error: ") and "already holds a run; continue it with resume (--resume)" in err
    assert runs.result("whole") == before
