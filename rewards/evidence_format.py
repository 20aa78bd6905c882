"""Whether a grounded thought has its form: paired tags, and the evidence that the task asks for.

Formula: 0 unless there is a thought and an `<answer>`, each tag of the two is closed as often as opened, and so is each
of `<obj>`, `<t>` and `<box>` in the thought; then 1 with the evidence, else 0.5. Evidence: `claims`: an `<obj>`, a
`<t>` and a `<box>` in the thought; `times`: two `<t>` there; `box`: claims, or `<obj>..</obj><box>[..]</box>`
anywhere; `none`: nothing is asked for.
Bounds: 0 to 1.
Answer: any text; the dataset's answer is not looked at.
Space: none.
Source: VisionCoach's format_reward: `times` is for its temporal tasks, `box` for visual QA, `none` for general QA.
Example: a thought with a car, a box and a time 1; without them 0.5 (`none`: 1); with an unclosed `<box>` 0.
"""

import re
from typing import Literal

from mmrl.data.sample import Sample

BOUNDS = (0.0, 1.0)
CHANCE = 0.0
KNOWN_HACKS = {
    "constant": "pays for the form alone; give it is_format: true",
    "echo": "pays for the form alone",
    "options": "pays for the form alone",
    "empty": "pays for the form alone, and an empty answer has it",
    "repeated": "pays for the form alone",
}

_BOXED_OBJECT = re.compile(r"<obj>[^<>]{1,200}</obj>\s*<box>\s*\[[^<>\]]{1,200}\]\s*</box>")
_EVIDENCE = ("obj", "t", "box")


def score(completion: str, sample: Sample, *, evidence: Literal["claims", "times", "box", "none"] = "claims") -> float:
    """`evidence`: what the thought must hold for 1."""
    thought = _thought(completion)
    answered = 0 <= completion.find("<answer>") < completion.rfind("</answer>")
    paired = all(_is_paired(completion, tag) for tag in ("think", "answer"))
    if thought is None or not answered or not paired or not all(_is_paired(thought, tag) for tag in _EVIDENCE):
        return 0.0
    counts = {tag: thought.count(f"<{tag}>") for tag in _EVIDENCE}
    has_claim = all(counts.values())
    found = {
        "claims": has_claim,
        "times": counts["t"] >= 2,
        "box": has_claim or _BOXED_OBJECT.search(completion) is not None,
        "none": True,
    }
    return 1.0 if found[evidence] else 0.5


def _thought(completion: str) -> str | None:
    """What stands between the first <think> and the </think> after it; found by one pass, however often they come."""
    start = completion.find("<think>")
    end = completion.find("</think>", start)
    return completion[start + len("<think>") : end] if start >= 0 and end >= 0 else None


def _is_paired(text: str, tag: str) -> bool:
    return text.count(f"<{tag}>") == text.count(f"</{tag}>")
