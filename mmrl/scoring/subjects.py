"""Which pictures and words a reward compares: what a completion draws, what a row shows, what was recorded.

Shapes: H height, W width, 3 channels (red, green, blue).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from mmrl.data.frame_clips import FrameFilesClip, MemoryClip
from mmrl.data.image import open_image
from mmrl.data.locations import FrameFiles, PdfPage
from mmrl.data.sample import MediaRef, Sample, TextPart
from mmrl.data.video import Clip, open_clip
from mmrl.errors import MediaError, RewardError
from mmrl.scoring.code_blocks import extract_code
from mmrl.scoring.parse import extract_prediction
from mmrl.scoring.pictures import fitted
from mmrl.scoring.references import Render
from mmrl.scoring.sandbox.preflight import require_package, require_program, require_sandbox
from mmrl.scoring.svg import extract_svg, is_allowed

Draws = Literal["svg", "html", "chart"]
Shrink = Callable[[np.ndarray], np.ndarray]
LONGEST_PX = 512
"""Longest side of pictures that encoders see; their own transforms make them smaller still."""

_CLIPS = frozenset((".mp4", ".mkv", ".webm", ".mov", ".avi", ".gif"))
_RENDERERS = {"svg": "mmrl.scoring.svg", "html": "mmrl.scoring.browser", "chart": "mmrl.scoring.chart"}


def renderer(draws: Draws) -> Render:
    """The function that renders code of a kind; the same one at each call."""
    import importlib

    return getattr(importlib.import_module(_RENDERERS[draws]), f"render_{draws}")


def drawn_code(completion: str, draws: Draws) -> str | None:
    """The code that a completion draws with; None where there is none, or an SVG that writes text."""
    if draws == "svg":
        svg = extract_svg(completion.rpartition("</think>")[2])
        return svg if svg is not None and is_allowed(svg) else None
    return extract_code(completion, languages=("html", "htm")) if draws == "html" else extract_code(completion)


def drawn_picture(completion: str, draws: Draws, *, time_limit_s: float) -> np.ndarray | None:
    """What a completion's code renders to, uint8 RGB (H, W, 3); None where it has none or it does not render."""
    code = drawn_code(completion, draws)
    render: Callable[..., np.ndarray | None] = renderer(draws)
    picture = render(code, time_limit_s=time_limit_s) if code else None
    return None if picture is None else fitted(picture, longest=LONGEST_PX)


def require_renderer(what: str, draws: Draws, options: Mapping[str, Any], *, timeout_s: float) -> None:
    """For `preflight`: ConfigError where this machine cannot render what a reward must, under the reward's options."""
    if draws == "html":
        from mmrl.scoring.browser import PROGRAMS

        require_program(PROGRAMS[:1], what=what, install="apt-get install chromium-headless-shell")
    else:
        package = "resvg_py" if draws == "svg" else "matplotlib"
        require_package(package, what=what, install="pip install 'mmrl[render]'")
    require_sandbox(what, options, timeout_s=timeout_s)


def spoken(completion: str) -> str:
    """What a completion says: its answer, else the text after its thought; nothing where the thought never ends."""
    return extract_prediction(completion) or ""


def row_picture(sample: Sample, *, place: int = 0) -> np.ndarray:
    """One of the row's pictures, by its place. RewardError, naming the sample, where it has none."""
    images = [medium for medium in sample.media if medium.kind == "image"]
    if not images:
        raise RewardError(f"{sample.where}: the row has no picture")
    try:
        return _picture(images[place])
    except MediaError as error:
        raise RewardError(f"{sample.where}: {error}") from error


def _picture(ref: MediaRef) -> np.ndarray:
    assert not isinstance(ref.source, FrameFiles), "frames are a clip's"
    return _small(open_image(ref.source))


def words_of(sample: Sample, *, column: str | None = None) -> str:
    """The text of a column, else the row's answer. RewardError, naming the sample, where it is no text."""
    value = sample.answer if column is None else sample.columns.get(column)
    if not isinstance(value, str) or not value.strip():
        name = "the answer" if column is None else f"the column {column!r}"
        raise RewardError(f"{sample.where}: {name} is {value!r:.80}, not the words of what should be seen")
    return value.strip()


def instruction_of(sample: Sample, *, column: str | None = None) -> str:
    """What the row asks for: the text of a column, else of its last question. RewardError where there is none."""
    if column is not None:
        return words_of(sample, column=column)
    questions = [message for message in sample.messages if message.role == "user"]
    parts = questions[-1].parts if questions else ()
    text = " ".join(part.text.strip() for part in parts if isinstance(part, TextPart)).strip()
    if not text:
        raise RewardError(f"{sample.where}: the row asks nothing; name the instruction's column as `text_column`")
    return text


