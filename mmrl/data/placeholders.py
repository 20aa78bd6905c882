"""Finding media in a row's text: the only place where a prompt is searched. Pure.

A card states which strings stand for media. They are split off once, when the row is read, and only if their counts
equal the row's media; from then on a placeholder is a part of its own and text is only text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mmrl.data.sample import GeometryPart, MediaKind, MediaPart, MediaRef, Part, TextPart
from mmrl.errors import DataError

_NOUNS = {"image": "image", "video": "video", "geometry": "geometry value"}


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of the next unused image, video or geometry value in a text."""

    kind: str


def split_text(text: str, placeholders: Mapping[str, str]) -> list[str | Slot]:
    """The text cut at each placeholder; `placeholders` maps string -> kind. Nothing else is changed or stripped.

    >>> split_text("<image>What is this?", {"<image>": "image"})
    ['', Slot(kind='image'), 'What is this?']
    """
    if not placeholders:
        return [text]
    # Longest first, so that of two placeholders of which one begins the other the whole one is found.
    pattern = "|".join(re.escape(token) for token in sorted(placeholders, key=len, reverse=True))
    pieces = re.split(f"({pattern})", text)
    return [Slot(placeholders[piece]) if n % 2 else piece for n, piece in enumerate(pieces)]


def check_counts(texts: Sequence[Sequence[str | Slot]], given: Mapping[str, int], *, searched: Sequence[str]) -> None:
    """DataError with both counts unless the texts hold one placeholder per medium, for each kind searched for."""
    found = Counter(piece.kind for text in texts for piece in text if isinstance(piece, Slot))
    for kind in searched:
        if found[kind] != given.get(kind, 0):
            raise DataError(_mismatch(kind, found[kind], given.get(kind, 0)))


def _mismatch(kind: str, found: int, given: int) -> str:
    noun = _NOUNS[kind]
    counts = f"{_plural(found, f'{kind} placeholder')} but {_plural(given, noun)}"
    if kind == "geometry":
        return counts
    if found == 0:
        return (
            f"{counts}; put the card's {kind}_placeholder into the prompt, or set `placeholders: leading` in the card"
        )
    if given == 0:
        return (
            f"{counts}; if the row has one, check the card's column for {kind}s; "
            f"if the text means the word itself, change the card's {kind}_placeholder (null: none)"
        )
    return counts


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


class Filler:
    """Turns split texts into parts, handing out media and geometry values in the row's order.

    given: how many of each kind the row has. media: the refs in the order in which they come in the prompt;
    MediaPart numbers index it.
    """

    def __init__(self, media: Mapping[MediaKind, Sequence[MediaRef]], geometry: Sequence[GeometryPart] = ()) -> None:
        self.given: dict[str, int] = {kind: len(refs) for kind, refs in media.items()} | {"geometry": len(geometry)}
        self._waiting = {kind: iter(refs) for kind, refs in media.items()}
        self._geometry = iter(geometry)
        self.media: list[MediaRef] = []

    def parts(self, text: Sequence[str | Slot]) -> tuple[Part, ...]:
        return tuple(self._part(piece) for piece in text if piece != "")

    def leading(self) -> tuple[Part, ...]:
        """Parts for all media that no text named yet, images before clips."""
        return tuple(self._place(ref) for refs in self._waiting.values() for ref in refs)

    def _part(self, piece: str | Slot) -> Part:
        if isinstance(piece, str):
            return TextPart(piece)
        if piece.kind == "geometry":
            return next(self._geometry)
        return self._place(next(self._waiting["image" if piece.kind == "image" else "video"]))

    def _place(self, ref: MediaRef) -> MediaPart:
        self.media.append(ref)
        return MediaPart(len(self.media) - 1)
