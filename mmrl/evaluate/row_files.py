"""Which files a benchmark's rows were read from: names and hashes, for the results."""

from __future__ import annotations

from pathlib import Path

from mmrl.data.cache import PixelCache
from mmrl.data.fingerprint import ContentHashes
from mmrl.data.many_files import files_of
from mmrl.errors import MmrlError
from mmrl.evaluate.benchmark import Benchmark

_DIGITS = 16
_ROWS = frozenset((".arrow", ".csv", ".json", ".jsonl", ".parquet", ".tsv"))


def row_files(benchmark: Benchmark, *, root: Path, cache: Path) -> dict[str, str]:
    """Hash by path from `root`. Of a folder its files of rows, in any depth; of files that are not there nothing.

    A file is read once while it does not change: the cache remembers its hash.
    """
    try:
        named = files_of(root / benchmark.section.data.path)
    except MmrlError:
        return {}
    found = [file for path in named for file in (sorted(path.rglob("*")) if path.is_dir() else [path])]
    rows = [file for file in found if file.is_file() and (file in named or file.suffix in _ROWS)]
    hashes = ContentHashes(cache / PixelCache.INDEX)
    return {_name(file, root): hashes.of(file).sha256[:_DIGITS] for file in rows}


def _name(file: Path, root: Path) -> str:
    return (file.relative_to(root) if file.is_relative_to(root) else file).as_posix()
