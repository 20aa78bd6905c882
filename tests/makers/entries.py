"""Entries of a pixel cache as files: found, read and damaged by path."""

from pathlib import Path

from mmrl.data.entry_file import StoredEntry, read_entry
from mmrl.data.store import SUFFIX, map_file


def entry_files(cache: Path) -> list[Path]:
    """The loose entries of a cache folder, in the order of their keys."""
    return sorted((cache / "pixels").glob(f"*/*{SUFFIX}"))


def read_entry_file(path: Path, *, verify: bool = True) -> StoredEntry:
    return read_entry(path, map_file(str(path), path.stat().st_size), verify=verify)


def flip(path: Path, position: int) -> None:
    """Flip one bit of a byte."""
    with path.open("r+b") as file:
        file.seek(position, 2 if position < 0 else 0)
        (byte,) = file.read(1)
        file.seek(position, 2 if position < 0 else 0)
        file.write(bytes([byte ^ 1]))
