"""The wanted frames of one clip read by several threads, part by part, while cores are idle."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from mmrl.data.video import Clip, DivisibleClip

Threads = Callable[[], int]
"""How many threads may work now. It is asked between parts and may change."""


def one_thread() -> int:
    return 1


def read_parts(
    clip: Clip, indices: Sequence[int], read: Callable[[Clip, Sequence[int]], None], *, threads: Threads = one_thread
) -> None:
    """Call read(clip or a twin of it, part) for every part of the wanted frames, in any order, maybe side by side.

    A clip that cannot be divided is one part. Raises the first error of a part; the others are not begun then.
    """
    parts = deque(clip.parts(indices)) if isinstance(clip, DivisibleClip) else deque()
    if isinstance(clip, DivisibleClip) and len(parts) > 1:
        _Readers(clip, parts, read, threads).run()
    else:
        read(clip, indices)


class _Readers:
    """The calling thread reads with the clip itself, each helper with a twin; all take parts from one queue."""

    def __init__(
        self,
        clip: DivisibleClip,
        parts: deque[list[int]],
        read: Callable[[Clip, Sequence[int]], None],
        threads: Threads,
    ) -> None:
        self._clip, self._parts, self._read, self._threads = clip, parts, read, threads

    def run(self) -> None:
        helpers: list[Future[None]] = []
        with ThreadPoolExecutor(len(self._parts), thread_name_prefix="clip-part") as pool:
            try:
                while self._parts:
                    self._call_helpers(pool, helpers)
                    self._take(self._clip)
            finally:
                self._parts.clear()  # an error here: the helpers end with the parts they are at
        for helper in helpers:
            helper.result()

    def _call_helpers(self, pool: ThreadPoolExecutor, helpers: list[Future[None]]) -> None:
        at_work = sum(not helper.done() for helper in helpers)
        for rank in range(at_work + 1, min(self._threads(), len(self._parts))):
            helpers.append(pool.submit(self._help, rank))

    def _help(self, rank: int) -> None:
        twin, failed = self._clip.twin(), True
        try:
            while rank < self._threads() and self._take(twin):
                pass
            failed = False
        finally:
            if failed:
                self._parts.clear()  # nobody begins another part of a clip that has failed
            twin.close()

    def _take(self, clip: Clip) -> bool:
        try:
            part = self._parts.popleft()
        except IndexError:  # another thread took the last one
            return False
        self._read(clip, part)
        return True
