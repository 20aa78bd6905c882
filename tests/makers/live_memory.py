"""Bytes of living tensors, counted exactly: every storage once, from the operation that makes it until it is freed."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveMemory(TorchDispatchMode):
    """Within the block `live` is what living storages hold that were made in it or given to `watch`; `peak` its highest
    value since `restart`. What an operation holds only while it runs is not seen.

    cap: a storage of more bytes counts as so many: DeepSpeed reserves buckets of a size that it never fills.
    """

    def __init__(self, *, cap: int | None = None) -> None:
        super().__init__()
        self.live = self.peak = 0
        self._cap = cap
        self._known: dict[int, Any] = {}

    def restart(self) -> None:
        self.peak = self.live

    def watch(self, tensors: Iterable[torch.Tensor]) -> None:
        for tensor in tensors:
            self._add(tensor)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self._add(leaf)
        self.peak = max(self.peak, self.live)
        return result

    def _add(self, tensor: torch.Tensor) -> None:
        if tensor.device.type == "meta":
            return
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._known:
            return
        size = storage.nbytes() if self._cap is None else min(storage.nbytes(), self._cap)
        self._known[key] = weakref.ref(storage, lambda _, key=key, size=size: self._freed(key, size))
        self.live += size

    def _freed(self, key: int, size: int) -> None:
        del self._known[key]
        self.live -= size
