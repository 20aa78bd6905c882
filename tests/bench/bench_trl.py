"""GRPO steps on a CPU: mmrl with hf_engine against TRL's GRPOTrainer, same model, prompts, limits and optimizer.

    python tests/bench/bench_trl.py --trl-python A/bin/python --mmrl-python B/bin/python [--rounds N] [--cases N ...]

Each side has an environment with what it needs and no more, for whatever else is installed is imported by transformers
and counts as memory: A is `pip install "trl==1.16.*" torch==2.13.0 torchvision==0.28.0 "transformers==5.19.*"`, B is
mmrl without extras. mmrl's media are preprocessed, as its guide tells people to; TRL reads its pictures from files.
Both sides: fp32, one thread, 4 prompts x 8 completions a step, temperature 1, no reference model, one update a batch,
AdamW, no gradient checkpointing, vision tokens banned. Each round runs both sides, one process each, one after the
other; which goes first changes with the round. A side's seconds are the median over the rounds of the medians of its
steps, the first two of a process left out. Memory is that of a process and its children together (PSS), at its peak.

Cases: images of 84 px on the 0.65M model; of 336 px (144 tokens) on the 25M model; clips of 16 frames, which TRL gets
as 16 pictures decoded beforehand, on both models.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import yaml
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from makers.bench_models import medium_model
from makers.clips import ClipSpec, write_clip
from makers.rows import write_jsonl
from makers.tiny_models import tiny_model_dir

from mmrl.models.families import load_processor
from mmrl.models.hub import without_progress_bars

SIDES = Path(__file__).parent / "grpo_sides"
CHECKOUT = Path(__file__).resolve().parents[2]
PROMPTS, GROUP = 4, 8
REWARD = "def score(completion, sample):\n    return sum(c.islower() for c in completion) / max(1, len(completion))\n"
QUESTION = "In which quarter is the patch?"


@dataclass(frozen=True)
class Case:
    name: str
    model: Literal["0.65M", "25M"]
    medium: Literal["image", "video"]
    pixels: int
    max_new_tokens: int
    steps: int
    goal: float | None


CASES = (
    Case("0.65M, images of 84 px", "0.65M", "image", 84, 32, 22, 2.0),
    Case("25M, images of 336 px", "25M", "image", 336, 64, 6, 3.0),
    Case("0.65M, clips of 16 frames of 56 px", "0.65M", "video", 56, 32, 22, None),
    Case("25M, clips of 16 frames of 112 px", "25M", "video", 112, 64, 5, None),
)


@dataclass(frozen=True)
class Measured:
    """What a side's process did in one round: median seconds a step, peak bytes, mean tokens of a completion."""

    seconds: float
    peak: float
    length: float
    version: str


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trl-python", type=Path, required=True)
    parser.add_argument("--mmrl-python", type=Path, default=Path(sys.executable))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cases", type=int, nargs="+", default=range(len(CASES)))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    lines = [
        "| case | TRL s a step | mmrl s a step | samples/s against TRL | goal | peak MB TRL | peak MB mmrl | tokens |",
        "|---|---|---|---|---|---|---|---|",
    ]
    versions = ""
    for number in options.cases:
        with tempfile.TemporaryDirectory() as folder:
            line, versions = compare(CASES[number], Path(folder), options)
        lines.append(line)
        print(line, flush=True)
    text = "\n".join([*lines, "", f"{versions}; {os.cpu_count()} cores, 1 thread, {options.rounds} rounds", ""])
    print(text)
    if options.out:
        options.out.write_text(text, encoding="utf-8")


def compare(case: Case, folder: Path, options: argparse.Namespace) -> tuple[str, str]:
    """The case's line of the table, and the versions."""
    settings, config = write_trl(case, folder), write_ours(case, folder)
    trl = [str(options.trl_python), str(SIDES / "side_trl.py"), str(settings), str(folder / "trl.json")]
    ours = [str(options.mmrl_python), str(SIDES / "side_mmrl.py"), str(config), str(folder / "ours.json")]
    run([str(options.mmrl_python), "-m", "mmrl", "preprocess", str(config)], folder)
    found: dict[str, list[Measured]] = {"trl": [], "ours": []}
    for turn in range(options.rounds):
        order = [("trl", trl), ("ours", ours)]
        for name, command in order if turn % 2 == 0 else reversed(order):
            found[name].append(measured(command, folder))
    seconds = {name: statistics.median(m.seconds for m in many) for name, many in found.items()}
    peak = {name: max(m.peak for m in many) / 1e6 for name, many in found.items()}
    length = {name: statistics.mean(m.length for m in many) for name, many in found.items()}
    cells = [
        case.name,
        f"{seconds['trl']:.3f}",
        f"{seconds['ours']:.3f}",
        f"{seconds['trl'] / seconds['ours']:.2f}",
        "" if case.goal is None else f"{case.goal:g}",
        f"{peak['trl']:.0f}",
        f"{peak['ours']:.0f}",
        f"{length['trl']:.1f} / {length['ours']:.1f}",
    ]
    return "| " + " | ".join(cells) + " |", f"{found['trl'][0].version}; {found['ours'][0].version}"


