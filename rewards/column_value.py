"""A number that the row holds, the same for every completion, as a measurement for shaping (`tool_benefit`).

Formula: the value of the column; of a list its length, and the list itself is the column `NAME.values`.
Bounds: any number.
Answer: any text; it is not read.
Space: none.
Source: this project. Not a score: give it weight 0 and the name that the plug-in asks for.
Example: the column benefit 0.4: 0.4 for every completion; the column levels [1, 1, 2]: 3, and the steps 1, 1, 2.
"""

import math

from mmrl.data.sample import Sample
from mmrl.errors import RewardError

BOUNDS = (None, None)
MEASURE = True


def score(completion: str, sample: Sample, *, column: str) -> float | dict[str, float | list[float]]:
    """`column`: its name."""
    value = sample.columns.get(column)
    if isinstance(value, list) and value and all(map(_is_number, value)):
        return {"reward": float(len(value)), "values": value}
    if not _is_number(value):
        raise RewardError(f"{sample.where}: the column {column!r} is {value!r}, not a number or a list of numbers")
    return float(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
