"""A GRPO step that reads its clips from the cache against the same step that decodes them.

    python tests/bench/bench_cached_step.py --repeat 5 --out tests/bench/results/cached_step.md

8 clips of 30 s, 640x360, H.264, 16 frames each, 56x56 pixels; group size 8, up to 9 tokens; the quickstart's 0.65M
model. Three ways of getting
the frames, one after the other in one process:

    cached       PixelCache, warm
    inline       one decoder process, the step waits for it
    prefetched   one decoder process that decodes the next step's clips while this step computes
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml
from makers.bench_models import versions
from makers.clips import ClipSpec, write_clip
from makers.rows import write_jsonl

from mmrl.config.load import load_config
from mmrl.config.schema import RunConfig, VideoSection
from mmrl.data.decoder import MediaOpener
from mmrl.data.opening import OpenedMedia
from mmrl.data.rendered import MediaEntry
from mmrl.models.tiny import make_tiny_model
from mmrl.training.grpo import GrpoStage
from mmrl.training.runtime import Runtime, open_runtime
from mmrl.training.schedule import set_hyperparameters
from mmrl.training.stage_rows import read_rows, train_loader

CLIPS, FRAMES, SECONDS = 8, 16, 30
REWARD = "def score(completion, sample):\n    return sum(c.islower() for c in completion) / max(1, len(completion))\n"


class LiveMedia:
    """Stands in for the cache and decodes every time it is asked; with `prefetch`, one step ahead."""

    def __init__(self, *, prefetch: bool) -> None:
        self.prefetch = prefetch
        self._opener = MediaOpener(VideoSection(), workers=1)
        self._ahead: _Decoding | None = None

    def get_many(self, jobs: Any, opener: MediaOpener) -> Iterator[tuple[int, MediaEntry]]:
        jobs = list(jobs)
        opened = self._ahead.result() if self._ahead else dict(self._opener.open_many(jobs))
        if self.prefetch:
            self._ahead = _Decoding(jobs, self._opener)  # the same clips again: what matters is the work, not the order
        for index, medium in opened.items():
            yield index, as_entry(jobs[index].ref.source, medium)

    def close(self) -> None:
        if self._ahead:
            self._ahead.result()
        self._opener.close()

    def metrics(self) -> dict[str, float]:
        return {}


class _Decoding:
    """Decoding under way in a thread that waits for the decoder process."""

    def __init__(self, jobs: Any, opener: MediaOpener) -> None:
        self._opened: dict[int, OpenedMedia] = {}
        self._thread = threading.Thread(target=lambda: self._opened.update(opener.open_many(jobs)))
        self._thread.start()

    def result(self) -> dict[int, OpenedMedia]:
        self._thread.join()
        return self._opened


def as_entry(source: object, opened: OpenedMedia) -> MediaEntry:
    shared = {f.name for f in fields(MediaEntry)} & {f.name for f in fields(OpenedMedia)}
    return MediaEntry(key=str(source), kind="video", **{name: getattr(opened, name) for name in shared})


def write_run(folder: Path) -> RunConfig:
    (folder / "reward.py").write_text(REWARD)
    rows = []
    for number in range(CLIPS):
        spec = ClipSpec(frames=SECONDS * 25, fps=25, width=640, height=360, gop=50, first=number)
        write_clip(folder / f"{number}.mp4", spec)
        rows.append({"problem": "<video>What?", "answer": "a", "videos": [f"{number}.mp4"], "problem_type": "t"})
    make_tiny_model(folder / "model")
    train = {"path": str(write_jsonl(folder / "rows.jsonl", rows)), "card": "easyr1"}
    config = {
        "model": {"path": "model", "dtype": "float32", "gradient_checkpointing": False},
        "budgets": {"video": {"min_pixels": 784, "max_pixels": 56 * 56, "max_frames": FRAMES, "sample_fps": 2.0}},
        "data": {
            "train": [train],
            "decode_workers": 1,
            "prefetch": 0,  # the ways read ahead, or do not, by themselves
        },
        "cache": {"dir": str(folder / "cache")},
        "rollout": {"group_size": 8, "max_new_tokens": 9},
        "rewards": {"workers": 0, "tasks": {"t": [{"reward": "./reward.py:score"}]}},
        "stages": [{"name": "rl", "kind": "grpo", "steps": 1000, "prompts_per_step": CLIPS, "lr": 1e-6}],
        "log": {"rollouts_per_step": 0},
    }
    (folder / "run.yaml").write_text(yaml.safe_dump(config))
    return load_config(folder / "run.yaml")


def measure(run: Runtime, *, repeat: int) -> dict[str, float]:
    """Median seconds of a step for each way. The ways follow each other: prefetching would disturb its neighbours."""
    section = run.config.stages[0]
    set_hyperparameters(run.optimizer, lr=section.lr, weight_decay=0.0)
    stage = GrpoStage(run, section, train_loader(run, 0, read_rows(run.config, log=None)[0]))
    ways = {"cached": run.cache, "inline": LiveMedia(prefetch=False), "prefetched": LiveMedia(prefetch=True)}
    seconds = {}
    for name, media in ways.items():
        run.cache = media
        stage.step(0)  # fills the cache, starts processes, decodes the first clips ahead
        seconds[name] = statistics.median(timed(stage, number) for number in range(1, repeat + 1))
    ways["prefetched"].close()
    ways["inline"].close()
    return seconds


def timed(stage: GrpoStage, number: int) -> float:
    start = time.perf_counter()
    stage.step(number)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        config = write_run(Path(folder))
        (Path(folder) / "run").mkdir()
        run = open_runtime(config, Path(folder) / "run", model_path=Path(config.model.path))
        try:
            seconds = measure(run, repeat=arguments.repeat)
        finally:
            run.close()
    lines = ["| frames from | seconds a step | cached is faster by |", "|---|---|---|"]
    lines += [f"| {name} | {value:.3f} | {value / seconds['cached']:.1f}x |" for name, value in seconds.items()]
    text = "\n".join([*lines, "", versions(), ""])
    print(text)
    if arguments.out:
        arguments.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
