"""Which walls this machine can put around a command, and whether they hold: tried once per process, not assumed."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import select
import shutil
import socket
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from mmrl.errors import ConfigError
from mmrl.scoring.sandbox import landlock, seccomp
from mmrl.scoring.sandbox.job import Job, Limits
from mmrl.scoring.sandbox.python_runtime import python_command

LAYERS = {
    "bubblewrap": "own mount, network, process and user namespaces; nothing but the granted paths exists",
    "landlock": "the kernel refuses files outside the granted paths; needs no privilege, works in plain containers",
    "seccomp": "the kernel refuses sockets, tracing, new processes and what reaches other processes",
}
_PROBE = """
import json, os, socket
def allowed(action):
    try:
        action()
    except OSError:
        return False
    return True
def send(kind, family, address):
    with socket.socket(family, kind) as sender:
        sender.settimeout(1)
        sender.connect(address)
        sender.send(b"x")
def send_by_pair(address):
    here, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    here.sendto(b"x", address)
allowed(lambda: send(socket.SOCK_STREAM, socket.AF_INET, ("127.0.0.1", TCP)))
allowed(lambda: send(socket.SOCK_DGRAM, socket.AF_INET, ("127.0.0.1", UDP)))
allowed(lambda: send(socket.SOCK_DGRAM, socket.AF_UNIX, FOLDER + "/socket"))
allowed(lambda: send_by_pair(FOLDER + "/socket"))
print(json.dumps({
    "read": allowed(lambda: open(FOLDER + "/secret").close()),
    "write": allowed(lambda: open(FOLDER + "/new", "w").close()),
    "signal": allowed(lambda: os.kill(PARENT, 0)),
}))
"""
_REMEDY = (
    "use bubblewrap where user namespaces are allowed, or a kernel with Landlock (Linux 5.13 or newer, `landlock` in "
    "/sys/kernel/security/lsm) and seccomp, as plain containers have; `mmrl list sandbox` shows what is here. On a "
    "machine that holds nothing worth protecting, the reward's option `allow_weak_sandbox: true` runs without them"
)


@dataclass(frozen=True, slots=True)
class Isolation:
    """What holds on this machine, as tried. layers: the mechanisms in use.

    files: nothing outside the granted paths can be read or written. network: nothing can be connected to.
    processes: nothing outside can be signalled.
    """

    layers: tuple[str, ...]
    files: bool
    network: bool
    processes: bool

    @property
    def strong(self) -> bool:
        return self.files and self.network and self.processes

    @property
    def missing(self) -> tuple[str, ...]:
        return tuple(name for name in ("files", "network", "processes") if not getattr(self, name))


@functools.cache
def layers() -> tuple[str, ...]:
    """The mechanisms this machine has, strongest first."""
    found = {"bubblewrap": bubblewrap() is not None, "landlock": landlock.abi() > 0, "seccomp": seccomp.supported()}
    return tuple(name for name, there in found.items() if there)


@functools.cache
def bubblewrap() -> str | None:
    """Path of a bwrap that can make its namespaces here; containers often forbid it."""
    return shutil.which("bwrap") if bubblewrap_problem() is None else None


@functools.cache
def bubblewrap_problem() -> str | None:
    """Why bubblewrap cannot be used, with the remedy; None: it can."""
    program = shutil.which("bwrap")
    if program is None:
        return "bubblewrap is not installed (apt-get install bubblewrap)"
    said = _failure(program)
    return said and (
        f"bubblewrap may not make namespaces here ({said}; as root, sysctl -w "
        "kernel.apparmor_restrict_unprivileged_userns=0 on Ubuntu, kernel.unprivileged_userns_clone=1 on Debian, "
        "user.max_user_namespaces=10000 elsewhere; in a container its host decides)"
    )


@functools.cache
def shows_own_processes() -> bool:
    """Whether bubblewrap can give a program a /proc of its own processes; where a container masks /proc, it cannot."""
    program = bubblewrap()
    return program is not None and _failure(program, "--proc", "/proc") is None


def _failure(program: str, *options: str) -> str | None:
    """What bwrap says when it cannot start a harmless program; None: it can."""
    tried = (program, "--unshare-all", "--ro-bind", "/", "/", *options, "/bin/true")
    try:
        done = subprocess.run(tried, capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    said = done.stderr.decode("utf-8", "replace").strip().removeprefix("bwrap: ")
    return (said or f"exit code {done.returncode}") if done.returncode != 0 else None


@functools.cache
def isolation(walls: tuple[str, ...] | None = None) -> Isolation:
    """Try from inside the sandbox to read, write, connect to and signal what is outside.

    walls: the layers to use; None: all that this machine has.
    Raises ConfigError where not even a harmless program runs.
    """
    # runner.py asks this module which layers there are.
    from mmrl.scoring.sandbox.runner import run

    walls = layers() if walls is None else walls
    with tempfile.TemporaryDirectory(prefix="mmrl-probe-") as folder, _Servers(folder) as servers:
        (Path(folder) / "secret").write_text("x")
        settings = f"FOLDER, PARENT, TCP, UDP = {(folder, os.getpid(), *servers.ports)!r}\n"
        result = run(Job(python_command(settings + _PROBE), limits=Limits(wall_s=20.0)), walls=walls)
        reached = servers.reached()
    if not result.ok:
        why = result.text("stderr").strip()[-500:] or f"exit code {result.exit_code}"
        raise ConfigError(f"the sandbox cannot run a Python program on this machine: {why}")
    tried = json.loads(result.stdout)
    return Isolation(
        layers=walls,
        files=not tried["read"] and not tried["write"],
        network=not reached,
        # Inside a process namespace the number belongs to nobody, or to the probe's own init.
        processes=not tried["signal"] or "bubblewrap" in walls,
    )


class _Servers(contextlib.ExitStack):
    """What the probe tries to reach: one server of each kind on this machine."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self._tcp = self.enter_context(socket.create_server(("127.0.0.1", 0)))
        self._udp = self.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        self._udp.bind(("127.0.0.1", 0))
        self._unix = self.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        self._unix.bind(f"{folder}/socket")
        self.ports = (self._tcp.getsockname()[1], self._udp.getsockname()[1])

    def reached(self) -> bool:
        """Whether anything has come. In a network of its own a program may send, and it comes nowhere."""
        ready, _, _ = select.select([self._tcp, self._udp, self._unix], [], [], 0)
        return bool(ready)


def require_isolation(*, allow_weak: bool, what: str) -> None:
    """ConfigError, with the remedy, where model-written input could reach files, network or processes of the machine.

    allow_weak: accept what there is. what: who asks, for the message.
    """
    found = isolation()
    if not (found.strong or allow_weak):
        has = ", ".join(found.layers) or "none"
        raise ConfigError(
            f"{what} runs what the model wrote, and this machine cannot keep it from {', '.join(found.missing)} "
            f"outside (layers: {has}; {bubblewrap_problem() or 'bubblewrap works'}); {_REMEDY}"
        )
