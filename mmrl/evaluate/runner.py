"""Many benchmarks at once: media are opened while the engine answers, and answers are scored meanwhile.

    questions of all benchmarks, interleaved      one thread, decoder processes, the pixel cache (mmrl.evaluate.ahead)
      -> at most `ready` prepared questions        a full queue stops the thread
      -> the engine's flight                       this thread
      -> samples.jsonl, and the rewards' workers   scores are collected when they are there

One broken row, medium or request is a record with its reason; the others go on. Memory is bounded by the queue.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from mmrl.data.prepare import Preparer
from mmrl.data.rendered import RenderedPrompt
from mmrl.data.sample import Sample
from mmrl.evaluate.ahead import Openers, Ready, questions
from mmrl.evaluate.benchmark import Benchmark
from mmrl.evaluate.flight import Answered, Failure, Flight
from mmrl.evaluate.handover import Handover
from mmrl.evaluate.kept_scores import KeptScores, Score
from mmrl.evaluate.records import Record, RecordFile, Reply, Status
from mmrl.evaluate.repeats import seed_of
from mmrl.models.families import FamilyProcessor
from mmrl.rollout.types import Request
from mmrl.scoring.judge.calls import NONE, JudgeCalls
from mmrl.scoring.ongoing import Scoring
from mmrl.scoring.router import Router

SCORED_TOGETHER = 16
_LONGEST_BLOCK_S = 0.005
_LONGEST_TURN_S = 0.0005
_THOUGHT_IDS = 8  # last tokens of a prompt in which it is seen to begin a thought


@dataclass
class Job:
    """One benchmark of an evaluation. todo: indices of the questions to ask. scores: by (key, repeat).

    is_scored: False: answers are stored only. done, failed: of the questions to ask. judge_calls: for all scores.
    reward_problem: what the first reward that failed said.
    """

    benchmark: Benchmark
    samples: Sequence[Sample]
    todo: Sequence[int]
    preparer: Preparer
    router: Router
    records: RecordFile
    scores: KeptScores = field(default_factory=KeptScores)
    is_scored: bool = True
    done: int = 0
    failed: int = 0
    judge_calls: JudgeCalls = NONE
    reward_problem: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """A question that the engine has, and until when it may answer."""

    item: Ready
    request: Request
    deadline: float


class Runner:
    """Asks what is to be asked and fills each job's records and scores.

    flight: of the engine. openers: of media. ready: prepared questions that may wait. deadline_s: of one question, from
    when the engine has it; what is late is a failure, and looked for whenever the engine has done some work.
    told: called after every question, for progress.
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        flight: Flight,
        openers: Openers,
        *,
        ready: int,
        deadline_s: float,
        seed: int,
        told: Callable[[Job], None],
    ) -> None:
        self.jobs, self.flight, self.openers, self.seed, self.told = jobs, flight, openers, seed, told
        self.deadline_s = deadline_s
        self._ready: Handover[Ready] = Handover(ready)
        self._block = max(1, ready // 2)
        self._asked: dict[str, _Asked] = {}
        self._numbers = itertools.count()
        self._scoring = [_Scored(job) for job in jobs]

    def run(self) -> None:
        """Until every question has its records. What breaks the engine, or the reading of rows, is raised; records
        stay.
        """
        with _short_turns(), ThreadPoolExecutor(1, "questions") as thread:
            preparing = thread.submit(self._prepare_all)
            try:
                self._answer_all()
            finally:
                self._ready.close()
                for job in self.jobs:
                    job.records.close()
            preparing.result()
        for scored in self._scoring:
            scored.finish()

    def _prepare_all(self) -> None:
        """Questions are handed over in blocks, unless one must be waited for or takes long."""
        todo = [(job.preparer, job.samples, job.todo) for job in self.jobs]
        block: list[Ready] = []
        begun = time.monotonic()

        def hand_over() -> bool:
            given, block[:] = list(block), []
            return self._ready.give(given)

        try:
            for ready in questions(todo, self.openers, before_wait=hand_over):
                begun = begun if block else time.monotonic()
                block.append(ready)
                is_due = len(block) >= self._block or time.monotonic() - begun > _LONGEST_BLOCK_S
                if is_due and not hand_over():
                    return
            hand_over()
        finally:
            self._ready.close()

    def _answer_all(self) -> None:
        more = True
        while more or self._asked:
            if more and (room := self.flight.room) > 0:
                # With work under way nobody waits for a medium; without, there is nothing else to do.
                items = self._ready.take(room, waits=not self.flight.is_busy)
                for item in items:
                    self._ask(item)
                more = bool(items) or not self._ready.is_over
            if self.flight.is_busy:
                for ended in self.flight.step():
                    self._end(ended)
                self._end_late()

    def _ask(self, item: Ready) -> None:
        job = self.jobs[item.job]
        if item.prepared is None:
            self._fail(item, item.status, item.reason)
            return
        name, section = str(next(self._numbers)), job.benchmark.section
        seed = seed_of(self.seed, job.benchmark.name, item.sample.sample_id)
        request = Request(name, item.prepared.prompt, section.answers.repeats, job.benchmark.sampling, seed=seed)
        self._asked[name] = _Asked(item, request, time.monotonic() + self.deadline_s)
        if (failure := self.flight.add(request, item.prepared.sample)) is not None:
            self._end(failure)

    def _end(self, ended: Answered | Failure) -> None:
        item = self._asked.pop(ended.request.request_id).item
        if isinstance(ended, Failure):
            self._fail(item, "error", ended.reason)
            return
        if len(ended.replies) != ended.request.n:  # an empty list of answers is no answer
            self._fail(item, "error", f"the engine gave {len(ended.replies)} answers, not {ended.request.n}")
            return
        assert item.prepared is not None
        job, sample = self.jobs[item.job], item.prepared.sample
        replies = self._whole(ended.replies, item.prepared.prompt, job.preparer.processor)
        is_place = job.preparer.geometry_kind(sample.task) is not None
        hash_ = job.benchmark.answers_hash
        job.records.append([Record.of(hash_, sample, n, reply, is_place=is_place) for n, reply in enumerate(replies)])
        if job.is_scored:
            self._scoring[item.job].add(sample, [reply.text for reply in replies])
        self._told(job)

    def _whole(self, replies: Sequence[Reply], prompt: RenderedPrompt, processor: FamilyProcessor) -> list[Reply]:
        """The answers; before one that never ends the thought that its prompt began stands the thought's begin, so that
        nothing in it is taken for the answer.
        """
        if not _begins_thought(prompt, processor):
            return list(replies)
        return [
            replace(reply, text=f"<think>{reply.text}")
            if "</think>" not in reply.text and (reply.is_cut or self.flight.shows_thought)
            else reply
            for reply in replies
        ]

    def _end_late(self) -> None:
        """Questions were asked in the order of their deadlines."""
        while self._asked:
            name, asked = next(iter(self._asked.items()))
            if time.monotonic() < asked.deadline:
                return
            del self._asked[name]
            self.flight.drop(asked.request)
            self._fail(asked.item, "timeout", f"no answer within {self.deadline_s:g} s (--deadline)")

    def _fail(self, item: Ready, status: Status, reason: str) -> None:
        job = self.jobs[item.job]
        job.records.append([Record(job.benchmark.answers_hash, item.sample.sample_id, 0, status, reason=reason)])
        job.failed += 1
        self._told(job)

    def _told(self, job: Job) -> None:
        job.done += 1
        self.told(job)


@contextlib.contextmanager
def _short_turns() -> Iterator[None]:
    """An engine in this process computes in Python without a pause; threads that open media need a short moment of it
    many times for each medium, and would wait for each as long as a turn may last.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(_LONGEST_TURN_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def _begins_thought(prompt: RenderedPrompt, processor: FamilyProcessor) -> bool:
    return _ends_in_thought(prompt.engine_ids[-_THOUGHT_IDS:], processor)


@functools.lru_cache(4096)
def _ends_in_thought(ids: tuple[int, ...], processor: FamilyProcessor) -> bool:
    """Remembered, for the ends of prompts are much the same."""
    return processor.decode(ids).rstrip().endswith("<think>")


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
        self.job.judge_calls += scores.judge_calls
        self.job.reward_problem = self.job.reward_problem or next(iter(scores.messages.values()), "")
        for group, (sample, values) in enumerate(zip(samples, scores.task_scores, strict=True)):
            for repeat, value in enumerate(values):
                self.job.scores[sample.sample_id, repeat] = Score(
                    value, scores.breakdown_of(group, repeat), scores.is_unread(group, repeat)
                )


def rescore(job: Job, samples: dict[str, Sample], records: dict[str, list[Record]]) -> None:
    """Scores of stored answers, which need no model. samples: by key, with answers in the model's space."""
    scored = _Scored(job)
    for key, of_key in records.items():
        if not of_key[0].is_failed:
            scored.add(samples[key], [record.completion for record in of_key])
    scored.finish()
