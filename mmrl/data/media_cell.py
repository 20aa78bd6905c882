"""The media of a row: what a dataset writes in a cell becomes MediaRefs, or a DataError that says what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mmrl.data.sample import MediaKind, MediaRef
from mmrl.errors import DataError, MissingMediaError


def read_media_cell(value: Any, kind: MediaKind, *, field: str, root: Path, budget: str | None) -> list[MediaRef]:
    """The media that a cell names: none (null), one (a path), or several (a list of paths).

    field: how errors call the cell. root: absolute folder that relative paths start from. budget: name of the budget
    class of these media. Raises DataError, MissingMediaError for a file that is not there.
    """
    return [MediaRef(kind, _file(path, root), budget=budget) for path in _paths(value, field)]


def _file(written: str, root: Path) -> Path:
    path = root / written
    if path.is_file():
        return path
    raise MissingMediaError(f"no such file: {path}{_path_hint(written, root)}", path=str(path))


def _paths(value: Any, name: str) -> list[str]:
    paths = [] if value is None else [value] if isinstance(value, str) else value
    if not isinstance(paths, list):
        raise DataError(f"{name} must be a path or a list of paths, not {type(value).__name__}")
    for n, path in enumerate(paths):
        if not isinstance(path, str) or not path:
            raise DataError(
                f"{name}[{n}] must be a path, not {'an empty string' if path == '' else type(path).__name__}"
            )
        if "://" in path:
            raise DataError(f"{name}[{n}] is a URL ({path}); download it and name the file")
    return paths


def _path_hint(written: str, root: Path) -> str:
    """What probably went wrong with a path that leads nowhere."""
    if "\\" in written:
        return "; it is written with backslashes, write it with /"
    first = Path(written).parts[0]
    if root.name == first and (root.parent / written).is_file():
        return f"; {root.parent / written} exists: `root` already ends in {first!r}, set it one folder higher"
    if Path(written).is_file() and not Path(written).is_absolute():
        return f"; it exists below the current folder, but paths start from {root}; set the dataset's `root`"
    return ""
