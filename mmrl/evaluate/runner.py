"""Many benchmarks at once: media are opened while the engine answers, and answers are scored meanwhile.

    questions of all benchmarks, interleaved      one thread, decoder processes, the pixel cache
      -> at most `ready` prepared questions        a full queue stops the thread
      -> the engine's flight                       this thread
      -> samples.jsonl, and the rewards' workers   scores are collected when they are there

One broken row, medium or request is a record with its reason; the others go on. Memory is bounded by the queue.
"""

from __future__ import annotations

import heapq
import itertools
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from mmrl.data.prepare import Prepared, Preparer
from mmrl.data.sample import Sample
from mmrl.evaluate.benchmark import Benchmark
from mmrl.evaluate.flight import Failure, Flight
from mmrl.evaluate.records import Record, RecordFile, Status
from mmrl.rollout.sampling import derive_seed
from mmrl.rollout.types import Completion, Group, Request
from mmrl.scoring.ongoing import Scoring
from mmrl.scoring.router import Router

# Questions opened together, so that decoder processes have work; and answers scored together.
BLOCK = 8
SCORED_TOGETHER = 16


@dataclass(frozen=True, slots=True)
class Score:
    """An answer's score, NaN where it could not be scored, and its parts by name."""

    value: float
    parts: Mapping[str, float]


@dataclass
class Job:
    """One benchmark of an evaluation. todo: indices of the questions to ask. scores: by (key, repeat)."""

    benchmark: Benchmark
    samples: Sequence[Sample]
    todo: Sequence[int]
    preparer: Preparer
    router: Router
    records: RecordFile
    scores: dict[tuple[str, int], Score] = field(default_factory=dict)
    done: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class _Ready:
    """A question that can be asked, or why it cannot."""

    job: int
    sample: Sample
    prepared: Prepared | None
    status: Status = "ok"
    reason: str = ""


