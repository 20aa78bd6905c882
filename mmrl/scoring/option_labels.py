"""The options of a multiple choice row by their labels. Pure."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator, Mapping
from itertools import count, islice, product

from mmrl.data.sample import Sample

_WRITTEN = re.compile(r"\s*\(?([A-Za-z]{1,2})[).:]\s+(?=\S)")


def labelled_options(sample: Sample, *, column: str = "options") -> Mapping[str, str]:
    """Texts by label, upper case: a mapping's own labels, else A, B, .., Z, AA, AB, ..; empty where the row has none.

    What a list writes before its texts (`A. red`, `(B) blue`) is taken off where it is those labels, in whatever
    order: it says how the options are called. An entry of a mapping without a text is no option: files with one type
    for all rows fill up with nulls.
    """
    value = sample.columns.get(column)
    if isinstance(value, dict):
        return {str(label).strip().upper(): str(text) for label, text in value.items() if text is not None}
    texts = [str(option) for option in value] if isinstance(value, list | tuple) else []
    labels = list(islice(_labels(), len(texts)))
    written = [_WRITTEN.match(text) for text in texts]
    named = {match[1].upper(): text[match.end() :] for text, match in zip(texts, written, strict=True) if match}
    return named if named and named.keys() == set(labels) else dict(zip(labels, texts, strict=True))


def _labels() -> Iterator[str]:
    for length in count(1):
        yield from map("".join, product(string.ascii_uppercase, repeat=length))
