"""The media of a row: what a dataset writes in a cell becomes MediaRefs, or a DataError that says what is wrong.

One medium is a string (path, URL, data URI, `a.zip::b.png`, `x.pdf#page=3`), bytes, a list of frame files inside the
cell's own list, or a mapping as Qwen-VL rows have it: where the medium is, which part of it, what it may cost.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmrl.data.locate import Locator, MediaRules, decode_base64
from mmrl.data.locations import FileSource, FrameFiles, MediaSource, PdfPage, RawBytes
from mmrl.data.sample import MediaKind, MediaRef
from mmrl.errors import DataError, did_you_mean, type_words

_SOURCES = ("image", "video", "path", "bytes", "url", "frames")
# Key as rows write it -> key of ours. What says the same may be given once.
_BUDGET_KEYS = {
    "min_pixels": "min_pixels",
    "max_pixels": "max_pixels",
    "total_pixels": "total_pixels",
    "min_frames": "min_frames",
    "max_frames": "max_frames",
    "nframes": "nframes",
    "fps": "sample_fps",
    "sample_fps": "sample_fps",
}
_CLIP_KEYS = {
    "start_s": "start_s",
    "video_start": "start_s",
    "end_s": "end_s",
    "video_end": "end_s",
    "source_fps": "source_fps",
    "raw_fps": "source_fps",
}
_IMAGE_KEYS = ("type", "budget", "min_pixels", "max_pixels", "page", "dpi")
_VIDEO_KEYS = ("type", "budget", *_BUDGET_KEYS, *_CLIP_KEYS)
_SECONDS = {"start_s", "end_s", "source_fps", "sample_fps"}


def read_media_cell(
    value: Any, kind: MediaKind, *, field: str, root: Path, budget: str | None, rules: MediaRules | None = None
) -> list[MediaRef]:
    """The media that a cell names: none (null), one, or several (a list).

    field: how errors call the cell. root: absolute folder that relative paths start from. budget: name of the budget
    class of these media. Raises DataError, MissingMediaError for a file that is not there.

    `["a.png", {"image": "b.png", "max_pixels": 50176}]` are two pictures, the second with a budget of its own.
    """
    cell = _Cell(Locator(kind, root, rules or MediaRules()), budget)
    if value is None:
        return []
    if isinstance(value, list | tuple):
        return [cell.medium(item, f"{field}[{number}]") for number, item in enumerate(value)]
    if not isinstance(value, str | bytes | Mapping):
        raise DataError(f"{field} must be a path, a mapping, bytes, or a list of such, not {type_words(value)}")
    return [cell.medium(value, f"{field}[0]")]


@dataclass(frozen=True)
class _Cell:
    """Reads the media of one cell."""

    locator: Locator
    budget: str | None

    @property
    def kind(self) -> MediaKind:
        return self.locator.kind

    def medium(self, value: Any, name: str) -> MediaRef:
        if not isinstance(value, Mapping):
            return self._ref(self._source(value, name), {}, name)
        given = {key: item for key, item in value.items() if item is not None}
        self._check_keys(given, name)
        written = {key: given.pop(key) for key in _SOURCES if key in given}
        return self._ref(self._source_of(written, name), given, name)

    def _check_keys(self, given: Mapping[str, Any], name: str) -> None:
        known = (*_SOURCES, *(_IMAGE_KEYS if self.kind == "image" else _VIDEO_KEYS))
        for key in given:
            if key not in known:
                hint = did_you_mean(str(key), known)
                raise DataError(f"{name}: unknown key {key!r}; known for {_a(self.kind)}: {', '.join(known)}{hint}")
        if given.get("type", self.kind) != self.kind:
            raise DataError(f"{name}: type {given['type']!r} in a cell that holds media of kind {self.kind!r}")

    def _source_of(self, written: Mapping[str, Any], name: str) -> MediaSource:
        """The one place that a mapping names. `bytes` with a `path` is a file whose name is only a name."""
        if set(written) == {"bytes", "path"}:
            return self._bytes(written["bytes"], f"{written['path']} in {name}")
        if len(written) != 1:
            found = " and ".join(map(repr, written)) or "none"
            raise DataError(f"{name}: a mapping names one medium by one of {', '.join(_SOURCES)}; it has {found}")
        ((key, value),) = written.items()
        if key in ("image", "video") and key != self.kind:
            raise DataError(f"{name}: key {key!r} in a cell that holds media of kind {self.kind!r}")
        name = f"{name}.{key}"
        if key == "bytes":
            return self._bytes(value, name)
        found = self._struct(value, name) if isinstance(value, Mapping) else self._source(value, name)
        if key == "frames" and not isinstance(found, FrameFiles):
            raise DataError(f"{name} must be a list of picture files or a folder of them, not {found}")
        return found

    def _struct(self, value: Mapping[str, Any], name: str) -> MediaSource:
        """`{bytes, path}`, as the Image and Video features of Hugging Face datasets are stored."""
        inner = {key: item for key, item in value.items() if item is not None}
        if not set(inner) <= {"bytes", "path"}:
            raise DataError(f"{name}: a mapping inside a medium holds `bytes` and `path`, not {', '.join(inner)}")
        return self._source_of(inner, name)

    def _bytes(self, value: Any, name: str) -> RawBytes:
        if isinstance(value, str):
            return RawBytes(decode_base64(value, name), f"base64 of {name}")
        if not isinstance(value, bytes | bytearray | memoryview):
            raise DataError(f"{name}: `bytes` must hold bytes or base64, not {type_words(value)}")
        if not value:
            raise DataError(f"{name}: holds no bytes")
        return RawBytes(bytes(value), f"{self.kind} bytes of {name}")

    def _source(self, value: Any, name: str) -> MediaSource:
        if isinstance(value, bytes | bytearray | memoryview):
            return self._bytes(value, name)
        if isinstance(value, list | tuple):
            return self._frames(list(value), name)
        if not isinstance(value, str) or not value:
            raise DataError(f"{name} must be a path, not {'an empty string' if value == '' else type_words(value)}")
        return self.locator.locate(value, name)

    def _frames(self, values: list[Any], name: str) -> FrameFiles:
        if self.kind != "video":
            raise DataError(f"{name} is a list; only a clip is a list of frame files")
        if not values:
            raise DataError(f"{name}: a clip without frames")
        return FrameFiles(tuple(self._frame(value, f"{name}[{n}]") for n, value in enumerate(values)), name)

    def _frame(self, value: Any, name: str) -> FileSource:
        found = self._struct(value, name) if isinstance(value, Mapping) else self._source(value, name)
        if not isinstance(found, FileSource):
            raise DataError(f"{name}: a frame must be one picture file, not {found}")
        return found

    def _ref(self, source: MediaSource, given: Mapping[str, Any], name: str) -> MediaRef:
        values = _numbers(given, name)
        if "page" in values or "dpi" in values:
            source = self._page(source, values, name)
        budget = given.get("budget", self.budget)
        if not isinstance(budget, str | None):
            raise DataError(f"{name}: budget must be the name of a budget class, not {budget!r}")
        return MediaRef(
            self.kind,
            source,
            budget=budget,
            source_fps=self._source_fps(source, values.get("source_fps"), name),
            start_s=values.get("start_s"),
            end_s=values.get("end_s"),
            budget_keys=_budget_keys(values, name),
        )

    def _page(self, source: MediaSource, values: Mapping[str, float], name: str) -> PdfPage:
        dpi = int(values.get("dpi", self.locator.rules.pdf_dpi))
        if isinstance(source, PdfPage):
            if "page" in values:
                raise DataError(f"{name}: `page` and {source} both name a page; keep one")
            return PdfPage(source.file, source.page, dpi)
        if "page" not in values:
            raise DataError(f"{name}: dpi is for PDF pages; name the page too")
        return self.locator.page(source, int(values["page"]), dpi)

    def _source_fps(self, source: MediaSource, given: float | None, name: str) -> float | None:
        if not isinstance(source, FrameFiles):
            if given is not None:
                raise DataError(f"{name}: source_fps is for clips given as frames; a clip file says its own rate")
            return None
        fps = given or self.locator.rules.source_fps
        if fps is None:
            raise DataError(
                f"{name}: a clip given as frames needs their rate; write {{frames: ..., source_fps: N}} in the row, or "
                "set the dataset's `source_fps`"
            )
        return fps


def _numbers(given: Mapping[str, Any], name: str) -> dict[str, float]:
    """The mapping's numbers under our names, checked one by one."""
    values: dict[str, float] = {}
    names = {**_BUDGET_KEYS, **_CLIP_KEYS, "page": "page", "dpi": "dpi"}
    for key, value in given.items():
        if key in ("type", "budget"):
            continue
        ours = names[key]
        if ours in values:
            twin = next(other for other in given if names.get(other) == ours and other != key)
            raise DataError(f"{name}: {twin!r} and {key!r} say the same; keep one")
        values[ours] = _number(value, ours, f"{name}: {key}")
    if values.get("end_s", math.inf) <= values.get("start_s", 0.0):
        raise DataError(f"{name}: the span from {values.get('start_s', 0.0):g} to {values['end_s']:g} s holds no time")
    return values


