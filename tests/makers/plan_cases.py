"""A run's plan beside what the run takes, for the bench and the test of the planner's memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from makers.clips import ClipSpec, write_clip
from makers.rows import write_jsonl
from PIL import Image

from mmrl.config.load import load_config
from mmrl.plan.memory import Machine, RankMemory
from mmrl.plan.plan import make_plan
from mmrl.training.distributed import ALONE

# What tells a process its place among others; tests that trained in this one have left some of it.
GROUP_OF_THIS_PROCESS = (ALONE, "RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
WORKER = Path(__file__).with_name("plan_run.py")
PARTS = ("weights", "resting", "backward", "step", "sampling")


@dataclass(frozen=True)
class Case:
    """rows: kinds of prompts (`text:200` has so many words, `image:336` is a square, `clip:8` so many frames). family:
    of the tiny model that the case is of, for whoever chooses the model by it.
    """

    name: str
    rows: tuple[str, ...]
    overrides: tuple[str, ...] = ()
    processes: int = 1
    family: Any = None


def write_run(folder: Path, model: Path, case: Case) -> Path:
    """The YAML of a run whose one step has all rows of the case."""
    rows = [_row(folder, kind, number) for number, kind in enumerate(case.rows)]
    tree = {
        "model": {"path": str(model), "dtype": "float32", "gradient_checkpointing": False},
        "budgets": {
            "image": {"min_pixels": 784, "max_pixels": 336 * 336},
            "video": {"min_pixels": 784, "max_pixels": 168 * 168, "max_frames": 64},
        },
        "data": {"train": [{"path": str(write_jsonl(folder / "train.jsonl", rows)), "card": {}}], "decode_workers": 1},
        "cache": {"dir": str(folder / "cache"), "level": "pixels"},
        "rewards": {"workers": 0, "tasks": {"t": [{"reward": "exact_text"}]}},
        "stages": [{"name": "rl", "kind": "grpo", "steps": 1, "prompts_per_step": len(rows) * case.processes}],
        "rollout": {"group_size": 4, "max_new_tokens": 48},
        "train": {"micro_batch_tokens": 4096},
    }
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump(tree), encoding="utf-8")
    return path


def planned(run: Path, case: Case) -> tuple[RankMemory, dict[str, int]]:
    """The plan of one process on CPUs, and its numbers in the words of `plan_run.measure`."""
    machine = Machine(case.processes, 2**36, False, "a machine")
    plan = make_plan(load_config(run, case.overrides), machine)
    rank = plan.rank
    assert rank is not None and rank.activations is not None, plan.unknown
    states = rank.states
    found = {
        "weights": states.weights,
        "resting": states.resting,
        "backward": states.resting + rank.backward,
        "step": states.resting + states.step,
        "sampling": states.resting + (rank.rollout.total if rank.rollout is not None else 0),
    }
    return rank, found


def measured(run: Path, case: Case, kind: str) -> dict[str, int]:
    """By `plan_run.py` in processes of its own; the highest of them. `kind`: `live` or `resident`."""
    environment = {name: value for name, value in os.environ.items() if name not in GROUP_OF_THIS_PROCESS}
    roots = [*map(str, Path(__file__).resolve().parents[1:3]), environment.get("PYTHONPATH", "")]
    environment |= {"PYTHONPATH": os.pathsep.join(roots), "DS_ACCELERATOR": "cpu", "OMP_NUM_THREADS": "1"}
    # Freed memory goes back to the system at once, so that resident memory is that of living tensors.
    environment |= {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", str(case.processes), "--standalone"]
    command = [sys.executable, *(launcher if case.processes > 1 else []), str(WORKER), str(run), kind, *case.overrides]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(next(line for line in reversed(done.stdout.splitlines()) if line.startswith("{")))


def _row(folder: Path, kind: str, number: int) -> dict[str, Any]:
    what, _, size = kind.partition(":")
    row: dict[str, Any] = {"answer": "a", "task": "t"}
    if what == "text":
        return {**row, "prompt": " ".join(["left right up down"] * (int(size) // 4))}
    if what == "image":
        pixels = np.random.default_rng(number).integers(0, 256, (int(size), int(size), 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
        return {**row, "prompt": "<image> What?", "images": [f"{number}.png"]}
    write_clip(folder / f"{number}.mp4", ClipSpec(frames=int(size), width=168, height=168))
    return {**row, "prompt": "<video> What?", "videos": [{"path": f"{number}.mp4", "sample_fps": 10}]}
