"""Frozen encoders of pictures and texts for rewards: loaded once per process, batched, remembered by content.

Shapes: N pictures or texts, D values of a vector, H height, W width, 3 channels (red, green, blue).
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

import numpy as np

from mmrl.config.encoder_section import EncoderSection, read_encoder
from mmrl.errors import ConfigError, RewardError

Reads = Literal["pictures", "texts"]
T = TypeVar("T")


class EncoderModel(Protocol):
    """What computes vectors, of any length. reads: what it can be given."""

    reads: frozenset[Reads]

    def pictures(self, pictures: Sequence[np.ndarray]) -> np.ndarray:
        """Float (N, D) of uint8 RGB pictures (H, W, 3)."""
        ...

    def texts(self, texts: Sequence[str]) -> np.ndarray:
        """Float (N, D)."""
        ...

    def is_too_long(self, text: str) -> bool:
        """Whether the end of a text would not be seen."""
        ...

    def layers(self, pictures: Sequence[np.ndarray]) -> list[list[np.ndarray]]:
        """Per picture the feature maps (C, H, W) of the model's stages. ConfigError where it has none."""
        ...


class Encoder:
    """An encoder model with its memory. Vectors come out as float32 of length 1; threads may share it.

    section: as configured. model: what computes.
    """

    def __init__(self, section: EncoderSection, model: EncoderModel) -> None:
        self.section, self.model = section, model
        self._known: OrderedDict[bytes, np.ndarray] = OrderedDict()
        self._lock = threading.Lock()
        self.computed = 0

    def pictures(self, pictures: Sequence[np.ndarray]) -> np.ndarray:
        """Float32 (N, D) of uint8 RGB pictures (H, W, 3); equal pictures are computed once."""
        self._require("pictures")
        return self._vectors([_picture_key(p) for p in pictures], pictures, self.model.pictures)

    def texts(self, texts: Sequence[str]) -> np.ndarray:
        """Float32 (N, D). Of a text above the encoder's length only the beginning is seen: see `refuses`."""
        self._require("texts")
        keys = [hashlib.blake2b(b"text" + t.encode("utf-8", "replace"), digest_size=16).digest() for t in texts]
        return self._vectors(keys, texts, self.model.texts)

    def layers(self, pictures: Sequence[np.ndarray]) -> list[list[np.ndarray]]:
        """Per picture the feature maps (C, H, W) of the model's stages. Not remembered: they are large."""
        self._require("pictures")
        size = self.section.batch_size
        parts = (self.model.layers(pictures[start : start + size]) for start in range(0, len(pictures), size))
        return [maps for part in parts for maps in part]

    def _require(self, reads: Reads) -> None:
        if reads not in self.model.reads:
            raise ConfigError(f"an encoder of kind {self.section.kind!r} with these weights reads no {reads}")

    def refuses(self, text: str) -> bool:
        """Whether the end of a text would not be seen, and `long_text` is `error`."""
        return self.section.long_text == "error" and self.model.is_too_long(text)

    def check_text(self, text: str, *, where: str) -> str:
        """The text of a row. RewardError, with the remedy, where the encoder refuses it."""
        if self.refuses(text):
            raise RewardError(
                f"{where}: a text of {len(text)} characters is longer than the encoder reads: {text[:60]!r}...; "
                "shorten it, or set long_text: cut in the encoder's options to leave its end out"
            )
        return text

    def _vectors(
        self, keys: Sequence[bytes], items: Sequence[T], compute: Callable[[Sequence[T]], np.ndarray]
    ) -> np.ndarray:
        """What is remembered, and the rest computed in batches."""
        with self._lock:
            found = {key: self._known[key] for key in keys if key in self._known}
            missing = {key: item for key, item in zip(keys, items, strict=True) if key not in found}
            names, values = list(missing), list(missing.values())
            for start in range(0, len(names), self.section.batch_size):
                part = slice(start, start + self.section.batch_size)
                found.update(zip(names[part], unit(compute(values[part])), strict=True))
            self.computed += len(names)
            self._remember(keys, found)
        return np.stack([found[key] for key in keys]) if len(keys) else np.zeros((0, 0), dtype=np.float32)

    def _remember(self, keys: Sequence[bytes], found: Mapping[bytes, np.ndarray]) -> None:
        for key in keys:
            self._known[key] = found[key]
            self._known.move_to_end(key)
        while len(self._known) > self.section.remembered:
            self._known.popitem(last=False)