def _number(value: Any, ours: str, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise DataError(f"{name} must be a number, not {value!r}")
    least_is_zero = ours == "start_s"
    if value < 0 or (value == 0 and not least_is_zero):
        raise DataError(f"{name} must be {'at least' if least_is_zero else 'above'} 0, not {value!r}")
    if ours in _SECONDS:
        return float(value)
    if int(value) != value:
        raise DataError(f"{name} must be a whole number, not {value!r}")
    return int(value)


def _budget_keys(values: Mapping[str, float], name: str) -> dict[str, float]:
    """Keys of a budget class. `nframes: n` is a clip of n frames, whatever the rate."""
    keys = {key: values[key] for key in values if key in set(_BUDGET_KEYS.values()) - {"nframes"}}
    if "nframes" in values:
        beside = sorted(keys.keys() & {"sample_fps", "min_frames", "max_frames"})
        if beside:
            raise DataError(f"{name}: nframes fixes the number of frames; remove {' and '.join(beside)}")
        keys |= {"min_frames": values["nframes"], "max_frames": values["nframes"]}
    for low, high in (("min_pixels", "max_pixels"), ("min_frames", "max_frames")):
        if keys.get(low, 0) > keys.get(high, math.inf):
            raise DataError(f"{name}: {low} {keys[low]} is above {high} {keys[high]}")
    return keys


def _a(kind: MediaKind) -> str:
    return "an image" if kind == "image" else "a clip"
