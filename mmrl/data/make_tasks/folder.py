"""What a folder offers: pictures, clips, RGB-D pairs, documents; or the rows of a data file.

A content that stands in several files counts once, for else it could be on both sides of a split.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from mmrl.config.schema import DataSection, DatasetSection
from mmrl.data.make_tasks.puzzle import Source, TaskOptions
from mmrl.data.readers import read_dataset
from mmrl.data.skipped import SkippedLog
from mmrl.errors import ConfigError, DataError

PICTURES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff", ".gif")
CLIPS = (".mp4", ".mkv", ".webm", ".avi", ".mov", ".m4v", ".mpg", ".mpeg")
DOCUMENTS = (".html", ".htm", ".md", ".markdown")
_DEPTH_MARKS = ("_depth", "-depth", ".depth")
_PICTURE_FOLDERS = ("rgb", "color", "colour", "image", "images")

Reason = tuple[str, str]  # what is skipped, why
Found = tuple[list[Source], list[Reason]]


def pictures(folder: Path, options: TaskOptions) -> Found:
    return _distinct(folder, PICTURES)


def clips(folder: Path, options: TaskOptions) -> Found:
    return _distinct(folder, CLIPS)


def documents(folder: Path, options: TaskOptions) -> Found:
    return _distinct(folder, DOCUMENTS)


def depth_pairs(folder: Path, options: TaskOptions) -> Found:
    """Pictures with their depth: `a.jpg` beside `a_depth.png` (or .npy), or `rgb/a.jpg` beside `depth/a.png`."""
    found, skipped = _distinct(folder, PICTURES, wanted=lambda path: not _is_depth(path))
    sources = []
    for source in found:
        depth = _depth_of(source.path)
        if depth is None:
            skipped.append((source.name, "no depth beside it: NAME_depth.png, NAME_depth.npy, or a folder depth/"))
        else:
            sources.append(Source(source.name, source.path, depth=depth))
    return sources, skipped


def rows(file: Path, options: TaskOptions) -> Found:
    """Rows of a data file as samples."""
    section = DatasetSection(path=str(file.absolute()), card=options.card or "easyr1")
    log = SkippedLog(None, max_fraction=1.0)
    data = DataSection(bad_row="skip", bad_media="skip")
    samples = read_dataset(section, data=data, relative_to=Path.cwd(), skipped=log)
    skipped = [(row.where, row.reason) for row in log.rows]
    return [Source(sample.sample_id, file, sample=sample) for sample in samples], skipped


def _distinct(folder: Path, suffixes: tuple[str, ...], *, wanted: Callable[[Path], bool] = lambda path: True) -> Found:
    """Files of these suffixes in the order of their names, a repeated content only once."""
    if not folder.is_dir():
        raise ConfigError(
            f"{folder}: no such folder" if not folder.exists() else f"{folder} is a file, name its folder"
        )
    paths = list(filter(wanted, _files(folder, suffixes)))
    sizes = Counter(path.stat().st_size for path in paths)
    first: dict[bytes, str] = {}
    sources: list[Source] = []
    skipped: list[Reason] = []
    for path in paths:
        name = path.relative_to(folder).as_posix()
        if name != name.encode(errors="replace").decode():
            skipped.append((ascii(name), "its name is not UTF-8; rename it"))
            continue
        if sizes[path.stat().st_size] > 1:  # only then can another hold the same
            same = first.setdefault(_digest(path), name)
            if same != name:
                skipped.append((name, f"the same file as {same}"))
                continue
        sources.append(Source(name, path.absolute()))
    if not sources and not skipped:
        raise DataError(f"{folder}: holds no files of this kind ({', '.join(suffixes)}), nor do its subfolders")
    return sources, skipped


def _digest(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def _files(folder: Path, suffixes: tuple[str, ...]) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.suffix.lower() in suffixes and not hidden and path.is_file():
            yield path


def _is_depth(path: Path) -> bool:
    return path.stem.lower().endswith(_DEPTH_MARKS) or path.parent.name.lower() == "depth"


def _depth_of(path: Path) -> Path | None:
    beside = [path.with_name(f"{path.stem}{mark}{suffix}") for mark in _DEPTH_MARKS for suffix in (".png", ".npy")]
    if path.parent.name.lower() in _PICTURE_FOLDERS:
        folder = path.parent.with_name("depth")
        beside += [folder / f"{path.stem}{suffix}" for suffix in (".png", ".npy")]
    return next((file.absolute() for file in beside if file.is_file()), None)
