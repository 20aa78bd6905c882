"""Composed questions (Composition-RL, h1): K questions in one, each needing the answer of the one before it.

    question 1          as it is; X1 is its answer
    question k >= 2     one of its whole numbers is written as X(k-1) + c, c such that it is the number that stood there
    answer              that of the last question, which alone is scored

`2 + 3 = ?` (5) and `What is 9 + 4?` become: X1 is the answer to question 1; `What is (X1 + 4) + 4?`, answer 13. A model
that solves the parts with p1 and p2 solves the whole with about p1 p2: .99 and .9 give .891, three of .95 give .8574.
So rows that are solved always are of use again: make K = 2 and 3 of them and put these behind each other (stage_order).

Every row is the last question of one composed row, where it has a whole number; those before are rows, drawn by chance,
whose answer is a whole number. Rows with media, turns or places are not composed. Source: XinXU-USTC/Composition-RL
@31833ce, read in code, where a model writes the sentence that connects the questions; h1 from its abstract.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

from mmrl.data.make_tasks.puzzle import Making, Puzzle, Source, UnusableError
from mmrl.data.sample import Sample, TextPart

# A whole number that stands alone: no part of a decimal, a date, a word, a power or another number.
_NUMBER = re.compile(r"(?<![\w.,:/^_{\\$-])\d{1,6}(?![\w/:^}]|[.,-]\d)")
_WHOLE = re.compile(r"-?\d{1,9}")


class Composed:
    """pieces: questions of a row. sources: rows that may stand before another."""

    def __init__(self, sources: Sequence[Source], pieces: int) -> None:
        self.pieces = pieces
        self.first = [source for source in sources if _is_first(source.sample)]
        self.links = [source for source in self.first if _NUMBER.search(_text(source.sample))]

    def __call__(self, source: Source, making: Making) -> Iterator[Puzzle]:
        text = _text(source.sample)
        if source.sample.answer in (None, ""):
            raise UnusableError("it has no answer")
        if not _NUMBER.search(text):
            raise UnusableError("its question holds no whole number that an earlier answer could stand for")
        chain = [*self._before(source, making), source]
        lines = [f"Question 1: {_text(chain[0].sample)}"]
        for number, (earlier, later) in enumerate(itertools.pairwise(chain), start=1):
            lines.append(f"Let X{number} be the answer to question {number}.")
            lines.append(f"Question {number + 1}: {_with_variable(later.sample, earlier.sample, number, making)}")
        lines.append(f"Solve the questions in order. Give the answer to question {self.pieces} only.")
        columns = {"composed_of": [part.name for part in chain], "answers": [part.sample.answer for part in chain]}
        yield Puzzle("\n".join(lines), source.sample.answer, columns=columns)

    def _before(self, source: Source, making: Making) -> list[Source]:
        """The questions before the last one, different ones: the first of any kind, the others with a number."""
        links = [other for other in self.links if other.name != source.name]
        if len(links) < self.pieces - 2:
            raise UnusableError(f"only {len(links)} other questions hold a whole number and have one as the answer")
        chosen = [links[int(n)] for n in making.rng.choice(len(links), self.pieces - 2, replace=False)] if links else []
        taken = {source.name, *(other.name for other in chosen)}
        first = [other for other in self.first if other.name not in taken]
        if not first:
            raise UnusableError("no other question has a whole number as its answer")
        return [first[int(making.rng.integers(len(first)))], *chosen]


def _with_variable(later: Sample, earlier: Sample, number: int, making: Making) -> str:
    """The later question with one of its numbers written by the earlier one's answer."""
    text = _text(later)
    places = list(_NUMBER.finditer(text))
    place = places[int(making.rng.integers(len(places)))]
    shift = int(place[0]) - int(str(earlier.answer))
    said = f"X{number}" if not shift else f"(X{number} {'+' if shift > 0 else '-'} {abs(shift)})"
    return f"{text[: place.start()]}{said}{text[place.end() :]}"


def _is_first(sample: Sample) -> bool:
    """Whether its answer is a whole number and its question can be read."""
    try:
        _text(sample)
    except UnusableError:
        return False
    return not isinstance(sample.answer, bool) and _WHOLE.fullmatch(str(sample.answer).strip()) is not None


def _text(sample: Sample) -> str:
    """The one question of a row."""
    asked = [message for message in sample.messages if message.role != "system"]
    if sample.media or len(asked) != 1 or not all(isinstance(part, TextPart) for part in asked[0].parts):
        raise UnusableError("only single questions of text are composed")
    return "".join(part.text for part in asked[0].parts if isinstance(part, TextPart)).strip()
