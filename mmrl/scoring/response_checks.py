"""Checks of written constraints by rule, under MM-IFEval's names and positional arguments. Pure.

Paragraphs are parted by an empty line; sentences end with . ! or ? before a blank (MM-IFEval splits them with a trained
model); words are what blanks part, signs other than `.` and `-` left out.

>>> meets("check_whether_response_word_count_in_range", "One well-known word.", 1, 3)
True
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

Check = Callable[..., bool]

_SENTENCE = re.compile(r".+?(?:[.!?]+[\"')\]]*(?=\s)|\Z)", re.DOTALL)
_EMPTY_LINE = re.compile(r"\n\s*\n")
_PER_CENT = re.compile(r"(\d+(?:\.(\d+))?)\s*%")
_NUMBER = re.compile(r"(?<![\w.])[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.(\d+))?(?:[eE][+-]?\d+)?%?(?![\w])")
_ARABIC = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?:[eE][+-]?\d+)?%?(?!\w|\.\w)")


def meets(check: str, response: str, *arguments: Any) -> bool:
    """Whether a response meets a constraint; an empty response meets none.

    Raises KeyError for an unknown check, TypeError or ValueError for arguments that do not fit it.
    """
    return bool(response.strip()) and CHECKS[check](response, *arguments)


def _lines_stripped(text: str) -> str:
    return "\n".join(line.strip() for line in text.splitlines()).strip()


def _paragraphs(text: str) -> list[str]:
    return [part.strip() for part in _EMPTY_LINE.split(_lines_stripped(text)) if part.strip()]


def _sentences(text: str) -> list[str]:
    return [part.strip() for part in _SENTENCE.findall(text) if part.strip()]


def _words(text: str) -> int:
    return len(re.sub(r"[^\w\s.-]", "", text).split())


def _occurrences(text: str, keyword: str) -> int:
    return len(re.findall(rf"\b{re.escape(keyword.lower())}\b", text.lower()))


def _within(count: int, least: int, most: int) -> bool:
    return least <= count <= most


def _sentences_of_each(text: str, ranges: Sequence[Sequence[int]]) -> bool:
    paragraphs = _paragraphs(text)
    if len(paragraphs) != len(ranges):
        return False
    return all(_within(len(_sentences(part)), *of) for part, of in zip(paragraphs, ranges, strict=True))


def _per_cents_have(text: str, digits: int) -> bool:
    return all(len(match[2] or "") == digits for match in _PER_CENT.finditer(text))


def _numbers_have(text: str, digits: int) -> bool:
    numbers = (match for match in _NUMBER.finditer(text) if any(map(str.isdigit, match[0])))
    return all(len(match[1] or "") == digits for match in numbers)


CHECKS: dict[str, Check] = {
    "check_whether_response_paragraph_number_in_range": lambda text, a, b: _within(len(_paragraphs(text)), a, b),
    "check_whether_response_sentence_number_in_range": lambda text, a, b: _within(len(_sentences(text)), a, b),
    "check_whether_each_paragraph_sentence_number_in_range": lambda text, a, b: all(
        _within(len(_sentences(part)), a, b) for part in _paragraphs(text)
    ),
    "check_whether_each_paragraph_sentence_number_in_range_list": _sentences_of_each,
    "check_whether_response_word_count_in_range": lambda text, a, b: _within(_words(text), a, b),
    "check_whether_each_paragraph_word_count_in_range": lambda text, a, b: all(
        _within(_words(part), a, b) for part in _paragraphs(text)
    ),
    "check_whether_whole_response_not_contain_certain_substrings": lambda text, parts: (
        not any(part in text for part in parts)
    ),
    "check_whether_whole_response_not_contain_certain_substring": lambda text, part: part not in text,
    "check_whether_each_sentence_begin_with_certain_substring": lambda text, start: all(
        part.startswith(start) for part in _sentences(text)
    ),
    "check_whether_each_paragraph_begin_with_certain_substring": lambda text, start: all(
        part.startswith(start) for part in _paragraphs(text)
    ),
    "check_whether_each_paragraph_end_with_certain_substring": lambda text, end: all(
        part.endswith(end) for part in _paragraphs(text)
    ),
    "check_whether_each_sentence_end_with_certain_substring": lambda text, end: all(
        part.endswith(end) for part in _sentences(text)
    ),
    "check_whether_whole_response_begin_with_certain_substring": lambda text, start: text.strip().startswith(start),
    "check_whether_whole_response_end_with_certain_substring": lambda text, end: text.strip().endswith(end),
    "check_whether_each_keyword_in_list_metioned_in_range": lambda text, keywords, a, b: all(
        _within(_occurrences(text, keyword), a, b) for keyword in keywords
    ),
    "check_whether_total_keyword_in_list_metioned_in_range": lambda text, keywords, a, b: _within(
        sum(_occurrences(text, keyword) for keyword in keywords), a, b
    ),
    "check_percentage_number_precision_in_response": _per_cents_have,
    "check_number_precision_in_response": _numbers_have,
    "check_whether_has_no_arabic_number_in_response": lambda text: _ARABIC.search(text) is None,
}
