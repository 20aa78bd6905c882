"""The system calls that a sandboxed command is refused, as a seccomp filter (a classic BPF program). Pure.

An instruction is (code, jump if true, jump if false, k); a `k` of None stands for the number of the filtered process.
Refused calls fail with EPERM, so that programs can go on without what they asked for.
"""

from __future__ import annotations

import errno
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Instruction = tuple[int, int, int, int | None]

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENT, _SECOND_ARGUMENT = 0, 4, 16, 24
_ALLOW, _ERRNO, _KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
_X32_BIT = 0x40000000
_CLONE_THREAD, _CLONE_NAMESPACES = 0x00010000, 0x7E020080
_AF_UNIX, _DATAGRAM_BIT = 1, 2  # of the types, only SOCK_STREAM (1) and SOCK_SEQPACKET (5) lack the bit
_F_SETOWN, _F_SETOWN_EX = 8, 15  # sends signals to whom it names
_PR_SET_DUMPABLE = 4

# What the calls reach. A name may be missing on an architecture that never had the call.
OTHER_PROCESSES = (
    "ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_send_signal", "pidfd_getfd", "process_madvise",
    "process_mrelease",
)  # fmt: skip
MOUNTS_AND_NAMESPACES = (
    "pivot_root", "chroot", "mount", "umount2", "unshare", "setns", "open_tree", "move_mount", "fsopen", "fsconfig",
    "fsmount", "fspick", "mount_setattr", "open_tree_attr",
)  # fmt: skip
KERNEL = (
    "syslog", "personality", "adjtimex", "acct", "settimeofday", "swapon", "swapoff", "reboot", "sethostname",
    "setdomainname", "iopl", "ioperm", "init_module", "delete_module", "quotactl", "kexec_load", "finit_module",
    "kexec_file_load", "quotactl_fd",
)  # fmt: skip
CLOCKS_AND_SCHEDULING = (
    "setpriority", "sched_setparam", "sched_setscheduler", "sched_setaffinity", "clock_settime", "ioprio_set",
    "migrate_pages", "move_pages", "clock_adjtime", "sched_setattr",
)  # fmt: skip
UNFILTERED_DOORS = (
    "perf_event_open", "fanotify_init", "name_to_handle_at", "open_by_handle_at", "bpf", "userfaultfd",
    "io_uring_setup", "io_uring_enter", "io_uring_register",
)  # fmt: skip
KEYS = ("add_key", "request_key", "keyctl")
# Landlock leaves a file's mode, owner, times and attributes to its owner, and truncate() did not ask it before ABI 3.
FILE_ATTRIBUTES = (
    "truncate", "chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat", "utime", "utimes",
    "futimesat", "utimensat", "setxattr", "lsetxattr", "fsetxattr", "setxattrat", "removexattr", "lremovexattr",
    "fremovexattr", "removexattrat",
)  # fmt: skip
LEAVING_THE_GROUP = ("setpgid", "setsid")  # one kill must reach everything
SHARED_MEMORY = (  # outlives the process, or its limits
    "shmget", "shmat", "shmctl", "semget", "msgget", "mq_open", "memfd_secret",
)  # fmt: skip
# `socket` makes what these reach out with; a connected pair could only be of use with them.
SOCKETS = ("socket", "connect", "bind", "listen", "accept", "accept4")
ALWAYS = (
    *OTHER_PROCESSES, *MOUNTS_AND_NAMESPACES, *KERNEL, *CLOCKS_AND_SCHEDULING, *UNFILTERED_DOORS, *KEYS,
    *FILE_ATTRIBUTES, *LEAVING_THE_GROUP, *SHARED_MEMORY, *SOCKETS,
)  # fmt: skip
FORKS = ("fork", "vfork")
# A file that is open only in a message on its way is counted by no limit of the disk.
MESSAGES_WITH_FILES = ("sendmsg", "sendmmsg")
_SIGNAL_BY_PROCESS = ("kill", "rt_sigqueueinfo", "tgkill", "rt_tgsigqueueinfo")


@dataclass(frozen=True, slots=True)
class Architecture:
    """What the kernel calls a machine, and its numbers of the calls. x32: calls may carry the bit of a second set."""

    audit: int
    numbers: Mapping[str, int]
    x32: bool = False


