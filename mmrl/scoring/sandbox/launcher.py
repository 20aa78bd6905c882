"""Gives up every right that the policy does not grant, then becomes the command. Runs alone: standard library only.

    python -I -S launcher.py POLICY PROGRAM [ARGUMENT ...]

POLICY is text, one grant or limit a line, in this order (json alone would double the start-up time):

    rlimit NAME VALUE
    landlock HANDLED_FS HANDLED_NET SCOPED SIZE
    rule RIGHTS PATH
    bpf CODE JUMP_TRUE JUMP_FALSE K          K may be `pid`: the number of this process, which only it knows

A step that fails ends the process with code 125 before the command starts:
what was asked for and cannot be had is never left out.
"""

import ctypes
import os
import resource
import struct
import sys

SIGKILL = 9  # without the module, whose enumerations cost as much as the interpreter's start
PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP = 1, 24, 38, 22
SECCOMP_MODE_FILTER = 2
LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF = 444, 445, 446
LANDLOCK_RULE_PATH_BENEATH = 1
CAPABILITY_VERSION_3 = 0x20080522
REFUSED = 125

_libc = ctypes.CDLL(None, use_errno=True)


def main(argv):
    policy = {"rlimit": [], "landlock": [], "rule": [], "bpf": []}
    for line in argv[1].splitlines():
        kind, _, rest = line.partition(" ")
        policy[kind].append(rest)
    try:
        # The process that watches the limits may be killed itself; nobody else would end this one.
        _check(_libc.prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0), "parent death signal")
        _limit(policy["rlimit"])
        _check(_libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
        _drop_capabilities()
        if policy["landlock"]:
            _landlock(policy["landlock"][0], policy["rule"])
        if policy["bpf"]:
            _seccomp(policy["bpf"])
        os.execv(argv[2], argv[2:])
    except OSError as error:
        print(f"sandbox: {error}", file=sys.stderr, flush=True)
        os._exit(REFUSED)


def _limit(rlimits):
    for name, value in map(str.split, rlimits):
        which = getattr(resource, name)
        hard = resource.getrlimit(which)[1]
        most = int(value) if hard == resource.RLIM_INFINITY else min(int(value), hard)
        resource.setrlimit(which, (most, most))


def _drop_capabilities():
    """Root keeps its user number but none of its powers, also over an exec."""
    for capability in range(64):
        _libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    header = struct.pack("=Ii", CAPABILITY_VERSION_3, 0)
    _check(_libc.capset(header, bytes(24)), "capset")


def _landlock(handled, rules):
    *masks, size = map(int, handled.split())
    attributes = struct.pack("=QQQ", *masks)[:size]
    ruleset = _check(_libc.syscall(LANDLOCK_CREATE_RULESET, attributes, len(attributes), 0), "landlock ruleset")
    for rights, _, path in (rule.partition(" ") for rule in rules):
        try:
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # a link that leads out of what bubblewrap shows: less is granted, never more
        rule = struct.pack("=Qi", int(rights), place)
        added = _libc.syscall(LANDLOCK_ADD_RULE, ruleset, LANDLOCK_RULE_PATH_BENEATH, rule, 0)
        _check(added, f"landlock rule for {path}")
        os.close(place)
    _check(_libc.syscall(LANDLOCK_RESTRICT_SELF, ruleset, 0), "landlock")
    os.close(ruleset)


def _seccomp(program):
    code = b""
    for op, jump_true, jump_false, k in map(str.split, program):
        value = os.getpid() if k == "pid" else int(k)
        code += struct.pack("=HBBI", int(op), int(jump_true), int(jump_false), value)
    buffer = ctypes.create_string_buffer(code, len(code))

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))

    filled = Program(len(program), ctypes.addressof(buffer))
    _check(_libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(filled), 0, 0), "seccomp")


def _check(returned, what):
    if returned < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return returned


if __name__ == "__main__":
    main(sys.argv)
