"""What the stages of `mmrl evaluate` cost together, and what a question costs beside its answer.

    python tests/bench/bench_evaluate.py [timed] [hf] [samples] [--short]

timed, hf: three benchmarks, one of clips, one of pictures and one of a tenth of the rows, in a fresh cache. Opening
and answering are set to take equally long. Wall time against max(opening alone, answering alone), 1.0 being the best
there is; and the same run again, whose media are in the cache. Decoder processes were started before. `timed`: an
engine of known speed that answers BATCH questions at once and needs no processor, a decoder process per core. `hf`:
hf_engine with a tiny model on one core, one decoder process on another; the number of tokens is what sets the time of
answering.

samples: text questions, answered at once: seconds a question, the peak memory of the process after the run, and after
the records were read back, for two numbers of questions, each in a process of its own.

Media, cache and records lie in a temporary folder.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import psutil
import torch
import transformers
from makers.clips import ClipSpec, write_clip
from makers.evaluation import TimedFlight, job_of, question
from makers.media import write_picture
from makers.processors import family_processor
from makers.tiny_models import tiny_model_dir

from mmrl.config.schema import BudgetClass, ModelSection, VideoSection
from mmrl.data.sample import MediaRef, Sample
from mmrl.evaluate.ahead import Openers, questions
from mmrl.evaluate.flight import BatchFlight, Flight
from mmrl.evaluate.runner import Job, Runner
from mmrl.models.load import load_weights
from mmrl.rollout.hf_engine import HfEngine
from mmrl.rollout.types import Request

BATCH = 8
PARTS = ("timed", "hf", "samples")
OVERLAP = (
    "| engine | questions | opening alone, s | answering alone, s | together, s | together / larger "
    "| again, s | again / first |\n|---|---|---|---|---|---|---|---|"
)
SAMPLES = "| questions | ms a question | peak memory, MB | records read back, MB |\n|---|---|---|---|"
SMALL = {"min_pixels": 28 * 28, "max_pixels": 112 * 112}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("parts", nargs="*", default=PARTS, metavar="|".join(PARTS))
    arguments.add_argument("--short", action="store_true", help="a tenth of it or less")
    arguments.add_argument("--size", type=int, help=argparse.SUPPRESS)
    options = arguments.parse_args()
    torch.set_num_threads(1)
    if options.size is not None:
        with tempfile.TemporaryDirectory() as folder:
            print(*measured_samples(Path(folder), options.size))
        return
    engines = [engine for engine in (Timed(), Hf()) if engine.name in options.parts]
    for engine in engines:
        with tempfile.TemporaryDirectory() as folder:
            print(OVERLAP, overlap(Path(folder), engine, short=options.short), sep="\n", flush=True)
    if "samples" in options.parts:
        print(SAMPLES)
        for size in (1_000, 10_000) if options.short else (10_000, 100_000):
            command = [sys.executable, __file__, "--size", str(size)]
            said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            seconds, megabytes, read = map(float, said.splitlines()[-1].split())  # libraries may say something first
            print(f"| {size:,} | {1000 * seconds / size:.2f} | {megabytes:.0f} | {read:.0f} |", flush=True)
    versions = f"torch {torch.__version__}, transformers {transformers.__version__}"
    print(f"\nPython {sys.version.split()[0]}, {versions}, {len(os.sched_getaffinity(0))} cores.")


class Timed:
    """Answers after a set time. budgets: those that the shipped benchmarks have."""

    name, workers, clips = "timed", 0, 60
    spec = ClipSpec(frames=120, fps=10, width=640, height=360)
    budgets: Mapping[str, BudgetClass] = MappingProxyType({})

    def __init__(self) -> None:
        self._seconds = 0.0

    def balance(self, ready: Sequence[tuple[Request, Sample]], opening_s: float) -> None:
        self._seconds = opening_s * BATCH / len(ready)

    def flight(self) -> Flight:
        return TimedFlight(lambda sample: "B", size=BATCH, seconds=self._seconds)


class Hf:
    """A tiny model in this process. Clips are long and wide for what is shown of them: opening takes what it takes with
    the usual budgets, and a tiny model can answer meanwhile."""

    name, workers, clips = "hf", 1, 60
    spec = ClipSpec(frames=150, fps=5, width=1280, height=720)
    budgets = MappingProxyType({"video": BudgetClass(**SMALL, max_frames=8), "image": BudgetClass(**SMALL)})

    def __init__(self) -> None:
        model = load_weights(ModelSection(path=str(tiny_model_dir("qwen2_5_vl")))).eval()
        self._engine = HfEngine(model, family_processor("qwen2_5_vl"))
        self.answers = {"max_new_tokens": 64}

    def balance(self, ready: Sequence[tuple[Request, Sample]], opening_s: float) -> None:
        """A random model never ends by itself, and a step takes equally long."""
        answering_s = answering_alone(ready, self.flight())
        self.answers["max_new_tokens"] = round(self.answers["max_new_tokens"] * opening_s / answering_s)

    def flight(self) -> Flight:
        return BatchFlight(self._engine, size=BATCH)


def overlap(folder: Path, engine: Timed | Hf, *, short: bool) -> str:
    samples = media_questions(folder, engine.spec, clips=engine.clips // 10 if short else engine.clips)

    def jobs(name: str) -> list[Job]:
        place = folder / name
        place.mkdir(exist_ok=True)
        answers: dict[str, Any] = getattr(engine, "answers", {})
        return [job_of(place, of, name=of[0].dataset, budgets=engine.budgets, **answers) for of in samples]

    with Openers(VideoSection(), engine.workers) as openers:
        warm(folder, openers)
        with kept_apart() if engine.workers else contextlib.nullcontext():
            opening_s = opening_alone(jobs("opening"), openers)
            engine.balance(prepared(jobs("opening"), openers), opening_s)
            answering_s = answering_alone(prepared(jobs("opening"), openers), engine.flight())
            first_s = run(jobs("run"), openers, engine.flight())
            again_s = run(jobs("run"), openers, engine.flight())
    ratio = first_s / max(opening_s, answering_s)
    row = [engine.name, sum(map(len, samples)), opening_s, answering_s, first_s, ratio, again_s, again_s / first_s]
    return "| " + " | ".join(f"{x:.2f}" if isinstance(x, float) else str(x) for x in row) + " |"


@contextlib.contextmanager
def kept_apart() -> Iterator[None]:
    """This process on the first core and its decoder processes on the last. Left to themselves, two busy processes on
    two cores are moved about, and each takes a third longer than alone, also where they have nothing to do with each
    other.
    """
    cores = os.sched_getaffinity(0)
    for process in psutil.Process().children(recursive=True):
        process.cpu_affinity([max(cores)])
    own_threads = [int(thread.name) for thread in Path("/proc/self/task").iterdir()]
    for thread in own_threads:
        os.sched_setaffinity(thread, {min(cores)})
    try:
        yield
    finally:
        for thread in own_threads:
            os.sched_setaffinity(thread, cores)


def media_questions(folder: Path, spec: ClipSpec, *, clips: int) -> list[list[Sample]]:
    """Of clips, of as many pictures, and of a tenth as many other pictures; all differ."""
    films = [write_clip(folder / f"{n}.mp4", ClipSpec(**{**vars(spec), "first": n})) for n in range(clips)]
    pictures = [write_picture(folder / f"{n}.png", n, size=(1280, 960)) for n in range(clips + max(1, clips // 10))]
    return [
        [question(f"c{n}", MediaRef("video", path), name="clips") for n, path in enumerate(films)],
        [question(f"p{n}", MediaRef("image", path), name="pictures") for n, path in enumerate(pictures[:clips])],
        [question(f"f{n}", MediaRef("image", path), name="few") for n, path in enumerate(pictures[clips:])],
    ]


def warm(folder: Path, openers: Openers) -> None:
    """Start every decoder process, which takes seconds, before anything is measured."""
    pictures = [write_picture(folder / f"warm{n}.png", 1000 + n) for n in range(8 * openers.workers)]
    samples = [question(str(n), MediaRef("image", path), name="warm") for n, path in enumerate(pictures)]
    opening_alone([job_of(folder, samples, name="warm")], openers)


def opening_alone(jobs: Sequence[Job], openers: Openers) -> float:
    started = time.perf_counter()
    prepared(jobs, openers)
    return time.perf_counter() - started


def prepared(jobs: Sequence[Job], openers: Openers) -> list[tuple[Request, Sample]]:
    found = []
    for number, item in enumerate(questions([(job.preparer, job.samples, job.todo) for job in jobs], openers)):
        assert item.prepared is not None, item.reason
        sampling = jobs[item.job].benchmark.sampling
        found.append((Request(str(number), item.prepared.prompt, 1, sampling, seed=number), item.sample))
    return found


def answering_alone(ready: Sequence[tuple[Request, Sample]], flight: Flight) -> float:
    started, waiting = time.perf_counter(), deque(ready)
    while waiting or flight.is_busy:
        while waiting and flight.room > 0:
            flight.add(*waiting.popleft())
        flight.step()
    return time.perf_counter() - started


def run(jobs: Sequence[Job], openers: Openers, flight: Flight) -> float:
    runner = Runner(jobs, flight, openers, ready=2 * BATCH, deadline_s=600.0, seed=0, told=lambda job: None)
    started = time.perf_counter()
    runner.run()
    seconds = time.perf_counter() - started
    assert not any(job.failed for job in jobs)
    return seconds


class Made(Sequence[Sample]):
    """Questions that exist while they are looked at, as those of a file do."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: Any) -> Any:
        return question(str(index))


def measured_samples(folder: Path, size: int) -> tuple[float, float, float]:
    """Seconds of a run, and the peak memory of this process in megabytes: of the run, and of reading its records."""
    job = job_of(folder, Made(size))
    with Openers(VideoSection()) as openers:
        seconds = run([job], openers, TimedFlight(lambda sample: "B", size=BATCH))
    ran = peak_megabytes()
    assert len(job.scores) == len(job.records.read()) == size
    return seconds, ran, peak_megabytes()


def peak_megabytes() -> float:
    """Not getrusage: its peak is inherited from the process that started this one."""
    [peak] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:")]
    return int(peak.split()[1]) * 1024 / 1e6


if __name__ == "__main__":
    main()
