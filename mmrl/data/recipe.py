"""Recipe: everything besides a source's content that decides the pixels of a cached medium.

Two equal recipes make equal pixels of equal content, so sha256(content, recipe) names an entry, and an entry made
with another clip length, rate, size, reader or library version has another name and cannot be returned.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from mmrl.config.schema import BudgetClass, VideoSection
from mmrl.data.fingerprint import Fingerprint
from mmrl.data.locations import FrameFiles, PdfPage
from mmrl.data.opening import OpenJob, reader_of
from mmrl.data.sample import MediaKind, MediaRef
from mmrl.data.vision import VisionGeometry

# Raised whenever the same fields come to mean other pixels: changed arithmetic, changed layout of an entry.
FORMAT = 2
PART_FIELDS = frozenset({"start_s", "end_s", "page"})
_IMAGE_BUDGET = frozenset({"min_pixels", "max_pixels"})


@dataclass(frozen=True, slots=True)
class Recipe:
    """A recipe as canonical JSON: sorted keys, no blanks. Equal text, equal recipe.

    Fields: format, kind, budget, sizing (of the family), resize, reader, broken_tail. Those that cannot matter to an
    image (frames, rates) are left out of an image's recipe, so changing `max_frames` keeps every cached image. Only
    where a medium has them: start_s and end_s, source_fps of frame files, page and dpi of a PDF. PART_FIELDS say what
    is shown of a file, and so differ from entry to entry.
    """

    text: str

    @property
    def fields(self) -> dict[str, Any]:
        """The recipe as nested dictionaries."""
        return json.loads(self.text)

    def without_part(self) -> Recipe:
        """The same for any part of a file."""
        fields = {name: value for name, value in self.fields.items() if name not in PART_FIELDS}
        return Recipe(_canonical(fields))

    def key(self, source: Fingerprint) -> str:
        """Name of the entry of this source: 64 hex digits."""
        return hashlib.sha256(f"{source.sha256}\n{self.text}".encode()).hexdigest()


def recipe_of(job: OpenJob, video: VideoSection) -> Recipe:
    """Recipe of a medium opened as `video` says."""
    is_stream = job.ref.kind == "video" and not isinstance(job.ref.source, FrameFiles)
    broken_tail = video.broken_tail if is_stream else None
    reader = reader_of(job.ref, video)
    # Frozen sections hash by value, which pyright cannot see.
    return _make_recipe(job.ref.kind, job.budget, job.geometry, reader, broken_tail, _part(job.ref))  # pyright: ignore[reportArgumentType]


def _part(ref: MediaRef) -> tuple[tuple[str, float], ...]:
    """What is shown of the content, as fields of the recipe; empty for all of an ordinary file."""
    fields: dict[str, float | None] = {"start_s": ref.start_s or None, "end_s": ref.end_s}
    if isinstance(ref.source, FrameFiles):
        fields["source_fps"] = ref.source_fps
    given = tuple((name, float(value)) for name, value in fields.items() if value is not None)  # 2 and 2.0 are one
    if isinstance(ref.source, PdfPage):
        given += (("page", ref.source.page), ("dpi", ref.source.dpi))
    return given


@functools.lru_cache(maxsize=1024)
def _make_recipe(
    kind: MediaKind,
    budget: BudgetClass,
    geometry: VisionGeometry,
    reader: str,
    broken_tail: str | None,
    part: tuple[tuple[str, float], ...],
) -> Recipe:
    budget_fields = budget.model_dump()
    if kind == "image":
        budget_fields = {name: budget_fields[name] for name in _IMAGE_BUDGET}
    fields = {
        "format": FORMAT,
        "kind": kind,
        "budget": budget_fields,
        "sizing": geometry.sizing(kind),
        "resize": f"{geometry.resample}, antialias, uint8, torch {_torch_version()}",
        "reader": reader,
        "broken_tail": broken_tail,
        **dict(part),
    }
    return Recipe(_canonical(fields))


def _canonical(fields: Mapping[str, Any]) -> str:
    return json.dumps(fields, sort_keys=True, separators=(",", ":"))


@functools.cache
def _torch_version() -> str:
    # The local part (+cpu, +cu130) names the build; the resize runs on the CPU by the same code in all of them.
    return version("torch").partition("+")[0]


def told_apart(recipes: Sequence[Recipe]) -> list[str]:
    """For each recipe the fields in which they are not all equal, e.g. `budget.min_frames 4, resize bicubic`."""
    fields = [dict(_leaves(recipe.fields)) for recipe in recipes]
    names = sorted({name for own in fields for name in own if any(other.get(name) != own[name] for other in fields)})
    return [", ".join(f"{name} {own.get(name)}" for name in names) for own in fields]


def differences(wanted: Recipe, stored: Recipe) -> list[str]:
    """One line per field that differs, e.g. `budget.max_pixels: wanted 602112, stored 200704`."""
    ours, theirs = dict(_leaves(wanted.fields)), dict(_leaves(stored.fields))
    names = sorted(ours.keys() | theirs.keys())
    return [
        f"{name}: wanted {ours.get(name)}, stored {theirs.get(name)}"
        for name in names
        if ours.get(name) != theirs.get(name)
    ]


def _leaves(fields: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in fields.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value
