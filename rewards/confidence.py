"""The confidence that a completion states, as a measurement for shaping (`rlcr`).

Formula: the number in the last `<confidence>..</confidence>` after the thought: 0 to 1, or 0% to 100%; -1 where there
is none, or it is no such number.
Bounds: -1 to 1.
Answer: `<confidence>0.8</confidence>`, `<confidence>80%</confidence>`.
Space: none.
Source: RLCR (Damani et al. 2025). Not a score: give it weight 0.
Example: `<answer>B</answer><confidence>0.8</confidence>` 0.8; `80%` in the tag 0.8; `very sure` -1; no tag -1.
"""

from mmrl.data.sample import Sample
from mmrl.scoring.parse import last_tag, parse_number

BOUNDS = (-1.0, 1.0)
MEASURE = True


def score(completion: str, sample: Sample) -> float:
    """Of 0 to 1, or -1."""
    stated = last_tag(completion.rpartition("</think>")[2], "confidence")
    value = parse_number(stated) if stated else None
    return value if value is not None and 0 <= value <= 1 else -1.0
