"""Decisions in driving, in words: how fast and which way. Pure.

>>> speed_words("accelerate, left_turn"), path_words("Accelerate, turn left"), sorted(path_words("left or right"))
({'accelerate'}, {'left_turn'}, ['left_turn', 'right_turn'])
"""

from __future__ import annotations

import re

SPEEDS = ("keep", "accelerate", "decelerate", "stop")
PATHS = ("straight", "left_turn", "right_turn")
_SHORT = {"left": "left_turn", "right": "right_turn", "turn_left": "left_turn", "turn_right": "right_turn"}
_WORD = re.compile(r"[a-z_]+")


def speed_words(text: str) -> set[str]:
    """Which of SPEEDS the text says."""
    return _words(text) & set(SPEEDS)


def path_words(text: str) -> set[str]:
    """Which of PATHS the text says; `left` and `turn left` are `left_turn`."""
    return _words(text) & set(PATHS)


def _words(text: str) -> set[str]:
    joined = re.sub(r"\b(turn) (left|right)\b|\b(left|right) (turn)\b", _joined, text.casefold().replace("-", "_"))
    words: list[str] = _WORD.findall(joined)
    return {_SHORT.get(word, word) for word in words}


def _joined(match: re.Match[str]) -> str:
    return "_".join(part for part in match.groups() if part)


def words_f1(said: set[str], answer: set[str]) -> float:
    """F1 of two sets of words; 0 where either is empty.

    >>> words_f1({"keep", "accelerate", "decelerate", "stop"}, {"stop"})
    0.4
    """
    common = len(said & answer)
    return 2 * common / (len(said) + len(answer)) if common else 0.0
