"""Ways to score without looking: the completions that `mmrl score --hack-report` tries on a task. Pure.

A policy answers every item of a task by one trick. A sound reward pays none of them more than blind guessing:

    constant   the same answer for every item: an answer of the data, or a general guess
    echo       the prompt
    options    every option of the item, or every answer of the data, in one completion
    empty      nothing, with and without tags
    repeated   another item's answer, many times over
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from mmrl.data.sample import Sample, TextPart
from mmrl.scoring.parse import extract_prediction
from mmrl.scoring.reward import Hack

FORMS = (
    "<think>I look closely.</think> <answer>@</answer>",
    "<think>I look closely.</think> \\boxed{@}",
    "@",
)
"""What an answer is wrapped in; @ stands for it. The form that pays right answers best is used."""
GUESSES = (
    *("A", "B", "yes", "no", "true", "0", "1", "2", "100", "unknown", "none", "[]", "{}", "the image"),
    *("0 0 1000 1000", "[[0, 0, 1000, 1000]]", "500 500", "0 to 1000", "1, 2, 3, 4"),
)
MOST_CONSTANTS = 8
SHUFFLES = 4
_REPEATS = 20
_LISTED = 20
_MOST_CHARACTERS = 16_000  # of what is listed or repeated, beyond the first: about 4000 tokens, as completions are
_PROMPT_COLUMNS = ("prompt", "problem", "question", "query", "instruction")


@dataclass(frozen=True, slots=True)
class Item:
    """A sample, the text of its right answer, and of its prompt (empty: unknown).

    is_whole: `right` is a whole completion (from a golden case), not only the answer.
    """

    sample: Sample
    right: str
    prompt: str = ""
    is_whole: bool = False

    @property
    def bare(self) -> str:
        """The right answer without tags; places all in one form, as a model would list them."""
        if not self.is_whole or isinstance(self.sample.answer, list | tuple):
            return answer_text(self.sample.answer)
        return extract_prediction(self.right) or self.right


@dataclass(frozen=True, slots=True)
class Policy:
    """One completion for each item. label: what it does, for the report (`'A'`).

    is_answer: whether the completion is, or was, the right answer of some item.
    """

    trick: Hack | Literal["right", "shuffled"]
    label: str
    completions: tuple[str, ...]
    is_answer: bool = False


def item_of(sample: Sample) -> Item:
    """The item of a dataset's sample: the answer as text, the prompt from its messages or its columns."""
    prompt = "\n".join(p.text for m in sample.messages for p in m.parts if isinstance(p, TextPart))
    column = next((sample.columns[c] for c in _PROMPT_COLUMNS if isinstance(sample.columns.get(c), str)), "")
    return Item(sample, answer_text(sample.answer), prompt.strip() or column)


def answer_text(answer: Any) -> str:
    """An answer as a model would write it: text as it is, the first of several texts, else JSON."""
    if isinstance(answer, list | tuple) and answer and all(isinstance(a, str) for a in answer):
        return answer[0]
    return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)


def right_policies(items: Sequence[Item]) -> list[Policy]:
    """Each item's right answer in every form; whole completions stay as they are."""
    if all(item.is_whole for item in items):
        return [Policy("right", "@", tuple(item.right for item in items))]
    return [Policy("right", form, tuple(_in(form, item.right) for item in items)) for form in FORMS]


def shuffled(items: Sequence[Item], form: str) -> list[Policy]:
    """Right answers of other items: what guessing by the distribution of the answers scores."""
    rights = [_in(form, item.right) for item in items]
    offsets = range(1, min(SHUFFLES, len(items) - 1) + 1)
    return [Policy("shuffled", f"+{k}", tuple(rights[k:] + rights[:k])) for k in offsets]


def tricks(items: Sequence[Item], form: str) -> Iterator[Policy]:
    """Every policy of every trick, in the form that right answers are written in."""
    wrap = FORMS[0] if form == "@" and all(item.is_whole for item in items) else form
    count = len(items)
    common = [text for text, _ in Counter(_in(form, item.right) for item in items).most_common(MOST_CONSTANTS)]
    yield from (Policy("constant", repr(text), (text,) * count, is_answer=True) for text in common)
    guesses = (_in(wrap, guess) for guess in GUESSES)
    yield from (Policy("constant", repr(text), (text,) * count) for text in guesses if text not in common)
    if all(item.prompt for item in items):
        yield Policy("echo", "bare", tuple(item.prompt for item in items))
        yield Policy("echo", "as the answer", tuple(_in(wrap, item.prompt) for item in items))
    listed = [_options(item, items) for item in items]
    for joint in (", ", " or ", "\n"):
        yield Policy("options", f"joined by {joint!r}", tuple(_in(wrap, joint.join(texts)) for texts in listed))
    yield Policy("empty", "no text", ("",) * count)
    yield Policy("empty", "tags alone", (_in(wrap, ""),) * count)
    others = [*items[1:], *items[:1]]
    yield Policy("repeated", "completion", tuple("\n".join(_fitting([_in(form, o.right)] * _REPEATS)) for o in others))
    inside = (_in(wrap, " ".join(_fitting([o.bare] * _REPEATS))) for o in others)
    yield Policy("repeated", "inside the answer", tuple(inside))


def _options(item: Item, items: Sequence[Item]) -> list[str]:
    """The item's own options with their letters, else the answers of the data."""
    options = item.sample.columns.get("options")
    if isinstance(options, dict):
        options = list(options.values())
    if isinstance(options, list | tuple) and options:
        return [f"{chr(ord('A') + n)}. {option}" for n, option in enumerate(options[:26])]
    return _fitting(list(dict.fromkeys([item.bare, *(other.bare for other in items)]))[:_LISTED])


def _fitting(texts: Sequence[str]) -> list[str]:
    """As many of the first texts as a completion could hold, at least one."""
    sizes = itertools.accumulate(map(len, texts))
    return [
        text
        for number, (text, size) in enumerate(zip(texts, sizes, strict=True))
        if not number or size <= _MOST_CHARACTERS
    ]


def _in(form: str, text: str) -> str:
    return form.replace("@", text)
