"""GRPO steps on clips that are decoded each time, read as pixels from the cache, and read as features from it.

    python tests/bench/bench_cache_levels.py [--rounds 3] [--steps 3] [--out tests/bench/results/cache_levels.md]

Clips of 30 s, 640 x 360, H.264, of which 16 frames are shown, resized to the areas of squares of 56, 112 and 168
pixels; 8 prompts a step of a Qwen2.5-VL of 0.65M parameters, 2 of one of 25M; groups of 8, up to 16 tokens; random
weights, fp32, one thread, vision tower and projector frozen. One decoder process, and the next batch's media are read
ahead, in all three ways. The ways take turns, some steps each: the first step of a turn, which nothing was read ahead
of, is not counted. Medians.

    step      seconds of a step
    decoding  seconds in which the opener alone opens the clips of a step, beside a training that waits; of a live step
    waiting   share of the step in which it waits for its prompts
    tower     share of the step in the vision tower
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
import yaml
from makers.bench_models import medium_model, versions
from makers.clips import ClipSpec, write_clip
from makers.rows import write_jsonl

from mmrl.config.load import load_config
from mmrl.config.schema import RunConfig
from mmrl.data.cache import PixelCache
from mmrl.data.feature_cache import FeatureCache
from mmrl.data.opening import OpenedMedia, OpenJob
from mmrl.data.read_ahead import ReadAhead
from mmrl.data.rendered import MediaEntry
from mmrl.data.sample import Sample
from mmrl.errors import MediaError
from mmrl.models.load import save_model
from mmrl.models.tiny import make_tiny_model
from mmrl.training.grpo import GrpoStage
from mmrl.training.runtime import Runtime, open_runtime
from mmrl.training.schedule import set_hyperparameters
from mmrl.training.stage_rows import read_rows, train_loader

FRAMES, SECONDS, TOKENS = 16, 30, 16
PROMPTS = {"0.65M": 8, "25M": 2}
SIDES = (56, 112, 168)
REWARD = "def score(completion, sample):\n    return sum(c.islower() for c in completion) / max(1, len(completion))\n"


class LiveMedia:
    """Stands in for the cache and opens every medium whenever it is asked for."""

    def __init__(self, pixels: PixelCache) -> None:
        self.pixels = pixels

    def get_many(self, jobs: Iterable[OpenJob], opener: Any) -> Iterator[tuple[int, MediaEntry | MediaError]]:
        jobs = list(jobs)
        for index, opened in opener.open_many(jobs):
            yield index, opened if isinstance(opened, MediaError) else as_entry(jobs[index], opened)

    def local(self, ref: Any) -> Any:
        return ref

    def metrics(self) -> dict[str, float]:
        return self.pixels.metrics()


def as_entry(job: OpenJob, opened: OpenedMedia) -> MediaEntry:
    shared = {f.name for f in fields(MediaEntry)} & {f.name for f in fields(OpenedMedia)}
    return MediaEntry(key=str(job[0].source), kind="video", **{name: getattr(opened, name) for name in shared})


@dataclass
class Times:
    """Of the counted steps of one way: seconds, seconds waiting for prompts, seconds in the vision tower."""

    step: list[float] = field(default_factory=list)
    waiting: list[float] = field(default_factory=list)
    tower: list[float] = field(default_factory=list)

    def share(self, part: list[float]) -> float:
        return statistics.median(p / s for p, s in zip(part, self.step, strict=True))


def write_run(folder: Path, name: str, *, side: int) -> RunConfig:
    (folder / "reward.py").write_text(REWARD)
    rows = []
    for number in range(PROMPTS[name]):
        spec = ClipSpec(frames=SECONDS * 25, fps=25, width=640, height=360, gop=50, first=number)
        write_clip(folder / f"{number}.mp4", spec)
        rows.append({"problem": "<video>What?", "answer": "a", "videos": [f"{number}.mp4"], "problem_type": "t"})
    if name == "25M":
        model, processor = medium_model()
        save_model(model, processor, folder / "model")
    else:
        make_tiny_model(folder / "model")
    train = {"path": str(write_jsonl(folder / "rows.jsonl", rows)), "card": "easyr1"}
    config = {
        "model": {
            "path": str(folder / "model"),
            "dtype": "float32",
            "gradient_checkpointing": False,
            "freeze": ["vision_tower", "projector"],
        },
        "budgets": {"video": {"min_pixels": 784, "max_pixels": side**2, "max_frames": FRAMES, "sample_fps": 2.0}},
        "data": {"train": [train], "decode_workers": 1, "prefetch": 1},
        "cache": {"dir": str(folder / "cache"), "level": "features"},
        "rollout": {"group_size": 8, "max_new_tokens": TOKENS},
        "rewards": {"workers": 0, "tasks": {"t": [{"reward": "./reward.py:score"}]}},
        "stages": [{"name": "rl", "kind": "grpo", "steps": 100_000, "prompts_per_step": PROMPTS[name], "lr": 1e-6}],
        "log": {"rollouts_per_step": 0},
    }
    (folder / "run.yaml").write_text(yaml.safe_dump(config))
    return load_config(folder / "run.yaml")


@contextmanager
def timed_tower(run: Runtime) -> Iterator[list[float]]:
    """Seconds of each call of the vision tower within the block."""
    base: Any = run.policy.model
    kept, seconds = base.get_video_features, []

    def timed(*arguments: Any, **options: Any) -> Any:
        start = time.perf_counter()
        try:
            return kept(*arguments, **options)
        finally:
            seconds.append(time.perf_counter() - start)

    base.get_video_features = timed
    try:
        yield seconds
    finally:
        del base.get_video_features


def measure(run: Runtime, *, rounds: int, steps: int) -> tuple[dict[str, Times], float]:
    """The times of each way, and the median seconds of opening the clips of a step."""
    section = run.config.stages[0]
    set_hyperparameters(run.optimizer, lr=section.lr, weight_decay=0.0)
    loader = train_loader(run, 0, read_rows(run.config, log=None)[0])
    samples = loader.peek(section.prompts_per_step)
    stage = GrpoStage(run, section, loader)
    features = run.cache
    assert isinstance(features, FeatureCache)
    run.feature_gap_known = True  # its pixels would be decoded in the first step
    ways: dict[str, Any] = {"live": LiveMedia(features.pixels), "pixels": features.pixels, "features": features}
    times: dict[str, Times] = {name: Times() for name in ways}
    number, decoding = 0, []
    for _ in range(rounds + 1):
        for name, media in ways.items():
            run.cache = media
            run.ahead.close()
            run.ahead = ReadAhead()
            for counted in range(steps + 1):
                one = timed_step(run, stage, number)
                number += 1
                if counted and number > len(ways) * (steps + 1):  # the first round fills the cache and warms up
                    for part, value in zip(("step", "waiting", "tower"), one, strict=True):
                        getattr(times[name], part).append(value)
        run.ahead.settle()
        decoding.append(seconds_of_opening(run, samples))
    return times, statistics.median(decoding[1:])


def timed_step(run: Runtime, stage: GrpoStage, number: int) -> tuple[float, float, float]:
    run.watch.take()
    with timed_tower(run) as tower:
        start = time.perf_counter()
        stage.step(number)
        seconds = time.perf_counter() - start
    return seconds, run.watch.take().get("media", 0.0), sum(tower)


def seconds_of_opening(run: Runtime, samples: Sequence[Sample]) -> float:
    data = run.config.data
    preparer = run._preparer(data)
    jobs = [job for sample in samples for job in preparer.jobs(sample)]
    start = time.perf_counter()
    dict(run.opener_of(data).open_many(jobs))
    return time.perf_counter() - start


def table_rows(name: str, times: dict[str, Times], decoding: float) -> list[str]:
    medians = {way: statistics.median(of.step) for way, of in times.items()}
    rows = []
    for before, way in zip((None, "live", "pixels"), times, strict=True):
        of = times[way]
        ratio = f"{medians[before] / medians[way]:.2f}x {before}" if before else ""
        decoded = f"{decoding:.3f} s, {decoding / medians[way]:.0%}" if way == "live" else "none"
        rows.append(
            f"| {name} | {way} | {medians[way]:.3f} ({min(of.step):.3f}..{max(of.step):.3f}) | {ratio} "
            f"| {decoded} | {of.share(of.waiting):.0%} | {of.share(of.tower):.0%} |"
        )
    return rows


def measured(name: str, side: int, *, rounds: int, steps: int) -> list[str]:
    """The rows of the table for a model and a size of frames."""
    with tempfile.TemporaryDirectory() as folder:
        config = write_run(Path(folder), name, side=side)
        (Path(folder) / "run").mkdir()
        run = open_runtime(config, Path(folder) / "run", model_path=Path(config.model.path))
        try:
            print(f"measuring {name}, frames of {side}", flush=True)
            return table_rows(f"{name}, {side}", *measure(run, rounds=rounds, steps=steps))
        finally:
            run.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3, help="counted steps of a turn")
    parser.add_argument("--model", choices=list(PROMPTS), action="append", help="default: both")
    parser.add_argument("--side", type=int, action="append", help="default: all three")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    lines = [
        "| model, frames | clips | s a step | faster than | decoding | waiting | tower |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in arguments.model or PROMPTS:
        for side in arguments.side or SIDES:
            lines += measured(name, side, rounds=arguments.rounds, steps=arguments.steps)
    cores = len(os.sched_getaffinity(0))
    text = "\n".join([*lines, "", f"{versions()}, {cores} cores, load {os.getloadavg()[0]:.1f} at the end", ""])
    print(text)
    if arguments.out:
        arguments.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
