"""The YAML head of a transcribed page: language, rotation, whether it is a table or a diagram.

Formula: 0 where the completion does not begin with readable front matter; else 0.5 + 0.1 * (fields equal to the
reference's), at most 1.
Bounds: 0 to 1.
Answer: the page begins with a line `---`, lines of YAML and a line `---`. Readable is a head with every field that is
compared, each of the kind that the reference's value has, with none beside these and olmOCR's, and with a
`rotation_correction` of 0, 90, 180 or 270. The reference is the column `column` of the row, a mapping; of its fields
those named in `fields` count.
Space: none.
Source: olmOCR 2 (front matter term; its five fields are the default).
Example: 3 of 5 fields equal 0.8; readable, none equal 0.5; no front matter, or a field missing, 0.
"""

from collections.abc import Mapping
from typing import Any

from mmrl.data.sample import Sample
from mmrl.errors import RewardError
from mmrl.scoring.page_text import split_front_matter

BOUNDS = (0.0, 1.0)
CHANCE = 0.9  # a page as most are, said of every page: four of the five fields hardly ever change

FIELDS = ("primary_language", "is_rotation_valid", "rotation_correction", "is_table", "is_diagram")
_TURNS = (0, 90, 180, 270)
_WORDS = {True: "yes", False: "no"}  # YAML reads Norwegian, `no`, as a truth value


def score(completion: str, sample: Sample, *, column: str = "front_matter", fields: list[str] | None = None) -> float:
    """`column`: where the row holds the reference. `fields`: what is compared; None: the five of olmOCR."""
    fields = list(FIELDS) if fields is None else fields
    reference = sample.columns.get(column)
    if not isinstance(reference, dict) or not all(field in reference for field in fields):
        raise RewardError(
            f"{sample.where}: the column {column!r} is {reference!r}, not a mapping with {', '.join(fields)}"
        )
    head, _ = split_front_matter(completion)
    values = None if head is None else _values(head, reference, fields)
    if values is None:
        return 0.0
    return min(1.0, 0.5 + 0.1 * sum(values[field] == reference[field] for field in fields))


def _values(head: Mapping[str, Any], reference: Mapping[str, Any], fields: list[str]) -> dict[str, Any] | None:
    """The head's fields; None where one is missing, of another kind, or none that is known."""
    if not all(field in head for field in fields) or {*head} - {*FIELDS, *fields, *reference}:
        return None
    values = {field: _as_kind_of(reference[field], head[field]) for field in fields}
    turned = values.get("rotation_correction", 0) in _TURNS
    same_kind = all(_kind(values[field]) == _kind(reference[field]) for field in fields)
    return values if turned and same_kind else None


def _as_kind_of(known: Any, value: Any) -> Any:
    return _WORDS[value] if isinstance(value, bool) and _kind(known) is str else value


def _kind(value: Any) -> type:
    """A text and no text are of one kind: a page without words has no language."""
    return str if value is None else type(value)
