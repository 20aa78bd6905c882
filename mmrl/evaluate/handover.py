"""Prepared questions on their way from the thread that prepares them to the one that asks them.

Two threads that take turns at every question cost each other more than the questions do: Python runs one of them at a
time, and each change of hands costs some hundredths of a millisecond. So questions are handed over in blocks, and a
full store takes new ones when it is half empty.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class Handover(Generic[T]):
    """At most `size` items wait. One thread gives, one takes. `close`, by either of them: nothing more comes."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._items: deque[T] = deque()
        self._changed = threading.Condition()
        self._is_closed = False

    def give(self, block: Sequence[T]) -> bool:
        """Waits while the store has no room for the block, half of it at most. False: nobody takes any more."""
        with self._changed:
            if len(self._items) + len(block) > self._size:
                self._changed.wait_for(lambda: self._is_closed or len(self._items) <= self._size // 2)
            if self._is_closed:
                return False
            self._items.extend(block)
            self._changed.notify()
            return True

    def take(self, most: int, *, waits: bool) -> list[T]:
        """Up to `most` items; none: there are none now, or, with `waits`, none will come any more."""
        with self._changed:
            if waits:
                self._changed.wait_for(lambda: self._is_closed or self._items)
            taken = [self._items.popleft() for _ in range(min(most, len(self._items)))]
            if taken and len(self._items) <= self._size // 2:
                self._changed.notify()
            return taken

    @property
    def is_over(self) -> bool:
        """Nothing waits and nothing more comes."""
        with self._changed:
            return self._is_closed and not self._items

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
