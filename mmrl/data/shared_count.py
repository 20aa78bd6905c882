"""A small number that one process sets and another reads at any time, without a message."""

from __future__ import annotations

import mmap
import os


class SharedCount:
    """0 to 255, in memory that a file descriptor names; a process that inherits it sees each change at once."""

    def __init__(self, fd: int | None = None) -> None:
        if fd is None:
            fd = os.memfd_create("count", os.MFD_CLOEXEC)
            os.ftruncate(fd, 1)
        self._fd = fd
        self._memory = mmap.mmap(fd, 1)

    def fileno(self) -> int:
        return self._fd

    def get(self) -> int:
        return self._memory[0]

    def set(self, value: int) -> None:
        self._memory[0] = min(value, 255)

    def close(self) -> None:
        self._memory.close()
        os.close(self._fd)
