"""tools/deploy/slurm.sbatch with stand-ins for SLURM's commands: two tasks, a time limit, the queue."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from makers.tiny_run import write_run

from mmrl.training.checkpoint import find_checkpoints
from mmrl.training.distributed import ALONE, free_port

ROOT = Path(__file__).resolve().parents[2]
SRUN = """#!/bin/bash
shift # --kill-on-bad-exit=1
for task in 0 1; do SLURM_PROCID=$task SLURM_LOCALID=$task SLURM_NTASKS=2 "$@" & echo $! >> "$TASKS"; done
code=0
for task in $(jobs -p); do wait "$task" || code=$?; done
exit $code
"""
SCONTROL = """#!/bin/bash
[ "$1" = show ] && echo 127.0.0.1 || echo "$@" >> "$REQUEUED"
"""


def test_a_job_that_runs_out_of_time_queues_itself_again_and_resumes(tmp_path):
    config = write_run(tmp_path / "run", stages=[{"name": "a", "kind": "grpo", "steps": 400, "prompts_per_step": 4}])
    for name, text in (("srun", SRUN), ("scontrol", SCONTROL)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    changes = ["rollout.group_size=2", "data.val=[]", "validation.before_first=false"]
    job = start(tmp_path, config, *changes)
    metrics = tmp_path / "run" / "runs" / "tiny" / "metrics.jsonl"
    deadline = time.monotonic() + 200
    while not (metrics.is_file() and metrics.stat().st_size) and job.poll() is None and time.monotonic() < deadline:
        time.sleep(0.2)
    for task in (tmp_path / "tasks").read_text().split():
        os.kill(int(task), signal.SIGTERM)
    _, said = job.communicate(timeout=900)
    assert job.returncode == 75, said
    assert (tmp_path / "requeued").read_text().startswith("requeue ")
    [checkpoint] = find_checkpoints(metrics.parent)
    again = start(tmp_path, config, *changes, f"stages.a.steps={int(checkpoint.name[5:]) + 1}", restarts=1)
    _, said = again.communicate(timeout=900)
    assert again.returncode == 0, said
    assert find_checkpoints(metrics.parent)[-1].name == f"step-{int(checkpoint.name[5:]) + 1:06d}"


def start(folder: Path, config: Path, *changes: str, restarts: int = 0) -> subprocess.Popen:
    environment = {key: value for key, value in os.environ.items() if key not in (ALONE, "RANK")}
    environment |= {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "MMRL_PYTHON": sys.executable,
        "SLURM_JOB_NODELIST": "one",
        "SLURM_JOB_ID": str(free_port()),
        "SLURM_RESTART_COUNT": str(restarts),
        "TASKS": str(folder / "tasks"),
        "REQUEUED": str(folder / "requeued"),
    }
    command = ["bash", ROOT / "tools" / "deploy" / "slurm.sbatch", config, *changes]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
