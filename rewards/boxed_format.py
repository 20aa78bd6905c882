"""Thought, answer, and one box in the answer.

Formula: 0 unless the whole completion is one non-empty `<think>..</think>` and one non-empty `<answer>..</answer>`;
then 1 if the answer holds as many non-empty `\\boxed{..}` as `boxes` asks for, else 0.5.
Bounds: 0 to 1.
Answer: `boxes`: `one` (exactly one), `at_most_one` (places are not boxed, but may be), `any`.
Space: none.
Source: Vero's format term: `one` for its boxed types, `at_most_one` for grounding and clicking, `any` for the others.
Example: `<think>a</think><answer>\\boxed{3}</answer>` 1; without the box, or with two, 0.5; without the thought 0.
"""

from typing import Literal

from mmrl.data.sample import Sample
from mmrl.scoring.parse import boxed_contents, extract_prediction, has_format

BOUNDS = (0.0, 1.0)
CHANCE = 0.0
KNOWN_HACKS = {
    "constant": "pays for the form alone; give it a small weight and is_format: true",
    "echo": "pays for the form alone",
    "repeated": "pays for the form alone",
}


def score(
    completion: str,
    sample: Sample,
    *,
    boxes: Literal["one", "at_most_one", "any"] = "one",
    prefilled_think: bool = False,
) -> float:
    """`boxes`: how many the answer holds. `prefilled_think`: the prompt ends with `<think>`."""
    if not has_format(completion, style="think_answer", prefilled_think=prefilled_think):
        return 0.0
    text = completion.rpartition("</answer>")[0].rpartition("<answer>")[2]
    found = boxed_contents(text)
    counts = {"one": (1,), "at_most_one": (0, 1)}.get(boxes)
    fits = counts is None or (len(found) in counts and text.count(r"\boxed{") == len(found))
    return 1.0 if fits and (boxes != "one" or extract_prediction(text, answer="boxed")) else 0.5