# From 424 on, numbers are the same everywhere.
_COMMON = {
    "pidfd_send_signal": 424, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428,
    "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "clone3": 435, "pidfd_getfd": 438,
    "process_madvise": 440, "mount_setattr": 442, "quotactl_fd": 443, "memfd_secret": 447, "process_mrelease": 448,
    "fchmodat2": 452, "setxattrat": 463, "removexattrat": 466, "open_tree_attr": 467,
}  # fmt: skip
_X86_64 = Architecture(
    0xC000003E,
    {
        **_COMMON,
        "shmget": 29, "shmat": 30, "shmctl": 31, "socket": 41, "connect": 42, "accept": 43, "sendmsg": 46,
        "bind": 49, "listen": 50, "socketpair": 53, "clone": 56, "fork": 57, "vfork": 58, "kill": 62,
        "semget": 64, "msgget": 68, "fcntl": 72, "truncate": 76, "chmod": 90, "fchmod": 91, "chown": 92,
        "fchown": 93, "lchown": 94, "ptrace": 101, "syslog": 103, "setpgid": 109, "setsid": 112,
        "rt_sigqueueinfo": 129, "utime": 132, "personality": 135, "setpriority": 141, "sched_setparam": 142,
        "sched_setscheduler": 144, "pivot_root": 155, "prctl": 157, "adjtimex": 159, "chroot": 161,
        "acct": 163, "settimeofday": 164, "mount": 165, "umount2": 166, "swapon": 167, "swapoff": 168,
        "reboot": 169, "sethostname": 170, "setdomainname": 171, "iopl": 172, "ioperm": 173,
        "init_module": 175, "delete_module": 176, "quotactl": 179, "setxattr": 188, "lsetxattr": 189,
        "fsetxattr": 190, "removexattr": 197, "lremovexattr": 198, "fremovexattr": 199, "tkill": 200,
        "sched_setaffinity": 203, "clock_settime": 227, "tgkill": 234, "utimes": 235, "mq_open": 240,
        "kexec_load": 246, "add_key": 248, "request_key": 249, "keyctl": 250, "ioprio_set": 251,
        "migrate_pages": 256, "fchownat": 260, "futimesat": 261, "fchmodat": 268, "unshare": 272,
        "move_pages": 279, "utimensat": 280, "accept4": 288, "rt_tgsigqueueinfo": 297, "perf_event_open": 298,
        "fanotify_init": 300, "prlimit64": 302, "name_to_handle_at": 303, "open_by_handle_at": 304,
        "clock_adjtime": 305, "sendmmsg": 307, "setns": 308, "process_vm_readv": 310,
        "process_vm_writev": 311, "kcmp": 312, "finit_module": 313, "sched_setattr": 314, "memfd_create": 319,
        "kexec_file_load": 320, "bpf": 321, "userfaultfd": 323,
    },
    x32=True,
)  # fmt: skip
_AARCH64 = Architecture(
    0xC00000B7,
    {
        **_COMMON,
        "setxattr": 5, "lsetxattr": 6, "fsetxattr": 7, "removexattr": 14, "lremovexattr": 15,
        "fremovexattr": 16, "fcntl": 25, "ioprio_set": 30, "umount2": 39, "mount": 40, "pivot_root": 41,
        "truncate": 45, "chroot": 51, "fchmod": 52, "fchmodat": 53, "fchownat": 54, "fchown": 55,
        "quotactl": 60, "utimensat": 88, "acct": 89, "personality": 92, "unshare": 97, "kexec_load": 104,
        "init_module": 105, "delete_module": 106, "clock_settime": 112, "syslog": 116, "ptrace": 117,
        "sched_setparam": 118, "sched_setscheduler": 119, "sched_setaffinity": 122, "kill": 129, "tkill": 130,
        "tgkill": 131, "rt_sigqueueinfo": 138, "setpriority": 140, "reboot": 142, "setpgid": 154,
        "setsid": 157, "sethostname": 161, "setdomainname": 162, "prctl": 167, "settimeofday": 170,
        "adjtimex": 171, "mq_open": 180, "msgget": 186, "semget": 190, "shmget": 194, "shmctl": 195,
        "shmat": 196, "socket": 198, "socketpair": 199, "bind": 200, "listen": 201, "accept": 202,
        "connect": 203, "sendmsg": 211, "add_key": 217, "request_key": 218, "keyctl": 219, "clone": 220,
        "swapon": 224, "swapoff": 225, "migrate_pages": 238, "move_pages": 239, "rt_tgsigqueueinfo": 240,
        "perf_event_open": 241, "accept4": 242, "prlimit64": 261, "fanotify_init": 262,
        "name_to_handle_at": 264, "open_by_handle_at": 265, "clock_adjtime": 266, "setns": 268,
        "sendmmsg": 269, "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272, "finit_module": 273,
        "sched_setattr": 274, "memfd_create": 279, "bpf": 280, "userfaultfd": 282, "kexec_file_load": 294,
    },
)  # fmt: skip
ARCHITECTURES = {"x86_64": _X86_64, "aarch64": _AARCH64}


