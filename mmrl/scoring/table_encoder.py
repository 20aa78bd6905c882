"""An encoder whose vectors are written down: for golden cases and for trying rewards out without weights."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np

from mmrl.errors import ConfigError
from mmrl.scoring.encoders import Reads

_FREE = 16


class TableModel:
    """Texts by themselves, pictures by their mean colour (`#ff0000`); what is not listed gets a direction of its own.

    Such a direction is at a right angle to everything listed.

    >>> table = TableModel({"a red square": (1.0, 0.0), "#ff0000": (0.6, 0.8)})
    >>> red = np.full((2, 2, 3), (255, 0, 0), dtype=np.uint8)
    >>> float(table.texts(["a red square"])[0] @ table.pictures([red])[0])
    0.6
    """

    reads: frozenset[Reads] = frozenset(("pictures", "texts"))

    def __init__(self, vectors: Mapping[str, Sequence[float]]) -> None:
        widths = {len(vector) for vector in vectors.values()}
        if len(widths) != 1 or 0 in widths:
            raise ConfigError("vectors of a table are one or more, all of one length above 0")
        (self._width,) = widths
        self._vectors = vectors

    def pictures(self, pictures: Sequence[np.ndarray]) -> np.ndarray:
        return np.stack([self._vector(mean_colour(picture)) for picture in pictures])

    def texts(self, texts: Sequence[str]) -> np.ndarray:
        return np.stack([self._vector(text) for text in texts])

    def is_too_long(self, text: str) -> bool:
        return False

    def layers(self, pictures: Sequence[np.ndarray]) -> list[list[np.ndarray]]:
        raise ConfigError("a table of vectors has no layers; use an encoder of kind 'timm'")

    def _vector(self, key: str) -> np.ndarray:
        free = np.zeros(_FREE)
        if key in self._vectors:
            return np.concatenate([self._vectors[key], free])
        bits = np.frombuffer(hashlib.blake2b(key.encode("utf-8", "replace"), digest_size=_FREE).digest(), np.uint8)
        return np.concatenate([np.zeros(self._width), np.where(bits & 1, 1.0, -1.0)])


def mean_colour(picture_HW3: np.ndarray) -> str:
    """The mean of all pixels as `#rrggbb`."""
    return "#" + "".join(f"{round(value):02x}" for value in picture_HW3.reshape(-1, 3).mean(axis=0))
