"""Scoring in worker processes, with a time limit that costs only the completion that exceeds it.

Workers receive a reward's spelling and resolve it themselves. Many completions travel in one message; when a message
exceeds a limit, or its worker dies, the worker is killed and replaced and the completions are scored one by one, so
that the offender alone stays unscored. Time limits are the parent's clock, not signals: they hold beside threads.
Memory is limited by the kernel, in each worker.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import resource
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from numbers import Real
from pathlib import Path
from typing import Any

from mmrl.data.sample import Sample
from mmrl.errors import JudgeError, RewardError
from mmrl.scoring.columns import Column, is_list, read_column
from mmrl.scoring.judge.calls import NONE, JudgeCalls, judging
from mmrl.scoring.reading import reading
from mmrl.scoring.reward import Reward, resolve_reward

Group = tuple[Sample, tuple[str, ...]]
NAN = float("nan")
_SECOND_TRIES = 3
_LOOK_S = 1.0
_GB = 1_000_000_000
_OUT_OF_MEMORY = 86  # exit code of a worker in which a reward got no memory


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one completion under one reward.

    value: the reward; NaN when unscored. extra, columns: the other numbers of a reward that returns a dict, and its
        lists (mmrl.scoring.columns).
    event: why it is unscored: `bad_answer`, `raised`, `bad_result`, `not_finite`, `out_of_bounds`, `judge_failed`,
        `timeout`, `memory` or `died`; else None.
    seconds: what the completion cost: of its own call, or its share of the call it was scored in.
    is_unread: the completion scored nothing, and held nothing that the reward could read (mmrl.scoring.reading).
    calls: of judges; those of a call for several completions stand at the first of them.
    """

    value: float
    extra: Mapping[str, float] = field(default_factory=dict)
    columns: Mapping[str, Column] = field(default_factory=dict)
    event: str | None = None
    message: str = ""
    seconds: float = 0.0
    is_unread: bool = False
    calls: JudgeCalls = NONE


@dataclass(frozen=True, slots=True)
class RewardCall:
    """One message to a worker: a reward by its spelling, its options, and what to score."""

    spelling: str
    relative_to: Path | None
    options: Mapping[str, Any]
    groups: tuple[Group, ...]

    @property
    def reward(self) -> Reward:
        return resolve_reward(self.spelling, self.relative_to)

    @property
    def size(self) -> int:
        """Number of completions, and of outcomes."""
        return sum(len(completions) for _, completions in self.groups)

    def split(self) -> list[RewardCall]:
        """The smallest calls that score the same: single completions, single groups, or (batch form) itself."""
        if self.reward.form == "batch":
            return [self]
        single = self.reward.form == "one"
        parts = [(s, (c,)) for s, cs in self.groups for c in cs] if single else self.groups
        return [RewardCall(self.spelling, self.relative_to, self.options, (part,)) for part in parts]


def run_call(call: RewardCall) -> list[Outcome]:
    """Score everything in a call, in this process; outcomes in the order of groups and completions."""
    reward, options = call.reward, call.options
    if reward.form == "batch":
        samples = [sample for sample, completions in call.groups for _ in completions]
        completions = [c for _, cs in call.groups for c in cs]
        return _guarded(reward, lambda: reward.function(completions, samples, **options), completions)
    outcomes: list[Outcome] = []
    for sample, completions in call.groups:
        if reward.form == "group":
            outcomes += _group(reward, sample, completions, options)
        else:
            outcomes += [_one(reward, sample, c, options) for c in completions]
    return outcomes


def _group(reward: Reward, sample: Sample, completions: tuple[str, ...], options: Mapping[str, Any]) -> list[Outcome]:
    return _guarded(reward, lambda: reward.function(list(completions), sample, **options), completions)


def _one(reward: Reward, sample: Sample, completion: str, options: Mapping[str, Any]) -> Outcome:
    return _guarded(reward, lambda: [reward.function(completion, sample, **options)], [completion])[0]


def _guarded(reward: Reward, call: Callable[[], Sequence[Any]], completions: Sequence[str]) -> list[Outcome]:
    """The outcomes of one call of a reward, with their share of its time, whether it could read them, and its calls of
    judges.
    """
    start = time.perf_counter()
    with reading() as log, judging() as judged:
        outcomes = _outcomes(reward, call, count=len(completions))
    share_s = (time.perf_counter() - start) / max(len(completions), 1)
    found = [
        replace(outcome, seconds=share_s, is_unread=outcome.value <= 0 and log.is_unread(completion))
        for outcome, completion in zip(outcomes, completions, strict=True)
    ]
    return [replace(found[0], calls=judged.calls), *found[1:]] if found else []


