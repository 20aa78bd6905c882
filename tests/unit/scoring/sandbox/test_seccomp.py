"""The seccomp filter, run by an interpreter of its program: what each architecture's calls get."""

import errno
import re
import struct
from pathlib import Path

import pytest

from mmrl.scoring.sandbox.seccomp import ARCHITECTURES, seccomp_filter

AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
ALLOW, KILL = 0x7FFF0000, 0x80000000
EPERM, ENOSYS = 0x50000 | errno.EPERM, 0x50000 | errno.ENOSYS
PID = 4711
CLONE_OF_THREADS, CLONE_OF_FORK, CLONE_NEWUSER = 0x003D0F00, 0x01200011, 0x10000000
CASES = [
    ("x86_64", {"read": 0, "openat": 257, "socket": 41, "connect": 42, "socketpair": 53, "clone": 56, "fork": 57,
                "kill": 62, "tgkill": 234, "tkill": 200, "fcntl": 72, "ptrace": 101, "mount": 165, "chmod": 90,
                "prlimit64": 302, "memfd_create": 319, "sendmsg": 46, "prctl": 157, "clone3": 435, "io_uring": 425}),
    ("aarch64", {"read": 63, "openat": 56, "socket": 198, "connect": 203, "socketpair": 199, "clone": 220,
                 "kill": 129, "tgkill": 131, "tkill": 130, "fcntl": 25, "ptrace": 117, "mount": 40, "fchmodat": 53,
                 "prlimit64": 261, "memfd_create": 279, "sendmsg": 211, "prctl": 167, "clone3": 435,
                 "io_uring": 425}),
]  # fmt: skip


@pytest.fixture(params=CASES, ids=[machine for machine, _ in CASES])
def machine(request):
    return request.param


def decide(program, number, arguments=(), *, audit):
    """What the kernel would do with a call: classic BPF over struct seccomp_data, of the few codes that we use."""
    padded = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("<iIQ6Q", number, audit, 0, *(a & (2**64 - 1) for a in padded))
    accumulator, at = 0, 0
    while True:
        code, if_true, if_false, k = program[at]
        k = PID if k is None else k
        at += 1
        if code == 0x06:
            return k
        if code == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, k)
        elif code in (0x15, 0x35, 0x45):
            holds = {0x15: accumulator == k, 0x35: accumulator >= k, 0x45: bool(accumulator & k)}[code]
            at += if_true if holds else if_false
        else:
            raise AssertionError(f"code {code:#x}")


def decider(machine, **choices):
    name, numbers = machine
    program = seccomp_filter(**{"may_fork": False, "may_signal": False, **choices}, machine=name)
    return lambda call, *arguments: decide(program, numbers[call], arguments, audit=AUDIT[name])


def test_numbers_are_those_of_the_kernel_s_headers(machine):
    name, _ = machine
    if not HEADERS[name].is_file():
        pytest.skip("no kernel headers on this machine")
    written = re.findall(r"#define\s+__NR(?:3264)?_(\w+)\s+(\d+)", HEADERS[name].read_text())
    known = {call: int(number) for call, number in written}
    ours = ARCHITECTURES[name].numbers
    compared = {call: number for call, number in ours.items() if call in known}
    assert compared == {call: known[call] for call in compared}
    # Older headers lack the newest calls, and no others.
    assert {call for call in ours if call not in known} <= {
        "fchmodat2",
        "setxattrat",
        "removexattrat",
        "open_tree_attr",
    }


def test_ordinary_calls_pass_and_dangerous_ones_do_not(machine):
    call = decider(machine)
    assert call("read", 0) == call("openat") == call("fcntl", 3, 1) == call("prctl", 15) == ALLOW
    for name in ("socket", "connect", "ptrace", "mount", "memfd_create", "sendmsg", "io_uring"):
        assert call(name, 1, 1) == EPERM, name
    assert call("fchmodat" if "fchmodat" in machine[1] else "chmod") == EPERM
    assert call("clone3") == ENOSYS
    assert decider(machine, memfd=True)("memfd_create") == ALLOW


def test_another_architecture_s_calls_end_the_process(machine):
    name, numbers = machine
    program = seccomp_filter(may_fork=True, may_signal=True, machine=name)
    for audit in (0x40000003, 0x40000028, *(a for n, a in AUDIT.items() if n != name)):
        assert decide(program, numbers["read"], audit=audit) == KILL
    if name == "x86_64":
        assert decide(program, 0x40000000 | 0, audit=AUDIT[name]) == KILL  # x32


def test_threads_pass_processes_only_where_allowed_and_namespaces_never(machine):
    for may_fork, fork in ((False, EPERM), (True, ALLOW)):
        call = decider(machine, may_fork=may_fork)
        assert call("clone", CLONE_OF_THREADS) == ALLOW
        assert call("clone", CLONE_OF_FORK) == fork
        assert call("clone", CLONE_OF_FORK | CLONE_NEWUSER) == call("clone", CLONE_OF_THREADS | CLONE_NEWUSER) == EPERM
        assert call("sendmsg") == fork
        if "fork" in machine[1]:
            assert call("fork") == fork


def test_only_itself_can_be_signalled(machine):
    call = decider(machine)
    assert call("kill", PID, 9) == call("tgkill", PID, PID, 6) == ALLOW
    for other in (1, 0, -1, PID + 1):
        assert call("kill", other, 9) == EPERM
    assert call("tkill", PID) == call("fcntl", 3, 8, 1) == call("fcntl", 3, 15, 1) == EPERM
    assert decider(machine, may_signal=True)("kill", 1, 9) == ALLOW


def test_limits_are_its_own_and_it_stays_open_to_its_watcher(machine):
    call = decider(machine)
    assert call("prlimit64", 0, 7) == ALLOW and call("prlimit64", PID + 1, 7) == EPERM
    assert call("prctl", 4, 0) == EPERM


@pytest.mark.parametrize(("kind", "found"), [(1, ALLOW), (1 | 0x80800, ALLOW), (5, ALLOW), (2, EPERM), (3, EPERM)])
def test_pairs_of_sockets_stay_with_their_peer(machine, kind, found):
    call = decider(machine)
    assert call("socketpair", 1, kind) == found
    assert call("socketpair", 2, kind) == EPERM


def test_jumps_stay_inside_the_program_and_it_fits_the_kernel(machine):
    for fork in (False, True):
        program = seccomp_filter(may_fork=fork, may_signal=fork, machine=machine[0])
        assert len(program) <= 4096
        for at, (code, if_true, if_false, _) in enumerate(program):
            if code in (0x15, 0x35, 0x45):
                assert max(if_true, if_false) <= 255 and at + 1 + max(if_true, if_false) < len(program)
