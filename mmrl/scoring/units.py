"""Units of measurement: `kN*m`, `N/mm^2`, as a factor to SI and the powers of the base units. Pure.

>>> unit_of("kN m") == unit_of("1000 N*m"), unit_of("kN*m").factor, unit_of("N/mm^2") == unit_of("MPa")
(False, Fraction(1000, 1), True)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

_BASE = ("m", "kg", "s", "A", "K", "mol", "rad")
_PREFIXES = {"G": 9, "M": 6, "k": 3, "c": -2, "m": -3, "µ": -6, "u": -6, "n": -9}
_PREFIXED: dict[str, dict[str, int]] = {
    **{"m": {"m": 1}, "s": {"s": 1}, "A": {"A": 1}, "K": {"K": 1}, "mol": {"mol": 1}, "Hz": {"s": -1}},
    **{"N": {"kg": 1, "m": 1, "s": -2}, "Pa": {"kg": 1, "m": -1, "s": -2}, "J": {"kg": 1, "m": 2, "s": -2}},
    **{"W": {"kg": 1, "m": 2, "s": -3}, "V": {"kg": 1, "m": 2, "s": -3, "A": -1}, "C": {"A": 1, "s": 1}},
    **{
        "Nm": {"kg": 1, "m": 2, "s": -2},
        "Ω": {"kg": 1, "m": 2, "s": -3, "A": -2},
        "ohm": {"kg": 1, "m": 2, "s": -3, "A": -2},
        "rad": {"rad": 1},
    },
}
_PLAIN: dict[str, tuple[Fraction, dict[str, int]]] = {
    "min": (Fraction(60), {"s": 1}),
    "h": (Fraction(3600), {"s": 1}),
    "t": (Fraction(1000), {"kg": 1}),
    "L": (Fraction(1, 1000), {"m": 3}),
    "%": (Fraction(1, 100), {}),
}
_PART = re.compile(r"\s*([*/·⋅]?)\s*([A-Za-zµΩ%]+)(?:(?:\^|\*\*)?\{?(-?[1-9])\}?)?")


@dataclass(frozen=True, slots=True)
class Unit:
    """A quantity of 1 in this unit is `factor` times the product of the base units to their powers."""

    factor: Fraction
    powers: tuple[int, ...]


def unit_of(text: str) -> Unit | None:
    """The unit that the whole text is, powers from -9 to 9; None where it is none. `/` holds for the next unit."""
    factor, powers, at = Fraction(1), [0] * len(_BASE), 0
    text = text.strip().replace("μ", "µ").replace("²", "^2").replace("³", "^3")
    text = text.replace(r"\cdot", "*")
    while at < len(text):
        part = _PART.match(text, at)
        known = _named(part[2]) if part else None
        if part is None or known is None or (at == 0 and part[1]):
            return None
        power = int(part[3] or 1) * (-1 if part[1] == "/" else 1)
        factor *= known[0] ** power
        powers = [p + power * known[1].get(base, 0) for p, base in zip(powers, _BASE, strict=True)]
        at = part.end()
    return Unit(factor, tuple(powers)) if text else None


def _named(name: str) -> tuple[Fraction, dict[str, int]] | None:
    if name in _PREFIXED:
        return Fraction(1), _PREFIXED[name]
    if name in _PLAIN:
        return _PLAIN[name]
    if name.endswith("g") and (name == "g" or name[:-1] in _PREFIXES):  # the base unit has a prefix itself
        return Fraction(10) ** ((_PREFIXES[name[:-1]] if name != "g" else 0) - 3), {"kg": 1}
    if name[0] in _PREFIXES and name[1:] in _PREFIXED:
        return Fraction(10) ** _PREFIXES[name[0]], _PREFIXED[name[1:]]
    return None