def unit(vectors_ND: np.ndarray) -> np.ndarray:
    """The vectors at length 1, float32; one of zeros stays as it is.

    >>> unit(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    vectors_ND = np.asarray(vectors_ND, dtype=np.float32)
    lengths_N1 = np.linalg.norm(vectors_ND, axis=-1, keepdims=True)
    return vectors_ND / np.where(lengths_N1 > 0, lengths_N1, 1.0)


def _picture_key(picture_HW3: np.ndarray) -> bytes:
    data = np.ascontiguousarray(picture_HW3)
    return hashlib.blake2b(repr(data.shape).encode() + data.tobytes(), digest_size=16).digest()


_encoders: dict[str, Encoder] = {}
_loading = threading.Lock()


def load_encoder(section: EncoderSection, *, name: str = "encoder") -> Encoder:
    """A new encoder. ConfigError, with the remedy, for weights that are missing or do not fit, and for no device."""
    if section.kind == "table":
        from mmrl.scoring.table_encoder import TableModel

        return Encoder(section, TableModel(section.vectors))
    if not section.weights:
        raise ConfigError(f"{name}.weights is missing; an encoder of kind {section.kind!r} is loaded from a path")
    if not Path(section.weights).exists():
        raise ConfigError(
            f"{name}.weights: there is no {section.weights}; nothing is downloaded: fetch the weights on a machine "
            "with a connection, copy them here and name the path"
        )
    from mmrl.scoring.encoder_models import load_model

    try:
        return Encoder(section, load_model(section))
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from error


def encoder_of(options: Mapping[str, Any] | EncoderSection, *, name: str = "encoder") -> Encoder:
    """The encoder of an option, one per process and set of keys. Raises as `load_encoder`."""
    section = options if isinstance(options, EncoderSection) else read_encoder(options, name=name)
    key = section.model_dump_json()
    with _loading:
        if key not in _encoders:
            _encoders[key] = load_encoder(section, name=name)
        return _encoders[key]


def check_encoder(options: Mapping[str, Any], *, name: str = "encoder", reads: Sequence[Reads]) -> None:
    """For `preflight`: ConfigError where the encoder cannot be loaded, or does not read what is wanted of it.

    It is loaded here and let go of: only a load shows that weights fit. Rewards load it in their own processes.
    """
    encoder = load_encoder(read_encoder(options, name=name), name=name)
    for wanted in reads:
        if wanted not in encoder.model.reads:
            can = " and ".join(sorted(encoder.model.reads))
            raise ConfigError(f"{name} must read {wanted}; one of kind {encoder.section.kind!r} reads {can} only")


def fingerprint(section: EncoderSection) -> str:
    """Identity of an encoder by what determines its vectors: kind, architecture, and the content of its weights."""
    digest = hashlib.blake2b(digest_size=16)
    shown = section.model_dump_json(include={"kind", "model", "image_size", "vectors"}, exclude_none=True)
    digest.update(shown.encode())
    root = Path(section.weights) if section.weights else None
    files = [] if root is None else sorted(p for p in root.rglob("*") if p.is_file()) if root.is_dir() else [root]
    for file in files:
        if file.suffix in (".safetensors", ".pt", ".pth", ".bin", ".json", ".txt", ".model"):
            digest.update(file.name.encode())
            with file.open("rb") as handle:
                digest.update(hashlib.file_digest(handle, "blake2b").digest())
    return digest.hexdigest()
