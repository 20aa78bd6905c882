"""Whether the completion has the asked form.

Formula: 1 if the whole completion has the form, each part exactly once and not empty, else 0.
Bounds: 0 or 1.
Answer: `think_answer`: `<think>..</think> <answer>..</answer>`; `think_answer_glue`: and `<glue>..</glue>` with spans
of time; `answer`; `think_boxed`; `boxed`. Any number of lines.
Space: none.
Source: the full match of the R1 family, made strict: repeated tags, text outside them and empty parts score 0.
Example: `<think>a</think><answer>b</answer>` 1; the same twice 0; `<answer>b</answer>` 0 (style `answer`: 1).
"""

from mmrl.data.sample import Sample
from mmrl.scoring.listings import parse_spans
from mmrl.scoring.parse import FormatStyle, has_format

BOUNDS = (0.0, 1.0)
CHANCE = 0.0
KNOWN_HACKS = {
    "constant": "pays for the form alone; give it a small weight and is_format: true",
    "echo": "pays for the form alone",
    "options": "pays for the form alone",
    "repeated": "pays for the form alone",
}


def score(
    completion: str, sample: Sample, *, style: FormatStyle = "think_answer", prefilled_think: bool = False
) -> float:
    """`prefilled_think`: the prompt ends with `<think>`, so completions start inside the thought."""
    has_form = has_format(completion, style=style, prefilled_think=prefilled_think)
    if style == "think_answer_glue":
        has_form = has_form and parse_spans(completion.rpartition("<glue>")[2].partition("</glue>")[0]) is not None
    return float(has_form)
