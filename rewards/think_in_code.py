"""Placement of thinking tags inside code.

Formula: 0.2 if a `<think>` block that is not empty leads; + 0.8 if, in the last Python block, a thought that is not
empty stands inside a line, with code before and after it. 0 without a Python block, or where tags are nested or
unclosed, or the code without its thoughts is no Python.
Bounds: 0 to 1.
Answer: `<think>..</think>`, then a fenced Python block with `<thinkanywhere>..</thinkanywhere>` in it.
Space: none.
Source: Think-Anywhere, whose released terms are a tenth of these (0.02 and 0.08): use weight 0.1 and `is_format: true`
beside `code_tests`, which drops the thoughts. It looks for tags line by line; here thoughts may span lines.
Example: `x = <thinkanywhere>why</thinkanywhere>1` in a block after a thought: 1; the same at the end of the line: 0.2.
"""

import ast

from mmrl.data.sample import Sample
from mmrl.scoring.code_blocks import extract_code
from mmrl.scoring.think_tags import inside_a_line, strip_thoughts

BOUNDS = (0.0, 1.0)
CHANCE = 0.0
KNOWN_HACKS = {
    "constant": "any code with a thought in it has the form; it stands beside a reward for the code",
    "options": "as any text of that form",
    "repeated": "as any text of that form",
}
_LONGEST = 200_000


def score(completion: str, sample: Sample) -> dict[str, float]:
    code = extract_code(completion)
    leads = _leading_thought(completion)
    if code is None or not _is_python(strip_thoughts(code)):
        return {"reward": 0.0, "leads": float(leads), "inside": 0.0}
    inside = sum(inside_a_line(code))
    return {"reward": 0.2 * leads + 0.8 * (inside > 0), "leads": float(leads), "inside": float(inside)}


def _leading_thought(completion: str) -> bool:
    start, closed, _ = completion.partition("</think>")
    return bool(closed) and start.lstrip().startswith("<think>") and bool(start.lstrip()[len("<think>") :].strip())


def _is_python(code: str | None) -> bool:
    """Whether it parses, which runs nothing. Code too long to parse in time is none."""
    if not code or len(code) > _LONGEST:
        return False
    try:
        return bool(ast.parse(code).body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
