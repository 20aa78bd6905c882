"""Scoring while completions still come: groups are added as they finish, scores are collected at the end.

What is scored together is decided by the prompts alone, never by the order in which their groups finish, so the scores
are those of all groups added at once. A part of the form `one` or `group` is sent to the workers when a group is
added. A part of the form `batch`, which gains from many completions (requests to a judge that run side by side, an
encoder's batch), gets blocks: consecutive prompts of one task that have at least `rewards.batch_size` completions
together, what is left at the end being the last block. A block is sent when its last group was added.

With 8 completions a prompt and a batch_size of 64, 20 prompts of one task are blocks of 8, 8 and 4 prompts.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mmrl.config.schema import RewardsSection
from mmrl.data.sample import Sample
from mmrl.errors import RewardError, one_line
from mmrl.scoring.columns import Column
from mmrl.scoring.judge.calls import NONE
from mmrl.scoring.parts import Part, TaskReward
from mmrl.scoring.pool import Outcome, RewardCall, RewardPool, SentCall
from mmrl.scoring.reward import Reward
from mmrl.scoring.scores import Scores

# Completions per message to a worker: enough to make the message's cost small, few enough to redo after a time-out.
CHUNK = 32


@dataclass(frozen=True, slots=True)
class Piece:
    """Completions of one sample, and the rows (of N) they are."""

    rows: range
    sample: Sample
    completions: tuple[str, ...]

    def split(self, size: int) -> Iterator[Piece]:
        for start in range(0, len(self.rows), size):
            part = slice(start, start + size)
            yield Piece(self.rows[part], self.sample, self.completions[part])


class Scoring:
    """Scores of the groups of a batch, some of which are still to come. `mmrl.scoring.router.Router.start` makes it.

    tasks: the reward of every task that occurs. expected: the sample of each group, with how many completions it will
    have. names: of the K parts. pool: its workers score what was added while the caller goes on; without workers
    `finish` scores. section: `batch_size` and `on_error`.
    """

    def __init__(
        self,
        tasks: Mapping[str, TaskReward],
        expected: Sequence[tuple[Sample, int]],
        *,
        names: tuple[str, ...],
        pool: RewardPool,
        section: RewardsSection,
    ) -> None:
        self._tasks, self._names, self._pool = tasks, names, pool
        self._stops = section.on_error == "error"
        self._samples = [sample for sample, _ in expected]
        ends = np.cumsum([size for _, size in expected]).tolist()
        self._rows = [range(end - size, end) for end, (_, size) in zip(ends, expected, strict=True)]
        self._missing = {number for number, rows in enumerate(self._rows) if rows}
        self._blocks = _blocks(expected, least=section.batch_size)
        self._waiting: dict[int, Piece] = {}
        self._sent: list[tuple[Part, list[Piece], SentCall]] = []

    def add(self, groups: Mapping[int, Sequence[str]]) -> None:
        """Have the completions of groups scored, by the number of the group. Waits for no reward.

        Raises ValueError for a group that was added before, or that has not as many completions as expected.
        """
        pieces: dict[str, list[Piece]] = defaultdict(list)
        blocks: dict[str, list[list[Piece]]] = defaultdict(list)
        for number in sorted(number for number in groups if self._rows[number]):
            piece = self._arrived(number, groups[number])
            pieces[piece.sample.task].append(piece)
            blocks[piece.sample.task] += self._completed_block(number, piece)
        for task, of_task in pieces.items():
            for part in self._tasks[task].parts:
                self._send(part, blocks[task] if part.reward.form == "batch" else _packed(of_task, part.reward))

    def finish(self) -> Scores:
        """The scores, once all groups were added (else ValueError). Waits for what is still being scored.

        What a reward fails to score is NaN and an event, never 0; with `on_error: error` the first one, in the order of
        rows, is a RewardError.
        """
        if self._missing:
            raise ValueError(f"{len(self._missing)} groups were not added, the first is number {min(self._missing)}")
        found = self._collected()
        table = _Table(self._names, self._samples, self._rows)
        for part, row in self._places():
            outcome = found[row, part.column]
            table.put(row, part, outcome)
            if outcome.event and self._stops:
                raise RewardError(table.messages[f"{part.name}/{outcome.event}"])
        return table.finish(tuple(self._tasks[sample.task] for sample in self._samples))

    def _arrived(self, number: int, completions: Sequence[str]) -> Piece:
        piece = Piece(self._rows[number], self._samples[number], tuple(completions))
        if len(piece.completions) != len(piece.rows):
            raise ValueError(f"group {number} has {len(piece.completions)} completions, not {len(piece.rows)}")
        if number not in self._missing:
            raise ValueError(f"group {number} was added twice")
        self._missing.remove(number)
        return piece

    def _completed_block(self, number: int, piece: Piece) -> Iterator[list[Piece]]:
        """The block of a group that has come, if it was the last one missing."""
        self._waiting[number] = piece
        block = self._blocks[number]
        if self._missing.isdisjoint(block):
            yield [self._waiting.pop(member) for member in block]

    def _send(self, part: Part, packed: Iterable[list[Piece]]) -> None:
        self._sent += [(part, pieces, self._pool.send(_call(part, pieces))) for pieces in packed]

    def _collected(self) -> dict[tuple[int, int], Outcome]:
        """Every outcome, by row and column. Without workers rewards run here, in the order of rows."""
        found = {}
        for part, pieces, sent in sorted(self._sent, key=lambda call: call[1][0].rows.start):
            rows = (row for piece in pieces for row in piece.rows)
            for row, outcome in zip(rows, self._pool.collect(sent), strict=True):
                found[row, part.column] = outcome
        return found

    def _places(self) -> Iterator[tuple[Part, int]]:
        """Part and row of every outcome: task by task, part by part, in the order of rows."""
        rows: dict[str, list[int]] = defaultdict(list)
        for sample, of_group in zip(self._samples, self._rows, strict=True):
            rows[sample.task] += of_group
        for task, of_task in rows.items():
            for part in self._tasks[task].parts:
                yield from ((part, row) for row in of_task)


def _blocks(expected: Sequence[tuple[Sample, int]], *, least: int) -> dict[int, tuple[int, ...]]:
    """For each group that has completions the groups of its block, itself among them."""
    open_blocks: dict[str, list[int]] = defaultdict(list)
    sizes: Counter[str] = Counter()
    closed: list[list[int]] = []
    for number, (sample, size) in enumerate(expected):
        if size == 0:
            continue
        open_blocks[sample.task].append(number)
        sizes[sample.task] += size
        if sizes[sample.task] >= least:
            closed.append(open_blocks.pop(sample.task))
            del sizes[sample.task]
    return {number: tuple(block) for block in (*closed, *open_blocks.values()) for number in block}


def _packed(pieces: Sequence[Piece], reward: Reward) -> Iterator[list[Piece]]:
    """The pieces of each call: one whole group (form `group`), up to CHUNK completions (form `one`)."""
    if reward.form == "group":
        yield from ([piece] for piece in pieces)
        return
    chunk: list[Piece] = []
    room = CHUNK
    for piece in (small for whole in pieces for small in whole.split(CHUNK)):
        if len(piece.rows) > room:
            yield chunk
            chunk, room = [], CHUNK
        chunk.append(piece)
        room -= len(piece.rows)
    yield chunk


def _call(part: Part, pieces: Sequence[Piece]) -> RewardCall:
    groups = tuple((_lean(piece.sample, part), piece.completions) for piece in pieces)
    return RewardCall(part.spec.reward, part.relative_to, part.spec.options, groups)


def _lean(sample: Sample, part: Part) -> Sample:
    """The sample as rewards see it: without media unless they are asked for, since pixels would travel to workers."""
    media = sample.media if part.reward.sees_media(part.spec.options) else ()
    return dataclasses.replace(sample, media=media, columns=dict(sample.columns))


class _Table:
    """Fills the arrays of Scores row by row."""

    def __init__(self, names: tuple[str, ...], samples: Sequence[Sample], rows: Sequence[range]) -> None:
        self.names = names
        self.samples = [sample for sample, of_group in zip(samples, rows, strict=True) for _ in of_group]
        self.group_sizes = tuple(map(len, rows))
        shape = (len(self.samples), len(names))
        self.values_NK, self.weights_NK = np.zeros(shape), np.zeros(shape)
        self.applies_NK, self.is_format_NK = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
        self.seconds_NK = np.zeros(shape)
        self.errors_NK, self.timeouts_NK = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
        self.unread_NK = np.zeros(shape, dtype=bool)
        self.extras: list[dict[str, float]] = [{} for _ in self.samples]
        self.columns: list[dict[str, Column]] = [{} for _ in self.samples]
        self.events: Counter[str] = Counter()
        self.messages: dict[str, str] = {}
        self.problems: list[dict[str, str]] = [{} for _ in self.samples]
        self.judge_calls = NONE

    def put(self, row: int, part: Part, outcome: Outcome) -> None:
        place = row, part.column
        self.values_NK[place], self.weights_NK[place] = outcome.value, part.spec.weight
        self.applies_NK[place], self.is_format_NK[place] = True, part.spec.is_format
        self.seconds_NK[place] = outcome.seconds
        self.judge_calls += outcome.calls
        self.timeouts_NK[place] = outcome.event == "timeout"
        self.errors_NK[place] = outcome.event not in (None, "timeout")
        self.unread_NK[place] = outcome.is_unread
        self.extras[row].update({f"{part.name}.{key}": value for key, value in outcome.extra.items()})
        self.columns[row].update({f"{part.name}.{key}": value for key, value in outcome.columns.items()})
        if outcome.event:
            key = f"{part.name}/{outcome.event}"
            self.events[key] += 1
            sample = self.samples[row]
            problem = one_line(f"{outcome.event}: {outcome.message.removeprefix(f'{sample.where}: ')}")
            self.problems[row][part.name] = problem
            fact = f"task {sample.task!r}, reward {part.name!r}: {problem}"
            self.messages.setdefault(key, one_line(f"{sample.where}: {fact}"))

    def finish(self, rewards_P: tuple[TaskReward, ...]) -> Scores:
        return Scores(
            names=self.names,
            values_NK=self.values_NK,
            applies_NK=self.applies_NK,
            weights_NK=self.weights_NK,
            is_format_NK=self.is_format_NK,
            seconds_NK=self.seconds_NK,
            errors_NK=self.errors_NK,
            timeouts_NK=self.timeouts_NK,
            unread_NK=self.unread_NK,
            group_sizes=self.group_sizes,
            rules_P=tuple(reward.rule for reward in rewards_P),
            extras=tuple(self.extras),
            columns=tuple(self.columns),
            events=dict(self.events),
            messages=self.messages,
            problems=tuple(self.problems),
            judge_calls=self.judge_calls,
        )
