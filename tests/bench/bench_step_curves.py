"""Seconds of a GRPO step against group size, frames, completion length and processes, with the share of each stage.

    python tests/bench/bench_step_curves.py [--steps 6] [--model tiny|medium] [--out tests/bench/results/step_curves.md]
        [--plots docs/images]                       about 6 minutes on two idle cores with the tiny model

Each point is a run of `mmrl train` (with more processes: `mmrl launch`) of its own: 4 prompts a step, each a clip of
84 x 84 pixels from the pixel cache; a reference for the KL term, so that there is a log-prob pass; engine hf, fp32, one
thread a process. One setting changes at a time from: group of 8, 8 frames, 32 new tokens, one process. Medians of the
seconds in `metrics.jsonl`, over the steps after the first epoch; rest: what no stage counts (advantages, logging).

    rollout     generating            logprobs    reference log-probs       data    waiting for prompts
    score       waiting for rewards   update      forward, backward, step   sync    weights to the engine
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from makers.bench_models import medium_model, versions
from makers.clips import ClipSpec, write_clip
from makers.rows import write_jsonl

from mmrl.models.load import save_model
from mmrl.models.tiny import make_tiny_model

STAGES = ("rollout", "score", "logprobs", "update", "data", "sync")
BASE = {"group size": 8, "frames": 8, "new tokens": 32, "processes": 1}
VALUES = {
    "group size": (2, 4, 8, 16, 32),
    "frames": (2, 4, 8, 16, 32),
    "new tokens": (8, 16, 32, 64, 128),
    "processes": (1, 2),
}
PROMPTS, CLIPS = 4, 8
FIRST = CLIPS // PROMPTS
"""Steps of a run that are not counted: those in which every clip is met for the first time."""
REWARD = "def score(completion, sample):\n    return sum(c.islower() for c in completion) / max(1, len(completion))\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--model", choices=["tiny", "medium"], default="tiny")
    parser.add_argument("--settings", nargs="+", choices=list(VALUES), default=list(VALUES))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--plots", type=Path, help="folder of step_curves.png")
    options = parser.parse_args()
    curves: dict[str, dict[int, dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        write_data(Path(folder), model=options.model)
        measured: dict[tuple[int, ...], dict[str, float]] = {}
        for name in options.settings:
            for value in VALUES[name]:
                point = {**BASE, name: value}
                key = tuple(point.values())
                if key not in measured:
                    measured[key] = seconds_of(Path(folder), point, steps=options.steps)
                    print(name, value, measured[key], file=sys.stderr, flush=True)
                curves.setdefault(name, {})[value] = measured[key]
    text = table(curves, model=options.model)
    print(text)
    if options.out:
        options.out.write_text(text, encoding="utf-8")
    if options.plots:
        plot(curves, options.plots / "step_curves.png")


def write_data(folder: Path, *, model: str) -> None:
    (folder / "reward.py").write_text(REWARD)
    rows = []
    for number in range(CLIPS):
        write_clip(folder / f"{number}.mp4", ClipSpec(frames=160, fps=10, width=320, height=180, gop=20, first=number))
        rows.append({"problem": "<video>What?", "answer": "a", "videos": [f"{number}.mp4"], "problem_type": "t"})
    write_jsonl(folder / "rows.jsonl", rows)
    if model == "tiny":
        make_tiny_model(folder / "model")
    else:
        save_model(*medium_model(), folder / "model")


def seconds_of(folder: Path, point: dict[str, int], *, steps: int) -> dict[str, float]:
    """Median seconds of a step and of its stages, of a run with these settings."""
    frames = point["frames"]
    config = {
        "name": "-".join(map(str, point.values())),
        "out_dir": str(folder / "runs"),
        "model": {"path": str(folder / "model"), "dtype": "float32", "gradient_checkpointing": False},
        "budgets": {
            "video": {
                "min_pixels": 784,
                "max_pixels": 84 * 84,
                "min_frames": frames,
                "max_frames": frames,
                "sample_fps": 8.0,
            }
        },
        "data": {"train": [{"path": str(folder / "rows.jsonl"), "card": "easyr1"}]},
        "cache": {"dir": str(folder / "cache"), "level": "pixels"},
        "rollout": {"group_size": point["group size"], "max_new_tokens": point["new tokens"]},
        "algorithm": {"ref_kl_coef": 0.01},
        "rewards": {"workers": 0, "tasks": {"t": [{"reward": "./reward.py:score"}]}},
        "stages": [{"name": "rl", "kind": "grpo", "steps": steps + FIRST, "prompts_per_step": PROMPTS, "lr": 1e-6}],
        "validation": {"before_first": False},
        "log": {"rollouts_per_step": 0, "console": False, "trackers": []},
    }
    path = folder / f"{config['name']}.yaml"
    path.write_text(yaml.safe_dump(config))
    processes = point["processes"]
    launcher = ["launch", "--nproc", str(processes)] if processes > 1 else []
    command = [sys.executable, "-m", "mmrl", *launcher, "train", str(path)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    lines = (folder / "runs" / str(config["name"]) / "metrics.jsonl").read_text().splitlines()
    rows = [row for row in map(json.loads, lines) if "lr" in row][FIRST:]
    return {
        stage: statistics.median(row.get(f"perf/seconds_{stage}", 0.0) for row in rows) for stage in (*STAGES, "step")
    }


def shares(seconds: dict[str, float]) -> dict[str, float]:
    """Of the step, by stage; rest: what is in none."""
    found = {stage: seconds[stage] / seconds["step"] for stage in STAGES}
    return {**found, "rest": max(0.0, 1 - sum(found.values()))}


def table(curves: dict[str, dict[int, dict[str, float]]], *, model: str) -> str:
    lines = [
        f"| setting | value | s a step | {' | '.join(STAGES)} | rest |",
        "|---|---|---|" + "---|" * (len(STAGES) + 1),
    ]
    for name, points in curves.items():
        for value, seconds in points.items():
            cells = " | ".join(f"{share:.1%}" for share in shares(seconds).values())
            lines.append(f"| {name} | {value} | {seconds['step']:.3f} | {cells} |")
    return "\n".join([*lines, "", f"{versions()}; {model} model, {os.cpu_count()} cores", ""])


def plot(curves: dict[str, dict[int, dict[str, float]]], path: Path) -> None:
    """Seconds of a step by stage, stacked, a panel for each setting."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, [panels] = pyplot.subplots(1, len(curves), figsize=(12, 3.2), layout="constrained", squeeze=False)
    for panel, (name, points) in zip(panels, curves.items(), strict=True):
        ticks, base = range(len(points)), [0.0] * len(points)
        for stage in (*STAGES, "rest"):
            heights = [shares(seconds)[stage] * seconds["step"] for seconds in points.values()]
            panel.bar(ticks, heights, bottom=base, label=stage, width=0.7)
            base = [low + height for low, height in zip(base, heights, strict=True)]
        panel.set_xticks(ticks, [str(value) for value in points])
        panel.set_xlabel(name)
    panels[0].set_ylabel("seconds a step")
    panels[-1].legend(fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=80)


if __name__ == "__main__":
    main()
