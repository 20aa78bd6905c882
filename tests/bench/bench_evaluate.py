"""What the stages of `mmrl evaluate` cost together, with an engine of known speed.

    python tests/bench/bench_evaluate.py [--short]

overlap: three benchmarks, one of clips, one of pictures and one of a tenth of the rows, in a fresh cache. The engine
answers BATCH questions at once; its speed is set so that answering takes as long as opening. Decoder processes were
started before. Wall time against max(opening alone, answering alone), 1.0 being the best there is; and the same run
again, whose media are in the cache, with an engine that answers at once.

samples: text questions, answered at once: seconds a question and the peak memory of the process, for two numbers of
questions, each in a process of its own.

Media, cache and records lie in a temporary folder.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from makers.clips import ClipSpec, write_clip
from makers.evaluation import TimedFlight, job_of, question
from makers.media import write_picture

from mmrl.config.schema import VideoSection
from mmrl.data.sample import MediaRef, Sample
from mmrl.evaluate.ahead import Openers, questions
from mmrl.evaluate.runner import Job, Runner

BATCH = 8


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--short", action="store_true", help="a tenth of it or less")
    arguments.add_argument("--samples", type=int, help=argparse.SUPPRESS)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.samples is not None:
            print(*measured_samples(Path(folder), options.samples))
            return
        print("\n".join(overlap(Path(folder), clips=20 if options.short else 400)), flush=True)
    sizes = (1_000, 10_000) if options.short else (10_000, 100_000)
    lines = ["", "| questions | ms a question | peak memory, MB |", "|---|---|---|"]
    for size in sizes:
        command = [sys.executable, __file__, "--samples", str(size)]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        seconds, megabytes = said.splitlines()[-1].split()  # libraries may say something first
        lines.append(f"| {size:,} | {1000 * float(seconds) / size:.2f} | {float(megabytes):.0f} |")
    lines += ["", f"Python {sys.version.split()[0]}, {len(os.sched_getaffinity(0))} cores."]
    print("\n".join(lines))


def overlap(folder: Path, *, clips: int) -> list[str]:
    samples = media_questions(folder, clips=clips)
    count = sum(map(len, samples))
    words = [[question(sample.sample_id) for sample in of] for of in samples]
    with Openers(VideoSection()) as openers:
        warm(folder, openers)
        opening_s = opening_alone(jobs_in(folder, "opening", samples), openers)
        per_answer_s = opening_s * BATCH / count
        answering_s = run(jobs_in(folder, "answering", words), openers, per_answer_s)
        first_s = run(jobs_in(folder, "run", samples), openers, per_answer_s)
        again_s = run(jobs_in(folder, "run", samples), openers, 0.0)
    best_s = max(opening_s, answering_s)
    return [
        "| questions | opening alone, s | answering alone, s | together, s | together / larger | media at hand, s |",
        "|---|---|---|---|---|---|",
        f"| {count} | {opening_s:.1f} | {answering_s:.1f} | {first_s:.1f} | {first_s / best_s:.2f} | {again_s:.1f} |",
    ]


def media_questions(folder: Path, *, clips: int) -> list[list[Sample]]:
    """Of clips, of as many pictures, and of a tenth as many other pictures."""
    spec = ClipSpec(frames=120, fps=10, width=640, height=360)
    films = [write_clip(folder / f"{n}.mp4", ClipSpec(**{**vars(spec), "first": n % 16})) for n in range(clips)]
    pictures = [write_picture(folder / f"{n}.png", n, size=(640, 480)) for n in range(clips + clips // 10)]
    return [
        [question(f"c{n}", MediaRef("video", path), name="clips") for n, path in enumerate(films)],
        [question(f"p{n}", MediaRef("image", path), name="pictures") for n, path in enumerate(pictures[:clips])],
        [question(f"f{n}", MediaRef("image", path), name="few") for n, path in enumerate(pictures[clips:])],
    ]


def jobs_in(folder: Path, run_name: str, samples: Sequence[Sequence[Sample]]) -> list[Job]:
    place = folder / run_name
    place.mkdir(exist_ok=True)
    return [job_of(place, of, name=of[0].dataset if of[0].media else f"text{n}") for n, of in enumerate(samples)]


def warm(folder: Path, openers: Openers) -> None:
    """Start every decoder process, which takes seconds, before anything is measured."""
    pictures = [write_picture(folder / f"warm{n}.png", 1000 + n) for n in range(8 * openers.workers)]
    samples = [question(str(n), MediaRef("image", path), name="warm") for n, path in enumerate(pictures)]
    opening_alone(jobs_in(folder, "warm", [samples]), openers)


def opening_alone(jobs: Sequence[Job], openers: Openers) -> float:
    started = time.perf_counter()
    for _ in questions([(job.preparer, job.samples, job.todo) for job in jobs], openers):
        pass
    return time.perf_counter() - started


def run(jobs: Sequence[Job], openers: Openers, per_answer_s: float) -> float:
    flight = TimedFlight(lambda sample: "B", size=BATCH, seconds=per_answer_s)
    runner = Runner(jobs, flight, openers, ready=2 * BATCH, deadline_s=600.0, seed=0, told=lambda job: None)
    started = time.perf_counter()
    runner.run()
    return time.perf_counter() - started


class Made:
    """Questions that exist while they are looked at, as those of a file do."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int) -> Sample:
        return question(str(index))


def measured_samples(folder: Path, size: int) -> tuple[float, float]:
    """Seconds of a run, and the peak memory of this process in megabytes."""
    job = job_of(folder, Made(size))
    with Openers(VideoSection()) as openers:
        seconds = run([job], openers, 0.0)
    assert len(job.scores) == len(job.records.read()) == size
    # Not getrusage: its peak is inherited from the process that started this one.
    [peak] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:")]
    return seconds, int(peak.split()[1]) * 1024 / 1e6


if __name__ == "__main__":
    main()
