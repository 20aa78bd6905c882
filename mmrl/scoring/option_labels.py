"""The options of a multiple choice row by their labels. Pure."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator, Mapping, Sequence
from itertools import count, islice, product
from typing import Any

from mmrl.data.sample import Sample
from mmrl.scoring.gold import bad_column
from mmrl.scoring.literals import is_number

_WRITTEN = re.compile(r"\s*\(?([A-Za-z]{1,2})[).:]\s+(?=\S)")
_LABEL = re.compile(r"([A-Za-z]{1,2})")


def labelled_options(sample: Sample, *, column: str = "options") -> Mapping[str, str]:
    """Texts by label, upper case: a mapping's own labels, else A, B, .., Z, AA, AB, ..; empty where the row has none.

    What a list writes before its texts (`A. red`, `(B) blue`) is taken off where it is those labels, in whatever
    order: it says how the options are called. An entry of a mapping without a text is no option: files with one type
    for all rows fill up with nulls. Raises RewardError for a column that is neither.
    """
    value = sample.columns.get(column)
    if value is None:
        return {}
    given = {label: text for label, text in value.items() if text is not None} if isinstance(value, dict) else value
    entries = given.values() if isinstance(given, dict) else given
    if not isinstance(given, dict | list | tuple) or not all(map(_is_text, entries)):
        raise bad_column(sample, column, wanted="a list of options or a mapping of labels to them, texts or numbers")
    if isinstance(given, dict):
        return {str(label).strip().upper(): str(text) for label, text in given.items()}
    texts, prefixes = [str(text) for text in given], option_prefixes(given)
    written = [match[1].upper() for prefix in prefixes if (match := _LABEL.search(prefix))]
    labels = written or islice(_labels(), len(texts))
    return {label: text[len(prefix) :] for label, text, prefix in zip(labels, texts, prefixes, strict=True)}


def option_prefixes(options: Sequence[Any]) -> list[str]:
    """What a list writes before its texts where it is their labels, each once; else nothing.

    >>> option_prefixes(["B. red", "A. blue"]), option_prefixes(["A. red", "blue"])
    (['B. ', 'A. '], ['', ''])
    """
    texts = [str(option) for option in options]
    written = [match for text in texts if (match := _WRITTEN.match(text))]
    labels = set(islice(_labels(), len(texts)))
    is_labelled = len(written) == len(texts) and {match[1].upper() for match in written} == labels
    return [match[0] for match in written] if is_labelled else [""] * len(texts)


def _is_text(value: Any) -> bool:
    return isinstance(value, str | bool) or is_number(value)


def _labels() -> Iterator[str]:
    for length in count(1):
        yield from map("".join, product(string.ascii_uppercase, repeat=length))
