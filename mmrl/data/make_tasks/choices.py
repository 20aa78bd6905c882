"""Open questions rewritten as multiple choice (VMR): the wrong options are other rows' answers of the same type."""

from __future__ import annotations

import re
import string
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mmrl.data.cards import FIELDS
from mmrl.data.locations import FrameFiles, PdfPage, RawBytes
from mmrl.data.make_tasks.puzzle import ROW_COLUMNS, Making, Puzzle, Source, UnusableError
from mmrl.data.sample import MediaPart, MediaRef, Message, Part, Sample, TextPart
from mmrl.data.write_rows import options_of

LONGEST_ANSWER = 200  # characters: an essay is no option
LIKELY = 50  # answers on each side of the right one, by length, that wrong options are drawn from
_NUMBER = re.compile(r"[-+]?\d[\d,]*(\.\d+)?")
_LETTER = re.compile(r"\(?[A-Za-z]\)?\.?")


def answer_type(answer: Any) -> str:
    """What kind of answer this is; answers of one kind can stand beside each other. UnusableError for what has none.

    >>> [answer_type(a) for a in (3, "1,024", "-0.5", "12 %", "In 1999", "a red car")]
    ['integer', 'integer', 'decimal', 'number with %', 'text with digits', 'text']
    """
    if isinstance(answer, bool) or not isinstance(answer, str | int | float):
        raise UnusableError("its answer is no text and no number")
    text = " ".join(str(answer).split())
    if not text or len(text) > LONGEST_ANSWER:
        raise UnusableError("its answer is empty" if not text else f"its answer has {len(text)} characters")
    if text.casefold() in ("yes", "no", "true", "false"):
        raise UnusableError("a yes-or-no question has no wrong options to add")
    if _LETTER.fullmatch(text):
        raise UnusableError(
            f"its answer {text!r} is a letter: it is multiple choice already, or cannot be told from it"
        )
    number = _NUMBER.match(text)
    if number is None:
        return "text with digits" if any(map(str.isdigit, text)) else "text"
    unit = text[number.end() :].strip().casefold()
    kind = "decimal" if number[1] else "integer"
    return kind if not unit else f"number with {unit}"


@dataclass(frozen=True)
class Pool:
    """The different answers of one task and type in the order of their length, and how many rows give each."""

    texts: Sequence[str]
    counts: Sequence[int]

    @classmethod
    def of(cls, answers: Sequence[str]) -> Pool:
        counts = Counter(map(_same, answers))
        first = {_same(answer): answer for answer in reversed(answers)}
        ordered = sorted(first.items(), key=lambda item: (len(item[1]), item[1]))
        return cls([text for _, text in ordered], [counts[same] for same, _ in ordered])

    def wrong(self, right: str, *, count: int, rng: np.random.Generator) -> list[str]:
        """Answers other than the right one and of nearly its length, drawn as often as rows give them."""
        place = bisect_left(self.texts, (len(right), right), key=lambda text: (len(text), text))
        near = range(max(0, place - LIKELY), min(len(self.texts), place + LIKELY))
        likely = [n for n in near if _same(self.texts[n]) != _same(right)]
        if len(likely) < count:
            raise UnusableError(f"only {len(likely)} other answers of its type, {count} needed")
        weights = np.array([self.counts[n] for n in likely], dtype=np.float64)
        drawn = rng.choice(likely, size=count, replace=False, p=weights / weights.sum())
        return [self.texts[int(n)] for n in drawn]


class MultipleChoice:
    """pieces: options of a question. sources: rows whose answers serve as wrong options for each other."""

    def __init__(self, sources: Sequence[Source], pieces: int) -> None:
        self.pieces = pieces
        answers: dict[tuple[str, str], list[str]] = defaultdict(list)
        for source in sources:
            try:
                answers[self._key(source.sample)].append(_shown(source.sample.answer))
            except UnusableError:
                continue  # it is reported when its own turn comes
        self.pools = {key: Pool.of(found) for key, found in answers.items()}

    def __call__(self, source: Source, making: Making) -> Iterator[Puzzle]:
        sample: Sample = source.sample
        if sample.columns.get("options"):
            raise UnusableError("it has options already")
        right = _shown(sample.answer)
        wrong = self.pools[self._key(sample)].wrong(right, count=self.pieces - 1, rng=making.rng)
        place = making.turns.pick(self.pieces)
        options = [*wrong[:place], right, *wrong[place:]]
        letters = string.ascii_uppercase[: self.pieces]
        listed = "\n".join(f"{letter}. {option}" for letter, option in zip(letters, options, strict=True))
        messages = [_message(message, sample) for message in sample.messages]
        asked = f"\n{listed}\nAnswer with the letter of the right option."
        messages[_last_user(messages)]["content"].append({"type": "text", "text": asked})
        columns = _other_columns(sample) | {"options": options, "open_answer": sample.answer, "source": source.name}
        images, videos = ([_cell(ref) for ref in sample.media if ref.kind == kind] for kind in ("image", "video"))
        yield Puzzle(messages, letters[place], images=images, videos=videos, columns=columns)

    def _key(self, sample: Sample) -> tuple[str, str]:
        return sample.task, answer_type(sample.answer)


def _other_columns(sample: Sample) -> dict[str, Any]:
    """The row's own columns, with `source_` before names that the new card would read as something else."""
    taken = {*FIELDS, *ROW_COLUMNS}
    others = {
        f"source_{name}" if name in taken else name: value
        for name, value in sample.columns.items()
        if name != "demonstration"
    }
    if sample.modality not in ("image", "video", "text"):  # these follow from the media
        others["modality"] = sample.modality
    return others | {"source_task": sample.task}


def _shown(answer: Any) -> str:
    return " ".join(str(answer).split())


def _same(answer: str) -> str | float:
    """What two spellings of one answer have in common: numbers their value, texts their words."""
    plain = answer.replace(",", "")
    try:
        return float(plain)
    except ValueError:
        return " ".join(re.sub(r"[^\w\s]|_", " ", answer.casefold()).split()) or answer


def _message(message: Message, sample: Sample) -> dict[str, Any]:
    return {"role": message.role, "content": [_part(part, sample) for part in message.parts]}


def _part(part: Part, sample: Sample) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    if isinstance(part, MediaPart):
        return {"type": sample.media[part.medium].kind}
    raise UnusableError("its question holds a box, point or time; such rows are not rewritten")


def _last_user(messages: Sequence[dict[str, Any]]) -> int:
    return max(n for n, message in enumerate(messages) if message["role"] == "user")


def _cell(ref: MediaRef) -> Any:
    """The medium as a row of another folder names it: by absolute path."""
    source, given = ref.source, options_of(ref)
    if isinstance(source, PdfPage):
        return {ref.kind: str(source.file), "page": source.page, "dpi": source.dpi, **given}
    if isinstance(source, FrameFiles) and not any(isinstance(file, RawBytes) for file in source.files):
        return {"frames": [str(file) for file in source.files], **given}
    if not ref.has_name:
        raise UnusableError("its media lie in the row as bytes; write them as files first (tools/convert_data.py)")
    return {ref.kind: str(source), **given} if given else str(source)
