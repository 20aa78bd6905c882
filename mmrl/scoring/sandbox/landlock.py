"""What a sandboxed command may do with files, as Landlock rules: everything else is refused by the kernel.

Landlock needs no privilege and works in plain containers; the kernel must have it switched on (Linux 5.13 or newer).
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from mmrl.scoring.sandbox.job import Tree

_CREATE_RULESET, _VERSION_FLAG = 444, 1
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REFER, TRUNCATE, IOCTL_DEVICE = 1 << 13, 1 << 14, 1 << 15
_FIRST_RIGHTS = (1 << 13) - 1
_MAKE_DEVICES = (1 << 6) | (1 << 11)
_READ = EXECUTE | READ_FILE | READ_DIR
_FILE_RIGHTS = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEVICE
_TCP, _SCOPES = 3, 3
SIGNAL_SCOPE_ABI = 6


@functools.cache
def abi() -> int:
    """Version of the kernel's Landlock; 0 where it has none or it is switched off."""
    version = ctypes.CDLL(None, use_errno=True).syscall(_CREATE_RULESET, None, 0, _VERSION_FLAG)
    return max(version, 0)


def ruleset(reads: Iterable[Tree], *, writes: Iterable[Path], devices: Iterable[Path], version: int) -> dict[str, Any]:
    """The policy's entry for the launcher: what is handled (all of it) and what is allowed again.

    reads: read and run. writes: folders in which everything but device files is allowed. devices: read and write.
    """
    handled = _FIRST_RIGHTS
    for since, right in ((2, REFER), (3, TRUNCATE), (5, IOCTL_DEVICE)):
        handled |= right if version >= since else 0
    rules = [(str(path), rights & handled) for tree in reads for path, rights in _read_rules(tree)]
    rules += [(str(path), handled & ~_MAKE_DEVICES & ~EXECUTE) for path in writes]
    rules += [(str(path), (READ_FILE | WRITE_FILE) & handled) for path in devices]
    size = 8 if version < 4 else 16 if version < SIGNAL_SCOPE_ABI else 24
    return {"fs": handled, "net": _TCP, "scoped": _SCOPES, "size": size, "rules": rules}


def _read_rules(tree: Tree) -> Iterator[tuple[Path, int]]:
    if tree.names_only:
        yield tree.path, READ_DIR
        return
    if not tree.hidden:
        yield tree.path, _READ if tree.path.is_dir() else _READ & _FILE_RIGHTS
        return
    # Rights reach everything below a folder, so a hidden name is left out by naming all its neighbours.
    yield tree.path, READ_DIR
    for child in tree.path.iterdir():
        if child.name not in tree.hidden:
            yield from _read_rules(Tree(child))
