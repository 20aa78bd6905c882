"""Open questions rewritten as multiple choice (VMR): the wrong options are other rows' answers of the same type."""

from __future__ import annotations

import re
import string
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from mmrl.data.locations import FrameFiles, PdfPage, RawBytes
from mmrl.data.make_tasks.puzzle import Making, Puzzle, Source, UnusableError
from mmrl.data.sample import MediaPart, MediaRef, Message, Part, Sample, TextPart
from mmrl.data.write_rows import options_of

LONGEST_ANSWER = 200  # characters: an essay is no option
LIKELY = 50  # candidates of nearly the right answer's length that wrong options are drawn from
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


class MultipleChoice:
    """pieces: options of a question. sources: rows whose answers serve as wrong options for each other."""

    def __init__(self, sources: Sequence[Source], pieces: int) -> None:
        self.pieces = pieces
        self.answers: dict[tuple[str, str], list[str]] = defaultdict(list)
        for source in sources:
            try:
                self.answers[self._key(source.sample)].append(_shown(source.sample.answer))
            except UnusableError:
                continue  # it is reported when its own turn comes

    def __call__(self, source: Source, making: Making) -> Iterator[Puzzle]:
        sample: Sample = source.sample
        if sample.columns.get("options"):
            raise UnusableError("it has options already")
        right = _shown(sample.answer)
        wrong = self._wrong(right, self.answers[self._key(sample)], making.rng)
        place = making.turns.pick(self.pieces)
        options = [*wrong[:place], right, *wrong[place:]]
        letters = string.ascii_uppercase[: self.pieces]
        listed = "\n".join(f"{letter}. {option}" for letter, option in zip(letters, options, strict=True))
        messages = [_message(message, sample) for message in sample.messages]
        asked = f"\n{listed}\nAnswer with the letter of the right option."
        messages[_last_user(messages)]["content"].append({"type": "text", "text": asked})
        columns = {name: value for name, value in sample.columns.items() if name != "demonstration"}
        columns |= {"options": options, "open_answer": sample.answer, "source_task": sample.task, "source": source.name}
        images, videos = ([_cell(ref) for ref in sample.media if ref.kind == kind] for kind in ("image", "video"))
        yield Puzzle(messages, letters[place], images=images, videos=videos, columns=columns)

    def _key(self, sample: Sample) -> tuple[str, str]:
        return sample.task, answer_type(sample.answer)

    def _wrong(self, right: str, pool: Sequence[str], rng: np.random.Generator) -> list[str]:
        """Drawn from answers in the order of how near their length is, as often as rows give them."""
        seen, wrong = {_same(right)}, []
        others = [answer for answer in pool if _same(answer) not in seen]
        shuffled = [others[n] for n in rng.permutation(len(others))]
        near = sorted(shuffled, key=lambda answer: abs(len(answer) - len(right)))[:LIKELY]
        likely = [near[n] for n in rng.permutation(len(near))]
        rest = sorted(shuffled, key=lambda answer: abs(len(answer) - len(right)))[LIKELY:]
        for answer in (*likely, *rest):
            if _same(answer) not in seen:
                seen.add(_same(answer))
                wrong.append(answer)
            if len(wrong) == self.pieces - 1:
                return wrong
        raise UnusableError(f"only {len(wrong)} other answers of its type, {self.pieces - 1} needed")


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
