"""The tensors of a model folder, read one at a time from its safetensors files. Nothing is unpickled."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from safetensors import SafetensorError, safe_open

from mmrl.errors import ConfigError
from mmrl.models.lora import ADAPTER_CONFIG

INDEX = "model.safetensors.index.json"


class WeightFiles:
    """A model folder's tensors by name; a checkpoint's folder stands for the `model/` in it.

    files: file name -> names of its tensors, in the files' order. Raises ConfigError for a folder without safetensors.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "model" if (folder / "model").is_dir() else folder
        self._held = ExitStack()
        self._handles: dict[str, Any] = {name: self._open(name) for name in self._file_names()}
        self.files = {name: list(handle.keys()) for name, handle in self._handles.items()}
        self._file_of = {tensor: name for name, tensors in self.files.items() for tensor in tensors}

    def __enter__(self) -> WeightFiles:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.close()

    def __iter__(self) -> Iterator[str]:
        return iter(self._file_of)

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._handles[self._file_of[name]].get_slice(name).get_shape())

    def tensor(self, name: str) -> Any:
        """One tensor, in the type it is stored in."""
        return self._handles[self._file_of[name]].get_tensor(name)

    def _file_names(self) -> list[str]:
        if (self.folder / ADAPTER_CONFIG).is_file():
            fact = f"{self.folder} is a LoRA adapter, which holds changes and no weights"
            raise ConfigError(
                f"{fact}; merge it into its base first (mmrl export --merge-lora, or tools/merge_lora.py)"
            )
        if (self.folder / INDEX).is_file():
            index = json.loads((self.folder / INDEX).read_text(encoding="utf-8"))
            return sorted(set(index["weight_map"].values()))
        names = sorted(path.name for path in self.folder.glob("*.safetensors"))
        if not names:
            fact = f"{self.folder}: no .safetensors file here"
            raise ConfigError(f"{fact}; name a model folder (pickled weights are not read, convert them first)")
        return names

    def _open(self, name: str) -> Any:
        path = self.folder / name
        if not path.is_file():
            raise ConfigError(f"{path}: is missing, though {INDEX} names it; copy the whole model folder")
        try:
            return self._held.enter_context(safe_open(path, framework="pt"))
        except SafetensorError as error:
            raise ConfigError(f"{path}: no safetensors file ({error}); copy it again") from error


def check_same_tensors(one: WeightFiles, other: WeightFiles) -> None:
    """ConfigError unless both have the same names, each of the same shape."""
    mine, theirs = set(one), set(other)
    if mine != theirs:
        only = [f"only in {w.folder}: {_listed(n)}" for w, n in ((one, mine - theirs), (other, theirs - mine)) if n]
        raise ConfigError(f"the models have different tensors ({'; '.join(only)}); both must be of one architecture")
    for name in one:
        if one.shape(name) != other.shape(name):
            shapes = f"{list(one.shape(name))} in {one.folder} and {list(other.shape(name))} in {other.folder}"
            raise ConfigError(f"{name} is {shapes}; both models must be of one architecture")


def _listed(names: set[str]) -> str:
    first = ", ".join(sorted(names)[:3])
    return first if len(names) <= 3 else f"{first} and {len(names) - 3} more"