def _outcomes(reward: Reward, call: Callable[[], Sequence[Any]], *, count: int) -> list[Outcome]:
    """Whatever a reward raises is kept as an event and counted, never a score."""
    try:
        results = list(call())
    except RewardError as error:
        return [Outcome(NAN, event="bad_answer", message=str(error))] * count
    except MemoryError:
        return [Outcome(NAN, event="memory", message="there was no memory left")] * count
    except Exception as error:  # noqa: BLE001 - one of the three places: a plug-in may raise anything
        message = f"{type(error).__name__}: {error}{_line_of(error, reward)}"
        return [Outcome(NAN, event="raised", message=message)] * count
    if len(results) != count:
        message = f"{len(results)} results for {count} completions"
        return [Outcome(NAN, event="bad_result", message=message)] * count
    return [_outcome(result, reward) for result in results]


def _line_of(error: Exception, reward: Reward) -> str:
    """Where in the reward's own file it went wrong; empty where the file does not appear among the calls."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(reward.file)]
    return f" ({reward.file.name}:{frames[-1].lineno})" if frames else ""


def _outcome(result: Any, reward: Reward) -> Outcome:
    if isinstance(result, RewardError | JudgeError):
        event = "bad_answer" if isinstance(result, RewardError) else "judge_failed"
        return Outcome(NAN, event=event, message=str(result))
    entries = result if isinstance(result, Mapping) else {"reward": result}
    numbers = {key: entry for key, entry in entries.items() if key == "reward" or not is_list(entry)}
    bad = [key for key, number in numbers.items() if not isinstance(number, Real)]
    if "reward" not in numbers or bad:
        message = f"{result!r:.200} is neither a number nor a dict of numbers with the key 'reward'"
        return Outcome(NAN, event="bad_result", message=message)
    columns: dict[str, Column] = {}
    for key in entries.keys() - numbers.keys():
        try:
            columns[key] = read_column(entries[key])
        except ValueError as error:
            return Outcome(NAN, event="bad_result", message=f"the value of {key!r}, {entries[key]!r:.200}, {error}")
    try:
        values = {key: float(number) for key, number in numbers.items()}
    except OverflowError:  # an integer beyond the largest float
        return Outcome(NAN, event="not_finite", message="returned a number too large for a float")
    value = values.pop("reward")
    if not math.isfinite(value):
        return Outcome(NAN, event="not_finite", message=f"returned {value}")
    if not reward.is_within_bounds(value):
        return Outcome(NAN, event="out_of_bounds", message=f"returned {value:g}, outside BOUNDS = {reward.bounds}")
    return Outcome(value, values, columns)


@dataclass(frozen=True, slots=True, eq=False)
class SentCall:
    """A call that was sent. future: the worker's answer; None: `collect` makes the call itself."""

    call: RewardCall
    future: Future[list[Outcome]] | None


