"""What is run in the sandbox, within which limits, and what came of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

MB = 1_000_000
KilledBy = Literal["wall", "cpu", "memory", "output", "disk", "processes"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one run. Whatever exceeds one is killed as a whole, with everything it started.

    wall_s: seconds from start to end. CPU seconds of each process are limited to the same, rounded up.
    memory_bytes: address space of each process, so an allocation beyond it fails; `by_resident` takes the resident
        memory of all processes instead, watched ten times a second (for V8, which reserves terabytes).
    output_bytes: of stdout and of stderr, each.
    disk_bytes: of one file and, watched ten times a second, of the scratch folder. files: files in it.
    processes: 1: no process can be started, only threads. More: that many at a time, watched ten times a second.
    """

    wall_s: float = 5.0
    memory_bytes: int = 1024 * MB
    by_resident: bool = False
    output_bytes: int = 1 * MB
    disk_bytes: int = 64 * MB
    files: int = 1000
    processes: int = 1

    @property
    def cpu_s(self) -> int:
        """Whole seconds: the kernel counts no finer."""
        return math.ceil(self.wall_s) + 1


@dataclass(frozen=True, slots=True)
class Tree:
    """A file or folder that can be read and run inside, without the names in `hidden` right below it.

    names_only: of everything in it only the names can be read (Python must list the folder it imports from).
    """

    path: Path
    hidden: tuple[str, ...] = ()
    names_only: bool = False


@dataclass(frozen=True, slots=True)
class Job:
    """One command.

    argv: absolute path of the program, and its arguments.
    files: what lies in the scratch folder (current folder, HOME and TMPDIR) at the start, by plain name.
    stdin: what the command reads. reads: what it may read beside the scratch folder and the C library.
    env: variables beside the few that are always set. collect: names of files to return from the scratch folder.
    """

    argv: tuple[str, ...]
    files: Mapping[str, bytes] = field(default_factory=dict)
    stdin: bytes = b""
    reads: tuple[Tree, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    collect: tuple[str, ...] = ()
    limits: Limits = Limits()


@dataclass(frozen=True, slots=True)
class Result:
    """What a job left.

    exit_code: the program's; minus the signal that ended it. killed_by: the limit it exceeded, None where none.
    stdout, stderr: cut at the limit, which `cut` tells. seconds: wall time, start of the sandbox included.
    files: the collected ones that exist, are plain files and are no larger than `disk_bytes`.
    """

    exit_code: int
    stdout: bytes
    stderr: bytes
    cut: bool
    seconds: float
    killed_by: KilledBy | None
    files: Mapping[str, bytes]

    @property
    def ok(self) -> bool:
        """Ended by itself with exit code 0."""
        return self.exit_code == 0 and self.killed_by is None

    def text(self, stream: Literal["stdout", "stderr"] = "stdout") -> str:
        """A stream as text; bytes that are no UTF-8 become replacement characters."""
        return (self.stdout if stream == "stdout" else self.stderr).decode("utf-8", "replace")
