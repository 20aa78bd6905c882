"""The share of a GRPO step that waits for its prompts, with reading ahead and without, the page cache warm and cold.

    python tests/bench/bench_data_stall.py [--steps 5] [--out tests/bench/results/data_stall.md]

25M-parameter Qwen2.5-VL, random weights, fp32, one thread. 2 prompts a step, each a clip of 30 s, 640 x 360, of which
16 frames of 168 x 168 pixels are in the pixel cache; groups of 8, up to 16 tokens. Each row is an epoch in which every
clip is met for the first time by a new reader of the cache, so each entry is verified (every byte is read); before a
cold one all entry files are dropped from the page cache. The first step of a row, which nothing was read ahead of, is
not counted.

    stall    seconds of `next_prompts` (draw, look up, map, verify, render) / seconds of the step; median and largest
"""

from __future__ import annotations

import argparse
import os
import statistics
import struct
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from makers.bench_models import medium_model, versions
from makers.clips import ClipSpec, write_clip
from makers.rows import write_jsonl

from mmrl.config.load import load_config
from mmrl.config.schema import RunConfig
from mmrl.data.cache import PixelCache
from mmrl.models.load import save_model
from mmrl.training.grpo import GrpoStage
from mmrl.training.runtime import Runtime, open_runtime
from mmrl.training.schedule import set_hyperparameters
from mmrl.training.stage_rows import read_rows, train_loader

PROMPTS, FRAMES, SECONDS, SIDE = 2, 16, 30, 168
REWARD = "def score(completion, sample):\n    return sum(c.islower() for c in completion) / max(1, len(completion))\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=5, help="counted steps of each row")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        config = write_run(Path(folder), steps=arguments.steps)
        (Path(folder) / "run").mkdir()
        run = open_runtime(config, Path(folder) / "run", model_path=Path(config.model.path))
        try:
            text = table(run, steps=arguments.steps)
        finally:
            run.close()
    print(text)
    if arguments.out:
        arguments.out.write_text(text, encoding="utf-8")


def write_run(folder: Path, *, steps: int) -> RunConfig:
    (folder / "reward.py").write_text(REWARD)
    write_clip(folder / "clip.mp4", ClipSpec(frames=SECONDS * 10, fps=10, width=640, height=360, gop=50))
    clip, rows = (folder / "clip.mp4").read_bytes(), []
    for number in range(PROMPTS * (steps + 2)):
        # The same frames in a file of other content (a `free` box of 12 bytes at its end): an entry of its own.
        (folder / f"{number}.mp4").write_bytes(clip + struct.pack(">I4sI", 12, b"free", number))
        rows.append({"problem": "<video>What?", "answer": "a", "videos": [f"{number}.mp4"], "problem_type": "t"})
    save_model(*medium_model(), folder / "model")
    config = {
        "model": {"path": str(folder / "model"), "dtype": "float32", "gradient_checkpointing": False},
        "budgets": {"video": {"min_pixels": 784, "max_pixels": SIDE * SIDE, "max_frames": FRAMES, "sample_fps": 2.0}},
        "data": {"train": [{"path": str(write_jsonl(folder / "rows.jsonl", rows)), "card": "easyr1"}]},
        "cache": {"dir": str(folder / "cache"), "level": "pixels"},
        "rollout": {"group_size": 8, "max_new_tokens": 16},
        "rewards": {"workers": 0, "tasks": {"t": [{"reward": "./reward.py:score"}]}},
        "stages": [{"name": "rl", "kind": "grpo", "steps": 1000, "prompts_per_step": PROMPTS, "lr": 1e-6}],
        "log": {"rollouts_per_step": 0},
    }
    (folder / "run.yaml").write_text(yaml.safe_dump(config))
    return load_config(folder / "run.yaml")


def table(run: Runtime, *, steps: int) -> str:
    rows, _ = read_rows(run.config, log=None)
    fill(run, rows)
    lines = [
        "| page cache | read ahead, batches | s a step | waited for data, s | stall | largest stall |",
        "|---|---|---|---|---|---|",
    ]
    for is_cold in (False, True):
        for prefetch in (1, 0):
            seconds, waits = epoch(run, rows, steps=steps, prefetch=prefetch, is_cold=is_cold)
            stalls = [wait / whole for wait, whole in zip(waits, seconds, strict=True)]
            cells = [
                "cold" if is_cold else "warm",
                f"{prefetch}",
                f"{statistics.median(seconds):.2f}",
                f"{statistics.median(waits):.4f}",
                f"{statistics.median(stalls):.2%}",
                f"{max(stalls):.2%}",
            ]
            lines.append("| " + " | ".join(cells) + " |")
            print(lines[-1], file=sys.stderr, flush=True)
    size = sum(path.stat().st_size for path in entries(run)) / len(entries(run)) / 1e6
    return "\n".join([*lines, "", f"{versions()}; entries of {size:.1f} MB, {steps} steps a row", ""])


def fill(run: Runtime, rows: Any) -> None:
    """Store every clip."""
    loader = train_loader(run, 0, rows)
    run.prepare(loader.next(len(loader)), run.config.data)


def epoch(run: Runtime, rows: Any, *, steps: int, prefetch: int, is_cold: bool) -> tuple[list[float], list[float]]:
    """Seconds of each counted step and of its wait for data."""
    if is_cold:
        drop_pages(run)
    run.ahead.settle()
    run.cache = PixelCache(Path(run.config.cache.dir))
    data = run.config.data.model_copy(update={"prefetch": prefetch})
    run.config = run.config.model_copy(update={"data": data})
    section = run.config.stages[0]
    set_hyperparameters(run.optimizer, lr=section.lr, weight_decay=0.0)
    stage = GrpoStage(run, section, train_loader(run, 0, rows))
    seconds, waits = [], []
    for number in range(steps + 1):
        run.watch.take()
        with run.watch.time("step"):
            stage.step(number)
        taken = run.watch.take()
        seconds.append(taken["step"])
        waits.append(taken["data"])
    return seconds[1:], waits[1:]


def entries(run: Runtime) -> list[Path]:
    return [path for path in (Path(run.config.cache.dir) / "pixels").rglob("*") if path.is_file()]


def drop_pages(run: Runtime) -> None:
    for path in entries(run):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


if __name__ == "__main__":
    main()
