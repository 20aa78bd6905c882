"""What a result says of the weights that it was made with."""

from __future__ import annotations

import hashlib
from pathlib import Path

from mmrl.config.schema import ModelSection
from mmrl.data.cache import PixelCache
from mmrl.data.fingerprint import ContentHashes
from mmrl.models.hub import commit_of
from mmrl.models.load import source_folders

_FILES = (".safetensors", ".bin", ".json", ".jinja")


def weights_hash(section: ModelSection, cache: Path) -> str:
    """Of the contents of the model's files, of an adapter those of its base too; of a hub id the commit.

    Hashes of files are remembered beside the pixel cache, so that each is read once.
    """
    cache.mkdir(parents=True, exist_ok=True)
    hashes = ContentHashes(cache / PixelCache.INDEX)
    first, *base = source_folders(section)
    lines = [*_lines(first, hashes), *(f"base/{line}" for folder in base for line in _lines(folder, hashes))]
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:16]


def _lines(folder: Path, hashes: ContentHashes) -> list[str]:
    if (commit := commit_of(folder)) is not None:
        return [f"commit {commit}\n"]
    files = sorted(path for path in folder.iterdir() if path.suffix in _FILES)
    return [f"{file.name} {hashes.of(file).sha256}\n" for file in files]
