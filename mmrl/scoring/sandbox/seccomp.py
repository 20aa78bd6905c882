"""The system calls that a sandboxed command is refused, as a seccomp filter (a classic BPF program). Pure.

An instruction is (code, jump if true, jump if false, k); a `k` of None stands for the number of the filtered process.
Refused calls fail with EPERM, so that programs can go on without what they asked for.
"""

from __future__ import annotations

import errno
import platform

Instruction = tuple[int, int, int, int | None]

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENT, _SECOND_ARGUMENT = 0, 4, 16, 24
_ALLOW, _ERRNO, _KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
_X86_64, _X32_BIT = 0xC000003E, 0x40000000
_CLONE_THREAD, _CLONE_NAMESPACES = 0x00010000, 0x7E020080
_AF_UNIX = 1

# Numbers of x86_64, by what the calls reach.
OTHER_PROCESSES = (101, 310, 311, 312, 424, 438, 440, 448)  # ptrace, process_vm_*, kcmp, pidfd_*, process_m*
MOUNTS_AND_NAMESPACES = (155, 161, 165, 166, 272, 308, 428, 429, 430, 431, 432, 433, 442, 467)
KERNEL = (103, 135, 159, 163, 164, 167, 168, 169, 170, 171, 172, 173, 175, 176, 179, 246, 313, 320, 443)
CLOCKS_AND_SCHEDULING = (141, 142, 144, 203, 227, 251, 256, 279, 305, 314)
UNFILTERED_DOORS = (298, 300, 303, 304, 321, 323, 425, 426, 427)  # perf, fanotify, handles, bpf, userfaultfd, io_uring
KEYS = (248, 249, 250)
# Landlock leaves a file's mode, owner, times and attributes to its owner, and truncate() did not ask it before ABI 3.
FILE_ATTRIBUTES = (76, 90, 91, 92, 93, 94, 132, 188, 189, 190, 197, 198, 199, 235, 260, 261, 268, 280, 452, 463, 466)
LEAVING_THE_GROUP = (109, 112)  # setpgid, setsid: one kill must reach everything
SHARED_MEMORY = (29, 30, 31, 64, 68, 240, 447)  # outlives the process, or its limits
MEMFD_CREATE = 319
ALWAYS = (
    *OTHER_PROCESSES, *MOUNTS_AND_NAMESPACES, *KERNEL, *CLOCKS_AND_SCHEDULING, *UNFILTERED_DOORS, *KEYS,
    *FILE_ATTRIBUTES, *LEAVING_THE_GROUP, *SHARED_MEMORY,
)  # fmt: skip

_SOCKET, _SOCKETPAIR, _CLONE, _CLONE3, _FORK, _VFORK, _PRLIMIT = 41, 53, 56, 435, 57, 58, 302
_SIGNAL_BY_PROCESS = (62, 129, 234, 297)  # kill, rt_sigqueueinfo, tgkill, rt_tgsigqueueinfo
_TKILL = 200
_FCNTL, _F_SETOWN, _F_SETOWN_EX = 72, 8, 15  # sends signals to whom it names


def supported() -> bool:
    """Whether the numbers above are this machine's."""
    return platform.machine() == "x86_64"


def seccomp_filter(*, may_fork: bool, may_signal: bool, memfd: bool = False) -> list[Instruction]:
    """The filter. may_fork: new processes. may_signal: processes other than itself. memfd: anonymous memory files.

    Sockets are refused in every case, of every kind; a pair of connected ones stays possible.
    """
    program: list[Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, _X86_64),
        (_RETURN, 0, 0, _KILL_PROCESS),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _X32_BIT),
        (_RETURN, 0, 0, _KILL_PROCESS),
    ]
    denied = [*ALWAYS, _SOCKET, *(() if memfd else (MEMFD_CREATE,)), *(() if may_fork else (_FORK, _VFORK))]
    for number in denied:
        program += [(_EQUAL, 0, 1, number), _refuse()]
    # Its flags are behind a pointer, which a filter cannot read; the C library then falls back to clone.
    program += [(_EQUAL, 0, 1, _CLONE3), _refuse(errno.ENOSYS)]
    program += _when(_CLONE, (_ANY_BIT, 2, 0, _CLONE_NAMESPACES), (_ANY_BIT, 0, 0 if may_fork else 1, _CLONE_THREAD))
    program += _only(_SOCKETPAIR, _AF_UNIX) + _only(_PRLIMIT, 0)
    if not may_signal:
        program += [(_EQUAL, 0, 1, _TKILL), _refuse()]
        program += _never(_FCNTL, _F_SETOWN, _F_SETOWN_EX)
        for number in _SIGNAL_BY_PROCESS:
            program += _only(number, None)
    return [*program, (_RETURN, 0, 0, _ALLOW)]


def _refuse(number: int = errno.EPERM) -> Instruction:
    return (_RETURN, 0, 0, _ERRNO | number)


def _only(number: int, value: int | None) -> list[Instruction]:
    """A call that is allowed with this first argument only."""
    return [
        (_EQUAL, 0, 4, number),
        (_LOAD, 0, 0, _ARGUMENT),
        (_EQUAL, 1, 0, value),
        _refuse(),
        (_RETURN, 0, 0, _ALLOW),
    ]


def _never(number: int, first: int, second: int) -> list[Instruction]:
    """A call that is refused with one of these second arguments."""
    return [
        (_EQUAL, 0, 5, number),
        (_LOAD, 0, 0, _SECOND_ARGUMENT),
        (_EQUAL, 1, 0, first),
        (_EQUAL, 0, 1, second),
        _refuse(),
        (_RETURN, 0, 0, _ALLOW),
    ]


def _when(number: int, *tests: Instruction) -> list[Instruction]:
    """A call that is allowed where the tests of its first argument fall through, refused where they jump."""
    return [
        (_EQUAL, 0, len(tests) + 3, number),
        (_LOAD, 0, 0, _ARGUMENT),
        *tests,
        (_RETURN, 0, 0, _ALLOW),
        _refuse(),
    ]
