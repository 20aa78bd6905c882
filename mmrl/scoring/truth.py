"""Yes or no, read from a text. Pure."""

from __future__ import annotations

import re

_VALUES = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
_SAID = re.compile(r"(?:.{0,200}\banswer(?:\s+is)?\s*:?\s*)?(yes|no|true|false)\b(?=\s*(?:[.,;:!]|$))(.*)", re.DOTALL)
_ANY = re.compile(r"\b(?:yes|no|true|false)\b")


def parse_truth(text: str) -> bool | None:
    """Whether the text says yes or no; None for both, or neither.

    Alone (`yes`, `true`, `1`), first with a comma or stop after it, or announced.

    >>> [parse_truth(t) for t in ("Yes, it is.", "The answer is false", "no dogs", "yes or no", "yes, or no")]
    [True, False, None, None, None]
    """
    clean = re.sub(r"[*_`$\"']", "", text).strip().casefold()
    alone = _VALUES.get(clean.strip(" .!"))
    if alone is not None:
        return alone
    match = _SAID.match(clean)
    if match is None or any(_VALUES[word] != _VALUES[match[1]] for word in _same_sentence(match[2])):
        return None
    return _VALUES[match[1]]


def _same_sentence(rest: str) -> list[str]:
    """The yes and no in what goes on after the answer, up to the end of the sentence."""
    return _ANY.findall(re.split(r"[.!\n]", rest.lstrip(" .,;:!"), maxsplit=1)[0])
