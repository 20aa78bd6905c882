"""Whether the answer stands in its tag and is of the asked kind.

Formula: 0 without one non-empty `<answer>..</answer>`; 0.5 where its content is not of the kind; else 1.
Bounds: 0 to 1.
Answer: `kind` says what the tag must hold: `choice` (a letter of the row's options, or the text of one), `number`,
`boolean`, `time` (`{"time": [s, e]}` or a span), `box` (`{"boxes": [..]}` or a box), `tube` (boxes by time and `time`),
`track` (boxes by time), `text` (any).
Space: none.
Source: EasyVideoR1's format term; two pairs of tags or an empty one score 0 here, 1 and 0.5 there.
Example: kind number: `<answer>3.5</answer>` 1, `<answer>a lot</answer>` 0.5, `3.5` 0.
"""

import re
import string
from typing import Literal

from mmrl.data.sample import Sample
from mmrl.scoring.listings import parse_tube
from mmrl.scoring.option_labels import labelled_options
from mmrl.scoring.parse import extract_prediction, parse_choice, parse_geometry, parse_number

BOUNDS = (0.0, 1.0)
CHANCE = 0.0
KNOWN_HACKS = {
    "constant": "pays for the form alone; give it a small weight and is_format: true",
    "echo": "pays for the form alone",
    "options": "pays for the form alone",
    "repeated": "pays for the form alone",
}

Kind = Literal["choice", "number", "boolean", "time", "box", "tube", "track", "text"]


def score(completion: str, sample: Sample, *, kind: Kind = "text") -> float:
    """`kind`: what the tag must hold."""
    content = extract_prediction(completion, answer="tag")
    if content is None or len(re.findall(r"</?answer>", completion)) != 2:
        return 0.0
    if kind == "choice":
        return 1.0 if _is_choice(content, sample) else 0.5
    return 1.0 if _is_of_kind(content, kind) else 0.5


def _is_of_kind(content: str, kind: Kind) -> bool:
    if kind == "boolean":
        return content.casefold().strip(" .") in ("yes", "no", "true", "false")
    if kind in ("tube", "track"):
        found = parse_tube(content)
        return found is not None and (kind == "track" or found.span is not None)
    if kind == "number":
        return parse_number(content) is not None
    return kind == "text" or parse_geometry(content, kind="time" if kind == "time" else "box") is not None


def _is_choice(content: str, sample: Sample) -> bool:
    options = labelled_options(sample)
    letters = tuple(options) or string.ascii_uppercase
    return parse_choice(content, letters=letters, options=tuple(options.values())) is not None
