"""The question of a row with its pictures and clips, each at its place.

What is shown is what the row shows the policy: pictures upright and against white, pages of a PDF, frames of the part
of a clip that the row names; made smaller to the judge's own budget of pixels, never larger. Pictures and clips are
numbered in the order in which the conversation shows them. What the last question does not show itself (earlier turns,
rows without a conversation) comes before it.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mmrl.data.image import open_image
from mmrl.data.locations import FrameFiles
from mmrl.data.sample import MediaPart, MediaRef, Message, Sample
from mmrl.errors import MediaError, RewardError
from mmrl.scoring.judge.endpoint import Endpoint
from mmrl.scoring.judge.material import Material, Picture, PictureFormat, encoded, joined
from mmrl.scoring.judge.prompts import last_question, part_words
from mmrl.scoring.pictures import limited
from mmrl.scoring.subjects import timed_frames


class Sight(NamedTuple):
    """What an endpoint says of pictures; see `Endpoint`."""

    max_pixels: int
    max_frames: int
    max_pictures: int
    picture_format: PictureFormat


@dataclass(frozen=True, slots=True)
class View:
    """A medium as it is shown: each picture with the text before it, which tells the time of a frame."""

    kind: str
    pictures: tuple[tuple[str, Picture], ...]

    def parts(self, name: str) -> Iterator[str | Picture]:
        yield f"{name}, {len(self.pictures)} frames:" if self.kind == "clip" else f"{name}:"
        for text, picture in self.pictures:
            yield text
            yield picture


def shown_question(sample: Sample, endpoint: Endpoint) -> Material:
    """The last question with all media of the row. RewardError, naming the sample, where they cannot be shown."""
    if not sample.messages and not sample.media:
        raise RewardError(
            f"{sample.where}: endpoint.show_media is true, but a stored row has no media to show; judge it by text"
            " (show_media: false)"
        )
    views = _views(sample.media, Sight(*(getattr(endpoint, name) for name in Sight._fields)))
    if isinstance(views, str):
        raise RewardError(f"{sample.where}: {views}")
    question = last_question(sample)
    names = _names(sample.messages, views)
    placed = {part.medium for part in question.parts if isinstance(part, MediaPart)} if question else set()
    before = [medium for medium in names if medium not in placed]
    lines: list[Sequence[str | Picture]] = [["Shown before the question:"]] if before else []
    lines += [list(views[medium].parts(names[medium])) for medium in before]
    return joined(_lines([*lines, *_question_lines(question, views, names)]))


def _question_lines(
    question: Message | None, views: Sequence[View], names: dict[int, str]
) -> Iterator[Sequence[str | Picture]]:
    shown: set[int] = set()
    for part in question.parts if question else ():
        if not isinstance(part, MediaPart):
            yield [part_words(part)]
        elif part.medium in shown:
            yield [f"({names[part.medium]}, shown above)"]
        else:
            shown.add(part.medium)
            yield list(views[part.medium].parts(names[part.medium]))


def _lines(lines: Sequence[Sequence[str | Picture]]) -> Iterator[str | Picture]:
    for number, line in enumerate(lines):
        yield from ("\n", *line) if number else line


def _names(messages: Sequence[Message], views: Sequence[View]) -> dict[int, str]:
    """What each medium is called, in the order in which they are seen; those that nothing places come last."""
    placed = (part.medium for message in messages for part in message.parts if isinstance(part, MediaPart))
    counts: Counter[str] = Counter()
    names = {}
    for medium in dict.fromkeys((*placed, *range(len(views)))):
        kind = views[medium].kind
        counts[kind] += 1
        names[medium] = f"{kind} {counts[kind]}"
    return names


# Completions of one sample come one after the other, with the same media: these are opened and encoded once.
@functools.lru_cache(maxsize=2)
def _views(media: tuple[MediaRef, ...], sight: Sight) -> tuple[View, ...] | str:
    """Every medium as it is shown, or why they cannot be."""
    views: list[View] = []
    count = 0
    for ref in media:
        try:
            views.append(_view(ref, sight))
        except MediaError as error:
            return str(error)
        count += len(views[-1].pictures)
        if count > sight.max_pictures:
            return (
                f"the row shows more pictures and frames than endpoint.max_pictures ({sight.max_pictures}): raise it,"
                " or lower endpoint.max_frames"
            )
    return tuple(views)


def _view(ref: MediaRef, sight: Sight) -> View:
    def small(pixels_HW3: np.ndarray) -> np.ndarray:
        return limited(pixels_HW3, max_pixels=sight.max_pixels)

    if ref.kind == "image":
        assert not isinstance(ref.source, FrameFiles), "frames are a clip's"
        return View("picture", (("\n", encoded(small(open_image(ref.source)), sight.picture_format)),))
    frames = timed_frames(ref, most=sight.max_frames, shrink=small)
    return View("clip", tuple((f"\nat {t:.2f} s:\n", encoded(frame, sight.picture_format)) for t, frame in frames))
