"""The YAML head of a transcribed page: language, rotation, whether it is a table or a diagram.

Formula: 0 where the completion does not begin with readable front matter; else 0.5 + 0.1 * (fields equal to the
reference's), at most 1.
Bounds: 0 to 1.
Answer: the page begins with a line `---`, lines of YAML and a line `---`. The reference is the column `column` of the
row, a mapping; of its fields those named in `fields` count.
Space: none.
Source: olmOCR 2 (front matter term; its five fields are the default).
Example: 3 of 5 fields equal 0.8; readable, none equal 0.5; no front matter 0.
"""

from mmrl.data.sample import Sample
from mmrl.errors import RewardError
from mmrl.scoring.page_text import split_front_matter

BOUNDS = (0.0, 1.0)
CHANCE = 0.9  # a page as most are, said of every page: four of the five fields hardly ever change

FIELDS = ("primary_language", "is_rotation_valid", "rotation_correction", "is_table", "is_diagram")


def score(completion: str, sample: Sample, *, column: str = "front_matter", fields: list[str] | None = None) -> float:
    """`column`: where the row holds the reference. `fields`: what is compared; None: the five of olmOCR."""
    fields = list(FIELDS) if fields is None else fields
    reference = sample.columns.get(column)
    if not isinstance(reference, dict) or not all(field in reference for field in fields):
        raise RewardError(
            f"{sample.where}: the column {column!r} is {reference!r}, not a mapping with {', '.join(fields)}"
        )
    head, _ = split_front_matter(completion)
    if head is None:
        return 0.0
    equal = sum(field in head and head[field] == reference[field] for field in fields)
    return min(1.0, 0.5 + 0.1 * equal)