@dataclass(frozen=True, slots=True)
class Footage:
    """Where a reward finds the frames that it scores.

    column: a column that names a clip, a picture or a list of pictures by paths (relative ones start in the current
        folder); None: the row's first clip, else its pictures in order, without the first `skip` of them.
    most: frames taken at most, evenly.
    """

    column: str | None = None
    most: int = 16
    skip: int = 0

    def frames(self, sample: Sample) -> list[np.ndarray]:
        """Frames in order, uint8 RGB (H, W, 3), at most LONGEST_PX long. RewardError, naming the sample."""
        try:
            found = self._found(sample)
        except MediaError as error:
            raise RewardError(f"{sample.where}: {error}") from error
        if not found:
            raise RewardError(f"{sample.where}: the row has no frames to score, neither a clip nor pictures")
        return found

    def _found(self, sample: Sample) -> list[np.ndarray]:
        if self.column is None:
            return media_frames(sample.media, most=self.most, skip=self.skip)
        value: Any = sample.columns.get(self.column)
        paths = value if isinstance(value, list | tuple) else [value]
        if not paths or not all(isinstance(path, str) and path for path in paths):
            fact = f"the column {self.column!r} is {value!r:.80}, not a path or a list of paths"
            raise RewardError(f"{sample.where}: {fact}")
        return path_frames(paths, most=self.most)


def path_frames(paths: Sequence[str], *, most: int) -> list[np.ndarray]:
    """Frames of the first clip among files, else the pictures. MediaError for one that cannot be opened."""
    places = [Path(path).expanduser().absolute() for path in paths]
    media = [MediaRef("video" if place.suffix.lower() in _CLIPS else "image", place) for place in places]
    return media_frames(media, most=most)


def media_frames(media: Sequence[MediaRef], *, most: int, skip: int = 0) -> list[np.ndarray]:
    """Frames of the first clip, evenly, else the pictures without the first `skip`. MediaError as `path_frames`."""
    clip = next((medium for medium in media if medium.kind == "video"), None)
    if clip is not None:
        return clip_frames(clip, most=most)
    images = [medium for medium in media if medium.kind == "image"][skip:]
    return [_picture(images[index]) for index in evenly(len(images), most)]


def evenly(count: int, most: int) -> list[int]:
    """At most `most` of `count` places, evenly, with the first and the last.

    >>> evenly(10, 4), evenly(3, 16), evenly(5, 1)
    ([0, 3, 6, 9], [0, 1, 2], [4])
    """
    if count <= most:
        return list(range(count))
    return [count - 1] if most == 1 else np.linspace(0, count - 1, most).round().astype(int).tolist()


def clip_frames(ref: MediaRef, *, most: int, reader: str = "pyav") -> list[np.ndarray]:
    """Frames of the part of a clip that its row shows, evenly. MediaError for a clip whose frames do not decode."""
    return [frame for _, frame in timed_frames(ref, most=most, shrink=_small, reader=reader)]


def _small(picture_HW3: np.ndarray) -> np.ndarray:
    return fitted(picture_HW3, longest=LONGEST_PX)


def timed_frames(ref: MediaRef, *, most: int, shrink: Shrink, reader: str = "pyav") -> list[tuple[float, np.ndarray]]:
    """Frames as `clip_frames` takes them, with their seconds after the start of the part that is shown.

    shrink: makes each smaller as it is decoded, so that one at a time is in memory at full size.
    """
    source = ref.source
    assert not isinstance(source, PdfPage), "a page is a picture"
    if isinstance(source, np.ndarray):
        return _taken(MemoryClip(source, fps=ref.source_fps), ref, most, shrink)
    if isinstance(source, FrameFiles):
        return _taken(FrameFilesClip(source, fps=ref.source_fps), ref, most, shrink)
    from mmrl.data.file_bytes import as_path

    with as_path(source) as path, open_clip(path, reader=reader) as clip:
        return _taken(clip, ref, most, shrink)


def _taken(clip: Clip, ref: MediaRef, most: int, shrink: Shrink) -> list[tuple[float, np.ndarray]]:
    from mmrl.data.opening import span_frames

    span = span_frames(clip.info, ref)
    wanted = [span[index] for index in evenly(len(span), most)]
    found = {index: shrink(frame) for index, frame in clip.frames(wanted)}
    missing = [index for index in wanted if index not in found]
    if missing:
        raise MediaError(ref.source, f"{len(missing)} of {len(wanted)} frames do not decode, frame {missing[0]} first")
    return [(clip.info.timestamps_s[index] - (ref.start_s or 0.0), found[index]) for index in wanted]