def interleaved(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """(job, place) of every item, so that at any time all jobs are done to the same share.

    >>> list(interleaved([4, 2]))
    [(0, 0), (1, 0), (0, 1), (0, 2), (1, 1), (0, 3)]
    """

    def of(job: int, size: int) -> Iterator[tuple[float, int, int]]:
        return (((place + 0.5) / size, job, place) for place in range(size))

    yield from ((job, place) for _, job, place in heapq.merge(*itertools.starmap(of, enumerate(sizes))))


class Runner:
    """Asks what is to be asked and fills each job's records and scores.

    flight: of the engine. ready: prepared questions that may wait. told: called after every question, for progress.
    """

    def __init__(
        self, jobs: Sequence[Job], flight: Flight, *, ready: int, seed: int, told: Callable[[Job], None]
    ) -> None:
        self.jobs, self.flight, self.seed, self.told = jobs, flight, seed, told
        self._ready: queue.Queue[_Ready | None] = queue.Queue(ready)
        self._asked: dict[str, _Ready] = {}
        self._numbers = itertools.count()
        self._scoring = [_Scored(job) for job in jobs]
        self._stopped = threading.Event()

    def run(self) -> None:
        """Until every question has its records. What breaks the engine, or the reading of rows, is raised; records
        stay.
        """
        with ThreadPoolExecutor(1, "questions") as thread:
            preparing = thread.submit(self._prepare_all)
            try:
                self._answer_all()
            finally:
                self._stopped.set()
            preparing.result()
        for scored in self._scoring:
            scored.finish()

    def _prepare_all(self) -> None:
        """None in the queue says that nothing more comes."""
        try:
            order = interleaved([len(job.todo) for job in self.jobs])
            while (block := list(itertools.islice(order, BLOCK))) and not self._stopped.is_set():
                for ready in self._prepare(block):
                    self._put(ready)
        finally:
            self._put(None)

    def _put(self, item: _Ready | None) -> None:
        """Waits while the queue is full, unless nobody takes anything any more."""
        while not self._stopped.is_set():
            try:
                self._ready.put(item, timeout=0.1)
                return
            except queue.Full:
                continue

    def _prepare(self, block: Sequence[tuple[int, int]]) -> Iterator[_Ready]:
        for number, job in enumerate(self.jobs):
            samples = [job.samples[job.todo[place]] for owner, place in block if owner == number]
            if not samples:
                continue
            before = len(job.preparer.skipped.rows)
            prepared = {item.sample.sample_id: item for item in job.preparer.prepare(samples)}
            reasons = {row.sample_id: row for row in job.preparer.skipped.rows[before:]}
            for sample in samples:
                item, row = prepared.get(sample.sample_id), reasons.get(sample.sample_id)
                if item is not None or row is None:
                    yield _Ready(number, sample, item)
                else:
                    status: Status = "media_error" if row.kind == "bad_media" else "error"
                    yield _Ready(number, sample, None, status, row.reason)

    def _answer_all(self) -> None:
        more = True
        while more or self.flight.is_busy:
            while more and self.flight.room > 0:
                try:
                    # With work under way nobody waits for a medium; without, there is nothing else to do.
                    item = self._ready.get(block=not self.flight.is_busy)
                except queue.Empty:
                    break
                more = item is not None
                if item is not None:
                    self._ask(item)
            if self.flight.is_busy:
                for ended in self.flight.step():
                    self._end(ended)

    def _ask(self, item: _Ready) -> None:
        job = self.jobs[item.job]
        if item.prepared is None:
            self._fail(item, item.status, item.reason)
            return
        name, section = str(next(self._numbers)), job.benchmark.section
        seed = derive_seed(self.seed, job.benchmark.name, item.sample.sample_id)
        request = Request(name, item.prepared.prompt, section.answers.repeats, job.benchmark.sampling, seed=seed)
        self._asked[name] = item
        if (failure := self.flight.add(request)) is not None:
            self._end(failure)

    def _end(self, ended: Group | Failure) -> None:
        item = self._asked.pop(ended.request.request_id)
        if isinstance(ended, Failure):
            self._fail(item, "error", ended.reason)
            return
        assert item.prepared is not None
        job, sample = self.jobs[item.job], item.prepared.sample
        job.records.append([_record(job, sample, n, completion) for n, completion in enumerate(ended.completions)])
        self._scoring[item.job].add(sample, [completion.text for completion in ended.completions])
        self._told(job)

    def _fail(self, item: _Ready, status: Status, reason: str) -> None:
        job = self.jobs[item.job]
        job.records.append([Record(job.benchmark.hash, item.sample.sample_id, 0, status, reason=reason)])
        self._told(job)

    def _told(self, job: Job) -> None:
        job.done += 1
        self.told(job)


class _Scored:
    """Answers of a job on their way through the rewards' workers, some of them together."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._waiting: list[tuple[Sample, list[str]]] = []
        self._sent: deque[tuple[list[Sample], Scoring]] = deque()

    def add(self, sample: Sample, completions: list[str]) -> None:
        self._waiting.append((sample, completions))
        if len(self._waiting) >= SCORED_TOGETHER:
            self._send()
        while len(self._sent) > 4:
            self._collect()

    def finish(self) -> None:
        if self._waiting:
            self._send()
        while self._sent:
            self._collect()

    def _send(self) -> None:
        waiting, self._waiting = self._waiting, []
        scoring = self.job.router.start([(sample, len(texts)) for sample, texts in waiting])
        scoring.add({number: texts for number, (_, texts) in enumerate(waiting)})
        self._sent.append(([sample for sample, _ in waiting], scoring))

    def _collect(self) -> None:
        samples, scoring = self._sent.popleft()
        scores = scoring.finish()
        for group, (sample, values) in enumerate(zip(samples, scores.task_scores, strict=True)):
            for repeat, value in enumerate(values):
                self.job.scores[sample.sample_id, repeat] = Score(value, scores.breakdown_of(group, repeat))


def rescore(job: Job, samples: dict[str, Sample], records: dict[str, list[Record]]) -> None:
    """Scores of stored answers, which need no model. samples: by key, with answers in the model's space."""
    scored = _Scored(job)
    for key, of_key in records.items():
        if not of_key[0].is_failed:
            scored.add(samples[key], [record.completion for record in of_key])
    scored.finish()


def _record(job: Job, sample: Sample, repeat: int, completion: Completion) -> Record:
    is_place = job.preparer.geometry_kind(sample.task) is not None
    return Record(
        job.benchmark.hash,
        sample.sample_id,
        repeat,
        "truncated" if completion.finish_reason == "length" else "ok",
        completion=completion.text,
        num_tokens=len(completion.ids),
        answer=sample.answer if is_place else None,
        answer_space=sample.answer_space if is_place else None,
    )