def measured(command: list[str], folder: Path) -> Measured:
    """Run a side to its end while its memory is watched."""
    peak = run(command, folder)
    result: dict[str, Any] = json.loads(Path(command[-1]).read_text())
    return Measured(statistics.median(result["seconds"][2:]), peak, result["mean_length"], result["version"])


def run(command: list[str], folder: Path) -> int:
    """Run a command to its end; the peak bytes of it and its children. Ends the benchmark where it fails."""
    log = folder / "log.txt"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu", "HF_HUB_OFFLINE": "1"}
    environment["PYTHONPATH"] = str(CHECKOUT)
    with log.open("w") as said:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=said, stderr=subprocess.STDOUT)
        peak = 0
        while process.poll() is None:
            peak = max(peak, sum(map(proportional_bytes, family_of(process.pid))))
            time.sleep(0.3)
    if process.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{log.read_text()[-3000:]}")
    return peak


def family_of(pid: int) -> list[int]:
    """The process and all that came from it."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:  # it has just ended
        return []
    return [pid, *(member for child in children for member in family_of(int(child)))]


def proportional_bytes(pid: int) -> int:
    """Memory of a process, what it shares with others divided among them."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


def model_folder(case: Case, folder: Path) -> Path:
    if case.model == "0.65M":
        return tiny_model_dir("qwen2_5_vl")
    target = folder / "model"
    if not target.exists():
        import transformers

        model, _ = medium_model()
        with without_progress_bars():
            model.save_pretrained(target)
        transformers.AutoProcessor.from_pretrained(tiny_model_dir("qwen2_5_vl")).save_pretrained(target)
        model.generation_config.save_pretrained(target)
    return target


def frames_of(case: Case, number: int) -> np.ndarray:
    """16 frames of a random walk over a photograph, or one crop of it; uint8 (F, H, W, 3)."""
    from skimage import data

    photo = [data.astronaut, data.chelsea, data.coffee, data.rocket][number % 4]()
    photo = np.asarray(Image.fromarray(photo).resize((640, 512)))
    random = np.random.default_rng(number)
    y, x = random.integers(0, 512 - case.pixels - 32), random.integers(0, 640 - case.pixels - 32)
    count = 1 if case.medium == "image" else 16
    return np.stack([photo[y + f : y + f + case.pixels, x + f : x + f + case.pixels] for f in range(count)])


def write_trl(case: Case, folder: Path) -> Path:
    rows = []
    for number in range(2 * PROMPTS):
        paths = []
        for index, frame in enumerate(frames_of(case, number)):
            paths.append(str(folder / f"{number}_{index}.png"))
            Image.fromarray(frame).save(paths[-1])
        rows.append({"images": paths, "question": QUESTION})
    settings = {
        "model": str(model_folder(case, folder)),
        "rows": rows,
        "steps": case.steps,
        "prompts": PROMPTS,
        "group_size": GROUP,
        "max_new_tokens": case.max_new_tokens,
        "lr": 1e-6,
        "banned_ids": list(load_processor(model_folder(case, folder)).banned_ids),
    }
    (folder / "trl_settings.json").write_text(json.dumps(settings))
    return folder / "trl_settings.json"


def write_ours(case: Case, folder: Path) -> Path:
    (folder / "reward.py").write_text(REWARD)
    rows = []
    for number in range(2 * PROMPTS):
        row: dict[str, Any] = {"problem": f"<{case.medium}>{QUESTION}", "answer": "a", "problem_type": "t"}
        if case.medium == "image":
            row["images"] = [f"{number}_0.png"]
        else:
            spec = ClipSpec(frames=16 * 12, fps=24, width=case.pixels, height=case.pixels, first=number)
            write_clip(folder / f"{number}.mp4", spec)
            row["videos"] = [f"{number}.mp4"]
        rows.append(row)
    pixels = {"min_pixels": 784, "max_pixels": case.pixels**2}
    config = {
        "name": "bench",
        "model": {"path": str(model_folder(case, folder)), "dtype": "float32", "gradient_checkpointing": False},
        "budgets": {"image": pixels, "video": {**pixels, "max_frames": 16, "sample_fps": 2.0}},
        "data": {"train": [{"path": str(write_jsonl(folder / "rows.jsonl", rows)), "card": "easyr1"}]},
        "cache": {"dir": str(folder / "cache")},
        "rollout": {"group_size": GROUP, "max_new_tokens": case.max_new_tokens},
        "rewards": {"workers": 0, "tasks": {"t": [{"reward": "./reward.py:score"}]}},
        "stages": [
            {
                "name": "rl",
                "kind": "grpo",
                "steps": case.steps,
                "prompts_per_step": PROMPTS,
                "lr": 1e-6,
                "weight_decay": 0.0,
            }
        ],
        "checkpoint": {"every": 100000},
    }
    (folder / "run.yaml").write_text(yaml.safe_dump(config))
    return folder / "run.yaml"


if __name__ == "__main__":
    main()
