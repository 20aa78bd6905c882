"""Thinking tags inside code (Think-Anywhere): where they stand, and the code without them. Pure.

>>> strip_thoughts("a = 1<thinkanywhere>why 1?</thinkanywhere> + 2")
'a = 1 + 2'
"""

from __future__ import annotations

import re
from collections.abc import Iterator

OPEN, CLOSE = "<thinkanywhere>", "</thinkanywhere>"
_TAG = re.compile(rf"{OPEN}|{CLOSE}")


def thoughts(code: str) -> list[tuple[int, int]] | None:
    """Start and end of every thought, tags included; None where tags are nested, unopened or unclosed."""
    spans: list[tuple[int, int]] = []
    start: int | None = None
    for tag in _TAG.finditer(code):
        if (tag[0] == OPEN) != (start is None):
            return None
        if start is None:
            start = tag.start()
        else:
            spans.append((start, tag.end()))
            start = None
    return spans if start is None else None


def strip_thoughts(code: str) -> str | None:
    """The code without its thoughts; None where the tags are not well formed."""
    spans = thoughts(code)
    if spans is None:
        return None
    kept, at = [], 0
    for start, end in spans:
        kept.append(code[at:start])
        at = end
    return "".join([*kept, code[at:]])


def inside_a_line(code: str) -> Iterator[bool]:
    """Of each thought that is not empty: whether code stands before and after it on its line, not as a comment."""
    for start, end in thoughts(code) or ():
        if code[start + len(OPEN) : end - len(CLOSE)].strip():
            before = code[code.rfind("\n", 0, start) + 1 : start]
            line_end = code.find("\n", end)
            after = code[end : line_end if line_end >= 0 else len(code)]
            yield bool(before.strip()) and bool(after.strip()) and "#" not in before
