"""Finding media in a row's text: the only place where a prompt is searched. Pure.

A card states which strings stand for media. They are split off once, when the row is read, and only if their counts
equal the row's media; from then on a placeholder is a part of its own and text is only text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from mmrl.data.sample import GeometryPart, MediaKind, MediaPart, MediaRef, Part, TextPart
from mmrl.errors import DataError

PATH = "{path}"
_MEDIA = ("image", "video")
_NOUNS = {"image": "image", "video": "video", "geometry": "geometry value", "text": "word"}


class Slot(NamedTuple):
    """A place in a text: of the next unused image, video, geometry value or words of the row's columns.

    kind: `image`, `video`, `geometry` or `text`. value: the medium where the text itself names it, and no column does.
    """

    kind: str
    value: Any = None


Piece = str | Slot


def split_text(text: str, placeholders: Mapping[str, str]) -> list[Piece]:
    """The text cut at each placeholder; `placeholders` maps string -> kind. Nothing else is changed or stripped.

    A placeholder with `{path}` in it is found with a path in that place (no `<`, no line break).

    >>> split_text("<image>What is this?", {"<image>": "image"})
    ['', Slot(kind='image', value=None), 'What is this?']
    >>> split_text("<img>a b.png</img>?", {"<img>{path}</img>": "image"})
    ['', Slot(kind='image', value='a b.png'), '?']
    """
    if not placeholders:
        return [text]
    pattern, found = _pattern(tuple(placeholders.items()))
    pieces: list[Piece] = []
    end = 0
    for match in pattern.finditer(text):
        assert match.lastindex is not None  # one group a token, and one of them matched
        kind, names_medium = found[match.lastindex - 1]
        pieces += [text[end : match.start()], Slot(kind, match[match.lastindex] if names_medium else None)]
        end = match.end()
    return [*pieces, text[end:]]


@lru_cache(maxsize=256)
def _pattern(placeholders: tuple[tuple[str, str], ...]) -> tuple[re.Pattern[str], list[tuple[str, bool]]]:
    """A pattern with one group a token, and of each group: its kind, and whether it holds a path and not the token."""
    # Longest first, so that of two placeholders of which one begins the other the whole one is found.
    ordered = sorted(placeholders, key=lambda item: len(item[0]), reverse=True)
    pattern = re.compile("|".join(_token_pattern(token) for token, _ in ordered))
    return pattern, [(kind, PATH in token) for token, kind in ordered]


def _token_pattern(token: str) -> str:
    before, path, after = token.partition(PATH)
    return f"{re.escape(before)}([^<\\n]+){re.escape(after)}" if path else f"({re.escape(token)})"


def check_counts(texts: Sequence[Sequence[Piece]], given: Mapping[str, int], *, searched: Collection[str]) -> None:
    """DataError with both counts unless the texts hold one placeholder per value of the columns, for each kind.

    A kind that no text is searched for may also have no place at all: its media come first.
    """
    found = dict.fromkeys(_NOUNS, 0)
    for text in texts:
        for piece in text:
            if isinstance(piece, Slot) and piece.value is None:
                found[piece.kind] += 1
    for kind, count in found.items():
        if count != given.get(kind, 0) and (count or kind in searched):
            raise DataError(_mismatch(kind, count, given.get(kind, 0)))


def _mismatch(kind: str, found: int, given: int) -> str:
    noun = _NOUNS[kind]
    counts = f"{_plural(found, f'{kind} placeholder')} but {_plural(given, noun)}"
    if kind in ("geometry", "text"):
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


def media_in_front(
    texts: Sequence[Sequence[Piece]], given: Mapping[str, int], *, lift: bool
) -> tuple[list[Slot], list[list[Piece]]]:
    """Slots of the media that come before all text, images before clips, and the texts that stay behind them.

    Those are the media of columns for which the texts have no place, and with `lift` also those that have one.
    """
    placed = [piece for text in texts for piece in text if isinstance(piece, Slot) and piece.kind in _MEDIA]
    has_place = {slot.kind for slot in placed if slot.value is None}
    front = [Slot(kind) for kind in _MEDIA if kind not in has_place for _ in range(given.get(kind, 0))]
    if lift:
        front = sorted((*front, *placed), key=lambda slot: slot.kind)
        texts = [[piece for piece in text if isinstance(piece, str) or piece.kind not in _MEDIA] for text in texts]
    return front, [[*text] for text in texts]


class Filler:
    """Turns split texts into parts, handing out media, geometry values and words in the row's order.

    columns: media of the row's columns. read: makes MediaRefs of a medium that a text names itself.
    given: how many of each kind the columns hold. media: the refs in the order in which they come in the prompt;
    MediaPart numbers index it.
    """

    def __init__(
        self,
        columns: Mapping[MediaKind, Sequence[MediaRef]],
        read: Callable[[MediaKind, Any], Sequence[MediaRef]],
        *,
        geometry: Sequence[GeometryPart] = (),
        words: Sequence[str] = (),
    ) -> None:
        self.given: dict[str, int] = {kind: len(refs) for kind, refs in columns.items()}
        self.given |= {"geometry": len(geometry), "text": len(words)}
        self._waiting = {kind: iter(refs) for kind, refs in columns.items()}
        self._geometry, self._words = iter(geometry), iter(words)
        self._read = read
        self.media: list[MediaRef] = []

    def parts(self, text: Sequence[Piece]) -> tuple[Part, ...]:
        """The parts of a text. Empty texts are left out; neighbouring ones stay apart."""
        parts: list[Part] = []
        for piece in text:
            if isinstance(piece, Slot):
                parts += self._fill(piece)
            elif piece:
                parts.append(TextPart(piece))
        return tuple(parts)

    def _fill(self, slot: Slot) -> Sequence[Part]:
        if slot.kind == "geometry":
            return (next(self._geometry),)
        if slot.kind == "text":
            return (TextPart(next(self._words)),)
        kind: MediaKind = "image" if slot.kind == "image" else "video"
        refs = (next(self._waiting[kind]),) if slot.value is None else self._read(kind, slot.value)
        return [self._place(ref) for ref in refs]

    def _place(self, ref: MediaRef) -> MediaPart:
        self.media.append(ref)
        return MediaPart(len(self.media) - 1)
