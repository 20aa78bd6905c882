"""A benchmark in memory, and an engine of known speed, to see what the runner of benchmarks does."""

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from makers.openers import LocalOpener
from makers.processors import family_processor

from mmrl.config.benchmark_section import BenchmarkSection
from mmrl.config.schema import BudgetClass, CacheSection, ModelSection
from mmrl.data.cache import PixelCache
from mmrl.data.prepare import Preparer
from mmrl.data.sample import MediaPart, MediaRef, Message, Sample, TextPart
from mmrl.data.skipped import SkippedLog
from mmrl.evaluate.benchmark import TASK, Benchmark
from mmrl.evaluate.flight import Answered, Failure
from mmrl.evaluate.records import RecordFile, Reply
from mmrl.evaluate.runner import Job
from mmrl.rollout.types import Request
from mmrl.scoring.router import Router


def question(key: str, *media: MediaRef, answer: str = "B", name: str = "made") -> Sample:
    parts = (*(MediaPart(n) for n in range(len(media))), TextPart(f"Which one is it? {key}"))
    modality = media[0].kind if media else "image"
    return Sample(key, TASK, modality, (Message("user", parts),), media, answer=answer, dataset=name)


def job_of(
    folder: Path,
    samples: Sequence[Sample],
    *,
    name: str = "made",
    budgets: Mapping[str, BudgetClass] = MappingProxyType({}),
    **answers: Any,
) -> Job:
    """All of these questions, multiple choice, none of them asked before. budgets: other than the default ones."""
    facts = {"data": {"path": "made.jsonl"}, "score": [{"reward": "choice"}], "provenance": {"source": "made"}}
    benchmark = Benchmark(name, BenchmarkSection.model_validate({**facts, "answers": answers}), folder)
    cache = CacheSection(dir=str(folder / "cache"))
    config = benchmark.config(ModelSection(path="tiny"), cache=cache, budgets=budgets, workers=0)
    router = Router(config.rewards.model_copy(update={"workers": 0}))
    preparer = Preparer(
        cache=PixelCache(folder / "cache"),
        opener=LocalOpener(),
        processor=family_processor("qwen2_5_vl"),
        config=config,
        data=config.data,
        skipped=SkippedLog(None, max_fraction=1.0),
        geometry_kind=router.geometry_kind,
    )
    (folder / name).mkdir(exist_ok=True)
    records = RecordFile(folder / name / "samples.jsonl", task_hash=benchmark.hash, repeats=1)
    return Job(benchmark, samples, range(len(samples)), preparer, router, records)


class TimedFlight:
    """Answers every request `seconds` after it came, `size` at once. answer: by the sample; None: it never ends."""

    shows_thought = True

    def __init__(self, answer: Callable[[Sample], Reply | str | None], *, size: int, seconds: float = 0.0) -> None:
        self.answer, self.size, self.seconds = answer, size, seconds
        self.asked: list[str] = []
        self.dropped: list[str] = []
        self._under_way: dict[str, tuple[float, Request, Sample]] = {}

    @property
    def room(self) -> int:
        return self.size - len(self._under_way)

    @property
    def is_busy(self) -> bool:
        return bool(self._under_way)

    def add(self, request: Request, sample: Sample) -> Failure | None:
        self.asked.append(sample.sample_id)
        self._under_way[request.request_id] = (time.monotonic() + self.seconds, request, sample)
        return None

    def step(self) -> list[Answered | Failure]:
        ended: list[Answered | Failure] = []
        for name, (due, request, sample) in tuple(self._under_way.items()):
            said = self.answer(sample)
            if said is not None and time.monotonic() >= due:
                del self._under_way[name]
                reply = said if isinstance(said, Reply) else Reply(said, False, 1)
                ended.append(Answered(request, tuple(itertools.repeat(reply, request.n))))
        if not ended:
            time.sleep(0.001)
        return ended

    def drop(self, request: Request) -> None:
        self.dropped.append(self._under_way.pop(request.request_id)[2].sample_id)
