"""A number that the row holds, the same for every completion, as a measurement for shaping (`tool_benefit`).

Formula: the value of the column.
Bounds: any number.
Answer: any text; it is not read.
Space: none.
Source: this project. Not a score: give it weight 0 and the name that the plug-in asks for.
Example: the column benefit 0.4: 0.4 for every completion.
"""

import math

from mmrl.data.sample import Sample
from mmrl.errors import RewardError

BOUNDS = (None, None)
MEASURE = True


def score(completion: str, sample: Sample, *, column: str) -> float:
    """`column`: its name."""
    value = sample.columns.get(column)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise RewardError(f"{sample.where}: the column {column!r} is {value!r}, not a number")
    return float(value)
