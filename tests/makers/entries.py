"""Entries of a pixel cache as files: found, read and damaged by path."""

import os
from pathlib import Path

import numpy as np
from PIL import Image

from mmrl.data.entry_file import StoredEntry, read_entry
from mmrl.data.mapping import read_file
from mmrl.data.sample import MediaRef
from mmrl.data.store import SUFFIX

OLD_NS = 10**18


def picture(path: Path, *, size=(100, 80), seed=0) -> MediaRef:
    """A picture of noise, made long ago so that its hash is remembered."""
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    os.utime(path, ns=(OLD_NS, OLD_NS))
    return MediaRef("image", path)


def entry_files(cache: Path) -> list[Path]:
    """The loose entries of a cache folder, in the order of their keys."""
    return sorted((cache / "pixels").glob(f"*/*{SUFFIX}"))


def read_entry_file(path: Path, *, verify: bool = True) -> StoredEntry:
    return read_entry(path, read_file(str(path)).bytes_N, verify=verify)


def flip(path: Path, position: int) -> None:
    """Flip one bit of a byte."""
    with path.open("r+b") as file:
        file.seek(position, 2 if position < 0 else 0)
        (byte,) = file.read(1)
        file.seek(position, 2 if position < 0 else 0)
        file.write(bytes([byte ^ 1]))
