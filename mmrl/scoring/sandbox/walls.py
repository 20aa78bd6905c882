"""Which walls this machine can put around a command, and whether they hold: tried once per process, not assumed."""

from __future__ import annotations

import contextlib
import functools
import json
import os
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
print(json.dumps({
    "read": allowed(lambda: open(FOLDER + "/secret").close()),
    "write": allowed(lambda: open(FOLDER + "/new", "w").close()),
    "tcp": allowed(lambda: send(socket.SOCK_STREAM, socket.AF_INET, ("127.0.0.1", TCP))),
    "udp": allowed(lambda: send(socket.SOCK_DGRAM, socket.AF_INET, ("127.0.0.1", UDP))),
    "unix": allowed(lambda: send(socket.SOCK_DGRAM, socket.AF_UNIX, FOLDER + "/socket")),
    "pair": allowed(lambda: send_by_pair(FOLDER + "/socket")),
    "signal": allowed(lambda: os.kill(PARENT, 0)),
}))
"""
_REMEDY = (
    "install bubblewrap (apt-get install bubblewrap) where user namespaces are allowed, or run on a kernel with "
    "Landlock (Linux 5.13 or newer, `landlock` in /sys/kernel/security/lsm) and seccomp; `mmrl list sandbox` shows "
    "what is here. On a machine that holds nothing worth protecting, the reward's option `allow_weak_sandbox: true` "
    "runs without these walls"
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
    program = shutil.which("bwrap")
    return program if program is not None and _starts(program) else None


@functools.cache
def shows_own_processes() -> bool:
    """Whether bubblewrap can give a program a /proc of its own processes; where a container masks /proc, it cannot."""
    program = bubblewrap()
    return program is not None and _starts(program, "--proc", "/proc")


def _starts(program: str, *options: str) -> bool:
    tried = (program, "--unshare-all", "--ro-bind", "/", "/", *options, "/bin/true")
    try:
        return subprocess.run(tried, capture_output=True, timeout=10, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


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
    if not result.ok:
        why = result.text("stderr").strip()[-500:] or f"exit code {result.exit_code}"
        raise ConfigError(f"the sandbox cannot run a Python program on this machine: {why}")
    tried = json.loads(result.stdout)
    return Isolation(
        layers=walls,
        files=not tried["read"] and not tried["write"],
        network=not any(tried[way] for way in ("tcp", "udp", "unix", "pair")),
        # Inside a process namespace the number belongs to nobody, or to the probe's own init.
        processes=not tried["signal"] or "bubblewrap" in walls,
    )


class _Servers(contextlib.ExitStack):
    """What the probe tries to reach: one server of each kind on this machine."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        tcp = self.enter_context(socket.create_server(("127.0.0.1", 0)))
        udp = self.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind(("127.0.0.1", 0))
        self.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)).bind(f"{folder}/socket")
        self.ports = (tcp.getsockname()[1], udp.getsockname()[1])


def require_isolation(*, allow_weak: bool, what: str) -> None:
    """ConfigError, with the remedy, where model-written input could reach files, network or processes of the machine.

    allow_weak: accept what there is. what: who asks, for the message.
    """
    found = isolation()
    if not (found.strong or allow_weak):
        has = ", ".join(found.layers) or "none"
        raise ConfigError(
            f"{what} runs what the model wrote, and this machine cannot keep it from {', '.join(found.missing)} "
            f"outside (layers: {has}); {_REMEDY}"
        )
