"""Whether a completion takes a short cut, as a trip wire (`trip_wires`).

Formula: 1 if it does, else 0. `echo`: it repeats `words` words in a row of the question. `options`: its answer names
more than one of the row's option letters. `repeated`: it gives more than one `<answer>` or box.
Bounds: 0 or 1.
Answer: any text.
Space: none.
Source: after IFDecorator's trip wires. Not a score: give it weight 0 and a name that begins with `trip_`.
Example: `<answer>A or B</answer>` with kind `options` 1; `\\boxed{1} \\boxed{2}` with kind `repeated` 1.
"""

import re
import string
from typing import Literal

from mmrl.data.sample import Sample, TextPart
from mmrl.scoring.option_labels import labelled_options
from mmrl.scoring.parse import boxed_contents, extract_prediction

BOUNDS = (0.0, 1.0)
MEASURE = True
_LETTER = re.compile(r"(?<![A-Za-z])[A-Z](?![A-Za-z])")
_WORD = re.compile(r"\w+")


def score(
    completion: str,
    sample: Sample,
    *,
    kind: Literal["echo", "options", "repeated"],
    words: int = 12,
    options_column: str = "options",
) -> float:
    """`words`: of a repeated run. `options_column`: where the row holds its options, for their letters."""
    if kind == "repeated":
        return float(completion.count("<answer>") > 1 or len(boxed_contents(completion)) > 1)
    if kind == "options":
        letters = tuple(labelled_options(sample, column=options_column)) or string.ascii_uppercase
        named = set(_LETTER.findall(extract_prediction(completion) or "")) & set(letters)
        return float(len(named) > 1)
    return float(not _runs(_question(sample), words).isdisjoint(_runs(completion, words)))


def _question(sample: Sample) -> str:
    parts = (part for message in sample.messages if message.role == "user" for part in message.parts)
    return "\n".join(part.text for part in parts if isinstance(part, TextPart))


def _runs(text: str, words: int) -> set[tuple[str, ...]]:
    found = _WORD.findall(text.casefold())
    return {tuple(found[i : i + words]) for i in range(len(found) - words + 1)}
