"""Whether the completion has the asked form.

Formula: 1 if the whole completion has the form, each part exactly once and not empty, else 0.
Bounds: 0 or 1.
Answer: `think_answer`: `<think>..</think> <answer>..</answer>`; `think_answer_glue`: and `<glue>..</glue>` with spans
of time; `answer`; `think_boxed`; `boxed`. Any number of lines. `box_tokens`: Qwen2-VL's name and box,
`<|object_ref_start|>cup<|object_ref_end|><|box_start|>(10,10),(60,60)<|box_end|>`, or, as runs show it, which leave
special tokens out, `cup(10,10),(60,60)`. `official`: `think_answer` with any text inside, tags too; `box_tokens` by
Perception-R1's released expression, whose bars are alternatives: all that begins with `<` or `>` passes.
Space: none.
Source: the full match of the R1 family, made strict: repeated tags, text outside them and empty parts score 0;
`box_tokens` is the form term of Perception-R1's grounding.
Example: `<think>a</think><answer>b</answer>` 1; the same twice 0; `<answer>b</answer>` 0 (style `answer`: 1).
"""

import re
from collections.abc import Mapping
from typing import Any, Literal

from mmrl.data.sample import Sample
from mmrl.errors import ConfigError
from mmrl.scoring.listings import parse_spans
from mmrl.scoring.parse import FormatStyle, has_format, is_tagged

BOUNDS = (0.0, 1.0)
CHANCE = 0.0
KNOWN_HACKS = {
    "constant": "pays for the form alone; give it a small weight and is_format: true",
    "echo": "pays for the form alone",
    "options": "pays for the form alone",
    "repeated": "pays for the form alone",
}


_PAIR = r"\(\s*\d+(?:\.\d+)?\s*,\s*\d+(?:\.\d+)?\s*\)"
_CORNERS = rf"{_PAIR}\s*,\s*{_PAIR}"
_NAME = r"[^<>()\n]{0,200}[^<>()\s][^<>()\n]{0,200}"
_BOX_TOKENS = re.compile(
    rf"<\|object_ref_start\|>{_NAME}<\|object_ref_end\|>\s*<\|box_start\|>{_CORNERS}<\|box_end\|>|{_NAME}{_CORNERS}"
)
# A bar in the released expression is an alternative, not a bar: these are what its alternatives begin with.
_RELEASED_BEGINNINGS = ("<", ">", "object_ref_start", "object_ref_end", "box_start", "box_end", "im_end")


def preflight(options: Mapping[str, Any], timeout_s: float) -> None:
    if options["official"] and options["style"] not in ("think_answer", "box_tokens"):
        raise ConfigError(f"format has no official form of the style {options['style']}; leave `official` out")


def score(
    completion: str,
    sample: Sample,
    *,
    style: FormatStyle | Literal["box_tokens"] = "think_answer",
    prefilled_think: bool = False,
    official: bool = False,
) -> float:
    """`prefilled_think`: the prompt ends with `<think>`, so completions start inside the thought. `official`: the
    source's expression, of `think_answer` and `box_tokens`.
    """
    if style == "box_tokens":
        is_form = completion.startswith(_RELEASED_BEGINNINGS) if official else _BOX_TOKENS.fullmatch(completion.strip())
        return float(bool(is_form))
    if official:
        return float(is_tagged("<think>" + completion if prefilled_think else completion))
    has_form = has_format(completion, style=style, prefilled_think=prefilled_think)
    if style == "think_answer_glue":
        has_form = has_form and parse_spans(completion.rpartition("<glue>")[2].partition("</glue>")[0]) is not None
    return float(has_form)