class RewardPool:
    """Runs reward calls in `workers` processes; 0 runs them in this process, without a time limit.

    timeout_s: limit of one completion; a call of a batch or group reward may take that times its completions.
    memory_gb: limit of the memory that a worker has allocated, in 10^9 bytes; None: none. Not with 0 workers.
    spellings: rewards a new worker imports before its first call, so that imports are not on the clock.
    Used by one thread at a time. A context manager; `close` kills the workers. They also end by themselves when this
    process dies.
    """

    def __init__(
        self,
        workers: int,
        *,
        timeout_s: float,
        memory_gb: float | None = None,
        spellings: Sequence[str] = (),
        relative_to: Path | None = None,
    ) -> None:
        self.workers = workers
        self.timeout_s = timeout_s
        self.memory_gb = memory_gb
        self._worker = (memory_gb, tuple(spellings), relative_to)
        self._processes: Any = None
        self._unanswered: set[Future[list[Outcome]]] = set()

    def __enter__(self) -> RewardPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill the workers. A later call starts new ones."""
        if self._processes is not None:
            self._processes.stop()
            self._processes.join()
            self._processes = None
        for future in tuple(self._unanswered):
            future.set_exception(BrokenProcessPool("closed"))

    def run(self, calls: Sequence[RewardCall]) -> list[list[Outcome]]:
        """The outcomes of every call, in order. Never raises for what a reward does."""
        return [self.collect(sent) for sent in [self.send(call) for call in calls]]

    def send(self, call: RewardCall) -> SentCall:
        """Have a call made, without waiting for it: workers begin at once, without workers `collect` makes it."""
        return SentCall(call, self._schedule(call) if self.workers else None)

    def collect(self, sent: SentCall) -> list[Outcome]:
        """The outcomes of a call, waited for. Never raises for what a reward does."""
        call, future = sent.call, sent.future
        if future is None:
            return run_call(call)
        # exception() hands over even a SystemExit that a reward raised; result() would raise it here.
        error = self._ended(future).exception()
        # A worker that ends between two calls breaks the whole pool, and calls that only waited fail with it.
        for _ in range(_SECOND_TRIES):
            if not isinstance(error, BrokenProcessPool):
                break
            future = self._ended(self._schedule(call))
            error = future.exception()
        parts = call.split()
        if error is not None and len(parts) > 1:
            return [outcome for part in self.run(parts) for outcome in part]
        if _is_lack_of_memory(error):  # of what earlier calls had left, perhaps
            future = self._ended(self._schedule(call))
            error = future.exception()
        if error is None:
            return future.result()
        event, message = _failure(error, memory_gb=self.memory_gb, limit_s=self._limit_s(call))
        lost_s = self.timeout_s if event == "timeout" else 0.0
        calls = JudgeCalls(failed=1) if call.reward.asks_a_judge else NONE
        return [Outcome(NAN, event=event, message=message, seconds=lost_s, calls=calls)] * call.size

    def _schedule(self, call: RewardCall) -> Future[list[Outcome]]:
        future = self._ready().schedule(_run_in_worker, args=(call,), timeout=self._limit_s(call))
        self._unanswered.add(future)
        future.add_done_callback(self._unanswered.discard)
        return future

    def _limit_s(self, call: RewardCall) -> float:
        return self.timeout_s * (1 if call.reward.form == "one" else call.size)

    def _ended(self, future: Future[list[Outcome]]) -> Future[list[Outcome]]:
        """The future, once it is done. A pool that broke forgets calls it had not yet passed on: they end with it."""
        while not wait([future], timeout=_LOOK_S).done:
            if not self._processes.active:
                self.close()
        return future

    def _ready(self) -> Any:
        if self._processes is not None and not self._processes.active:
            self.close()  # the pool breaks when a worker is killed from outside between two calls
        if self._processes is None:
            self._processes = _start(self.workers, self._worker)
        return self._processes


def _start(workers: int, worker: tuple[float | None, tuple[str, ...], Path | None]) -> Any:
    from pebble import ProcessPool

    # Workers descend from a small clean server process: this one has threads (torch, DeepSpeed) that a fork would
    # freeze in the middle of whatever they hold.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return ProcessPool(max_workers=workers, initializer=_prepare_worker, initargs=worker, context=context)


def _prepare_worker(memory_gb: float | None, spellings: tuple[str, ...], relative_to: Path | None) -> None:
    threading.Thread(target=_die_with_parent, daemon=True).start()
    if memory_gb is not None:
        _limit_memory(int(memory_gb * _GB))
    for spelling in spellings:
        resolve_reward(spelling, relative_to)


def _limit_memory(most: int) -> None:
    """Of what is writable and private: neither addresses, which CUDA reserves by the terabyte, nor mapped files."""
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def _run_in_worker(call: RewardCall) -> list[Outcome]:
    """Score a call, or end this process where it ran out of memory: what fills it may come from earlier calls."""
    outcomes = run_call(call)
    if any(outcome.event == "memory" for outcome in outcomes):
        os._exit(_OUT_OF_MEMORY)
    return outcomes


def _die_with_parent() -> None:
    """End this process when the one that asked for it is gone, even while a reward hangs."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _is_lack_of_memory(error: BaseException | None) -> bool:
    from pebble import ProcessExpired

    return isinstance(error, ProcessExpired) and error.exitcode == _OUT_OF_MEMORY


def _failure(error: BaseException, *, memory_gb: float | None, limit_s: float) -> tuple[str, str]:
    from pebble import ProcessExpired

    if isinstance(error, TimeoutError):
        return "timeout", f"took longer than {limit_s:g} s (rewards.timeout_s)"
    if isinstance(error, ProcessExpired):
        if _is_lack_of_memory(error):
            most = "there is" if memory_gb is None else f"rewards.worker_memory_gb = {memory_gb:g} allows"
            return "memory", f"needed more memory than {most}"
        return "died", f"its process ended with code {error.exitcode}"
    return "died", f"{type(error).__name__}: {error}"
