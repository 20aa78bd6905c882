"""Which blocks that were found stand for which blocks that are there, where both may be cut elsewhere. Pure.

Source: OmniDocBench's quick_match. Texts are compared as they are given: make them plain before.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist
from scipy.optimize import linear_sum_assignment

_SURE = 0.25  # edits by the longer text's length below which two blocks are each other's and are not joined to others
_ALIKE = 0.7  # up to which two blocks match
_INSIDE = 0.4  # edits by its length below which a block is in another
_MOST_PAIRS = 20_000  # of blocks without a sure partner, beyond which none are joined: a page has some tens of blocks
_PIECE = 0.6  # the same for a block that may be a piece of another, when neighbours are joined


@dataclass(frozen=True, slots=True)
class Match:
    """Numbers of blocks that are the same text, joined. One side is empty where nothing stands for the other."""

    golds: tuple[int, ...]
    found: tuple[int, ...]


def quick_match(golds: Sequence[str], found: Sequence[str]) -> list[Match]:
    """Every gold block is in one match. No text is empty.

    Neighbours that were found are joined where they are one gold block together; gold blocks are joined that lie in one
    found block. What is left over on both sides is paired by the fewest edits. Found blocks that then have no partner
    are left out as long as a gold block has none; only where all golds are matched are they one match without a gold.

    >>> quick_match(["one", "two"], ["onetwo"]), quick_match(["onetwo"], ["one", "two"])
    ([Match(golds=(0, 1), found=(0,))], [Match(golds=(0,), found=(0, 1))])
    """
    if not golds or not found or len(golds) == len(found) == 1:
        return _without_choice(len(golds), len(found))
    runs = _runs(golds, found)
    costs = cdist(
        golds, [" ".join(found[n] for n in run) for run in runs], scorer=Levenshtein.normalized_distance, dtype=float
    )
    pairs = zip(*linear_sum_assignment(costs), strict=True)
    of_run = {runs[run]: [int(gold)] for gold, run in pairs if costs[gold, run] <= _ALIKE}
    matched = {gold for of in of_run.values() for gold in of}
    loose = [gold for gold in range(len(golds)) if gold not in matched]
    for number, text in enumerate(found):
        inside = [gold for gold in loose if stands_in(golds[gold], text, below=_INSIDE)]
        if inside:
            of_run.setdefault((number,), []).extend(gold for gold in inside if gold not in matched)
            matched.update(inside)
    matches = [Match(tuple(sorted(of)), run) for run, of in of_run.items() if of]
    taken = {number for run in of_run for number in run}
    return [
        *matches,
        *_leftovers(
            golds, found, [g for g in loose if g not in matched], [n for n in range(len(found)) if n not in taken]
        ),
    ]


def _without_choice(num_golds: int, num_found: int) -> list[Match]:
    if num_golds == num_found == 1:
        return [Match((0,), (0,))]
    return [*(Match((n,), ()) for n in range(num_golds)), *(Match((), (n,)) for n in range(num_found))]


def _leftovers(golds: Sequence[str], found: Sequence[str], loose: list[int], free: list[int]) -> Iterator[Match]:
    if free and not loose:
        yield Match((), tuple(free))
    paired: set[int] = set()
    if free and loose:
        edits = cdist([golds[g] for g in loose], [found[n] for n in free], scorer=Levenshtein.distance)
        for row, column in zip(*linear_sum_assignment(edits), strict=True):
            paired.add(loose[row])
            yield Match((loose[row],), (free[column],))
    yield from (Match((gold,), ()) for gold in loose if gold not in paired)


def _runs(golds: Sequence[str], found: Sequence[str]) -> list[tuple[int, ...]]:
    """The found blocks, some joined with those that follow them."""
    costs = cdist(golds, found, scorer=Levenshtein.normalized_distance, dtype=float)
    is_sure = costs < _SURE
    free: list[int] = np.flatnonzero(~is_sure.any(axis=0)).tolist()
    is_free = frozenset(free)
    loose: list[int] = np.flatnonzero(~is_sure.any(axis=1)).tolist()
    if not free or len(free) * len(loose) > _MOST_PAIRS:
        return [(number,) for number in range(len(found))]
    best = []
    for gold in loose:
        runs = [_run_from(start, golds[gold], found, is_free) for start in free]
        of_runs = [Levenshtein.normalized_distance(golds[gold], " ".join(found[n] for n in run)) for run in runs]
        cheapest = int(np.argmin(of_runs))
        best.append((runs[cheapest], of_runs[cheapest]))
    joined = {run[0]: run for run in _disjoint(best)}
    inside = {number for run in joined.values() for number in run[1:]}
    return [joined.get(number, (number,)) for number in range(len(found)) if number not in inside]


def _run_from(start: int, gold: str, found: Sequence[str], free: Container[int]) -> tuple[int, ...]:
    """The found block and those behind it, as long as each brings the whole nearer to the gold block and is in it."""
    run, text = [start], found[start]
    while (following := run[-1] + 1) in free and len(text) <= len(gold):
        longer = f"{text} {found[following]}"
        pieces = [found[number] for number in run]
        if (
            Levenshtein.normalized_distance(gold, longer) > Levenshtein.normalized_distance(gold, text)
            or not all(stands_in(piece, gold, up_to=_PIECE) for piece in pieces)
            or not stands_in(found[following], gold, below=_PIECE)
        ):
            break
        run.append(following)
        text = longer
    return tuple(run)


def _disjoint(runs: Sequence[tuple[tuple[int, ...], float]]) -> list[tuple[int, ...]]:
    """Of runs with their costs some that share no block: of those that overlap, the set with the least mean cost."""
    chosen: list[tuple[int, ...]] = []
    heap: list[tuple[tuple[int, ...], float]] = []
    for run, cost in sorted(runs, key=lambda item: item[0][0]):
        if heap and not any(set(run) & set(other) for other, _ in heap):
            chosen.extend(_cheapest_set(heap))
            heap = []
        heap.append((run, cost))
    return [*chosen, *_cheapest_set(heap)]


def _cheapest_set(runs: Sequence[tuple[tuple[int, ...], float]]) -> list[tuple[int, ...]]:
    least: dict[tuple[int, ...], float] = {}
    for run, cost in runs:
        least[run] = min(cost, least.get(run, math.inf))
    sets: list[dict[tuple[int, ...], float]] = []
    for run, cost in least.items():
        fitting = [of for of in sets if not any(set(run) & set(other) for other in of)]
        for of in fitting:
            of[run] = cost
        if not fitting:
            sets.append({run: cost})
    return list(min(sets, key=lambda of: math.fsum(of.values()) / len(of), default={}))


def stands_in(part: str, whole: str, *, below: float = 0.0, up_to: float = 0.0) -> bool:
    """Whether a piece of `whole`, as long as `part`, has fewer edits than `below` (at most `up_to`) of its length.

    >>> stands_in("two", "one two three", below=0.4), stands_in("xyz", "one two", below=0.4)
    (True, False)
    """
    size = len(part)
    if not 0 < size <= len(whole):
        return False
    most = math.ceil(below * size) - 1 if below else math.floor(up_to * size)
    if part in whole:
        return most >= 0
    place = 0
    while place <= len(whole) - size:
        edits = Levenshtein.distance(whole[place : place + size], part)
        if edits <= most:
            return True
        place += max(1, math.ceil((edits - most) / 2))  # a step of one character changes the edits by two at most
    return False