def supported() -> bool:
    """Whether this machine's numbers are known."""
    return platform.machine() in ARCHITECTURES


def seccomp_filter(*, may_fork: bool, may_signal: bool, memfd: bool = False, machine: str = "") -> list[Instruction]:
    """The filter. may_fork: new processes. may_signal: processes other than itself. memfd: anonymous memory files.

    Sockets are refused in every case, of every kind; a pair of connected ones stays possible, not of datagrams, which
    could be sent elsewhere. machine: one of ARCHITECTURES; empty: this one.
    """
    architecture = ARCHITECTURES[machine or platform.machine()]
    numbers = architecture.numbers
    program: list[Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, architecture.audit),
        (_RETURN, 0, 0, _KILL_PROCESS),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if architecture.x32:
        program += [(_AT_LEAST, 0, 1, _X32_BIT), (_RETURN, 0, 0, _KILL_PROCESS)]
    denied = [*ALWAYS, *(() if memfd else ("memfd_create",)), *(() if may_fork else (*FORKS, *MESSAGES_WITH_FILES))]
    for number in _known(denied, numbers):
        program += [(_EQUAL, 0, 1, number), _refuse()]
    # Its flags are behind a pointer, which a filter cannot read; the C library then falls back to clone.
    program += [(_EQUAL, 0, 1, numbers["clone3"]), _refuse(errno.ENOSYS)]
    program += _when(
        numbers["clone"], (_ANY_BIT, 2, 0, _CLONE_NAMESPACES), (_ANY_BIT, 0, 0 if may_fork else 1, _CLONE_THREAD)
    )
    program += _only(numbers["prlimit64"], 0) + _stream_pair(numbers["socketpair"])
    # Else the files that it holds open could not be looked at.
    program += _never(numbers["prctl"], _ARGUMENT, _PR_SET_DUMPABLE, _PR_SET_DUMPABLE)
    if not may_signal:
        program += [(_EQUAL, 0, 1, numbers["tkill"]), _refuse()]
        program += _never(numbers["fcntl"], _SECOND_ARGUMENT, _F_SETOWN, _F_SETOWN_EX)
        for number in _known(_SIGNAL_BY_PROCESS, numbers):
            program += _only(number, None)
    return [*program, (_RETURN, 0, 0, _ALLOW)]


def _known(names: Iterable[str], numbers: Mapping[str, int]) -> list[int]:
    return [numbers[name] for name in names if name in numbers]


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


def _never(number: int, argument: int, first: int, second: int) -> list[Instruction]:
    """A call that is refused with one of these values of an argument."""
    return [
        (_EQUAL, 0, 5, number),
        (_LOAD, 0, 0, argument),
        (_EQUAL, 1, 0, first),
        (_EQUAL, 0, 1, second),
        _refuse(),
        (_RETURN, 0, 0, _ALLOW),
    ]


def _stream_pair(number: int) -> list[Instruction]:
    """socketpair, allowed for Unix sockets that stay with their peer."""
    return [
        (_EQUAL, 0, 6, number),
        (_LOAD, 0, 0, _ARGUMENT),
        (_EQUAL, 0, 2, _AF_UNIX),
        (_LOAD, 0, 0, _SECOND_ARGUMENT),
        (_ANY_BIT, 0, 1, _DATAGRAM_BIT),
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
