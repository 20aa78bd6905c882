"""Planned rides on a transit map: what a plan says, whether it gets there, and how much of it is right. Pure.

A plan is legs separated by `--`, each with the lines `Route Name:`, `Departure Stop:` and `Arrival Stop:`.

>>> legs = [Leg("1", "a", "b"), Leg("2", "b", "c")]
>>> ride = Ride("A", "C", transfers=1, lines={"1": ("A", "B"), "2": ("B", "C")})
>>> is_correct(legs, ride), detail(legs, ride), detail(legs, ride, official=True)
(True, 9.0, 4.0)
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_FIELDS = re.compile(r"^[\s*#-]*(route name|departure stop|arrival stop)\s*:\s*(.*?)\s*$", re.IGNORECASE | re.MULTILINE)
_MOST_LEGS = 100


@dataclass(frozen=True, slots=True)
class Leg:
    """One ride without a change, in normalised names."""

    line: str
    departure: str
    arrival: str


@dataclass(frozen=True, slots=True)
class Ride:
    """What is asked: from where to where, the fewest transfers, and the stops of every line of the map."""

    start: str
    end: str
    transfers: int
    lines: Mapping[str, Sequence[str]]

    def stops(self, line: str) -> frozenset[str]:
        """The stops of a line in normalised names; none of an unknown one."""
        known = {plain(name): stops for name, stops in self.lines.items()}
        return frozenset(map(plain, known.get(line, ())))


def plain(name: str) -> str:
    """A name without case, outer stars and superfluous blanks; `Line 2` and `2` stay two names."""
    return " ".join(name.casefold().strip(" *`.").split())


def read_plan(text: str) -> tuple[Leg, ...] | None:
    """The legs of a plan; None where a leg lacks a field or has one twice, or there are more than 100 legs."""
    parts = [part for part in re.split(r"-{2,}", text) if part.strip()]
    legs = []
    for part in parts[: _MOST_LEGS + 1]:
        found = _FIELDS.findall(part)
        fields = {key.casefold(): plain(value) for key, value in found}
        if len(found) != 3 or len(fields) != 3 or not all(fields.values()):
            return None
        legs.append(Leg(fields["route name"], fields["departure stop"], fields["arrival stop"]))
    return tuple(legs) if 0 < len(legs) <= _MOST_LEGS else None


def _has_ends(legs: Sequence[Leg], ride: Ride) -> bool:
    return legs[0].departure == plain(ride.start) and legs[-1].arrival == plain(ride.end)


def _meets_next(legs: Sequence[Leg], index: int) -> bool:
    return index + 1 == len(legs) or legs[index].arrival == legs[index + 1].departure


def is_correct(legs: Sequence[Leg], ride: Ride) -> bool:
    """Whether the plan leads from start to end over stops of existing lines, leg after leg; detours are allowed."""
    rides = all({leg.departure, leg.arrival} <= ride.stops(leg.line) for leg in legs)
    return _has_ends(legs, ride) and rides and all(_meets_next(legs, i) for i in range(len(legs)))


def detail(legs: Sequence[Leg], ride: Ride, *, official: bool = False) -> float:
    """RewardMap's planning detail, at most 10: 0 unless both ends are right, else 2 and for leg i from 1:

    -5 if i > transfers + 1; +4 (no transfer) if the line holds both asked stations, +3 (transfers) if it exists; +1 if
    both stops are on the line, it meets the next leg and i <= transfers.
    official: -5 from i > transfers on, as released, so that the last leg of every right plan costs 5.
    """
    if not _has_ends(legs, ride):
        return 0.0
    allowed = ride.transfers + (0 if official else 1)
    value = 2.0
    for number, leg in enumerate(legs, start=1):
        stops = ride.stops(leg.line)
        value -= 5.0 if number > allowed else 0.0
        if ride.transfers == 0:
            value += 4.0 if {plain(ride.start), plain(ride.end)} <= stops else 0.0
        else:
            value += 3.0 if stops else 0.0
        on_line = {leg.departure, leg.arrival} <= stops
        value += 1.0 if on_line and number <= ride.transfers and _meets_next(legs, number - 1) else 0.0
    return min(10.0, value)
