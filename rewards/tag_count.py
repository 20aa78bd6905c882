"""How often a tag is opened and closed, as a measurement for shaping (`tool_benefit`).

Formula: the number of `<tag>..</tag>` pairs that do not overlap, by default of `tool_call`.
Bounds: 0 upwards.
Answer: any text.
Space: none.
Source: AdaTooler-V counts valid tool calls so. Not a score: give it weight 0 and the name `tool_calls`.
Example: `<tool_call>{..}</tool_call> <tool_call>{..}</tool_call>` 2; `<tool_call>` alone 0.
"""

from mmrl.data.sample import Sample

BOUNDS = (0.0, None)
MEASURE = True


def score(completion: str, sample: Sample, *, tag: str = "tool_call") -> float:
    """`tag`: its name, without brackets."""
    opening, closing, position, count = f"<{tag}>", f"</{tag}>", 0, 0
    while (start := completion.find(opening, position)) >= 0 and (end := completion.find(closing, start)) >= 0:
        position, count = end + len(closing), count + 1
    return float(count)
