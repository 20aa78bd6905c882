"""Start a job behind every wall the machine has, watch its limits, and end it with everything it started."""

from __future__ import annotations

import contextlib
import functools
import os
import selectors
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from mmrl.scoring.sandbox import landlock, seccomp
from mmrl.scoring.sandbox.job import Job, KilledBy, Limits, Result, Tree
from mmrl.scoring.sandbox.python_runtime import interpreter, python_trees
from mmrl.scoring.sandbox.walls import bubblewrap, layers, shows_own_processes

LAUNCHER = Path(__file__).with_name("launcher.py")
_WATCH_S = 0.1
_DEEPEST = 40
_OURS = 3  # processes of a job that are not its own: bubblewrap's two, and the launcher until it becomes the job
_LAST_BREATH_S = 2.0
_STALE_S = 3600.0
_PREFIX = "mmrl-sandbox-"
_DEVICES = tuple(Path("/dev") / name for name in ("null", "zero", "full", "random", "urandom"))
_PROC = Path("/proc")
_SYSTEM = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache", "/usr/share/zoneinfo")
_ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "PYTHONHASHSEED": "0",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


def run(job: Job, *, walls: tuple[str, ...] | None = None) -> Result:
    """Run one job in an empty scratch folder that is removed afterwards.

    walls: the layers to use, of `isolation.layers()`; None: all of them.
    Raises OSError only for what is wrong with this machine (no space for the scratch folder, no process to be had).
    """
    began = time.monotonic()
    walls = layers() if walls is None else walls
    _remove_stale()
    scratch = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
    try:
        for name, content in job.files.items():
            (scratch / _plain(name)).write_bytes(content)
        with tempfile.TemporaryFile() as stdin:
            stdin.write(job.stdin)
            stdin.flush()
            # Opened anew: what the command could write to would be a file outside the scratch folder.
            with Path(f"/proc/self/fd/{stdin.fileno()}").open("rb") as read_only:
                process = _start(command(job, scratch, walls), job, scratch, read_only)
            watched = _Watched(process, job.limits, scratch, began=began)
            watched.wait()
        files = dict(_collected(job, scratch))
        return watched.result(files)
    finally:
        _remove(scratch)


def _plain(name: str) -> str:
    assert name == Path(name).name, f"{name!r} is no plain file name"
    return name


def _start(argv: list[str], job: Job, scratch: Path, stdin: IO[bytes]) -> subprocess.Popen[bytes]:
    home = {"HOME": str(scratch), "TMPDIR": str(scratch)}
    return subprocess.Popen(
        argv,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=scratch,
        env={**_ENVIRONMENT, **home, **job.env},
        start_new_session=True,
    )


def command(job: Job, scratch: Path, walls: tuple[str, ...]) -> list[str]:
    """The whole command line: bubblewrap if there is one, the launcher with its policy, the job's own."""
    trees = (*(Tree(Path(p)) for p in _SYSTEM if Path(p).exists()), *python_trees(), *job.reads)
    policy = [f"rlimit {name} {value}" for name, value in _rlimits(job.limits)]
    policy += _landlock(trees, scratch) if "landlock" in walls else []
    policy += _seccomp(job.limits, walls) if "seccomp" in walls else []
    launch = [interpreter(), "-I", "-S", str(LAUNCHER), "\n".join(policy), *job.argv]
    return [*_bubblewrap((*trees, Tree(LAUNCHER)), scratch), *launch] if "bubblewrap" in walls else launch


def _rlimits(limits: Limits) -> list[tuple[str, int]]:
    named = {
        "RLIMIT_CPU": limits.cpu_s,
        "RLIMIT_FSIZE": limits.disk_bytes,
        "RLIMIT_NOFILE": 256,
        "RLIMIT_CORE": 0,
        "RLIMIT_MEMLOCK": 0,
        "RLIMIT_MSGQUEUE": 0,
    }
    if not limits.by_resident:
        named["RLIMIT_AS"] = limits.memory_bytes
    return list(named.items())


def _landlock(trees: tuple[Tree, ...], scratch: Path) -> list[str]:
    devices = [d for d in _DEVICES if d.exists()]
    wanted = landlock.ruleset(trees, writes=(scratch,), devices=devices, version=landlock.abi())
    rules = [f"rule {rights} {path}" for path, rights in wanted["rules"]]
    assert not any("\n" in rule for rule in rules)
    return ["landlock {fs} {net} {scoped} {size}".format(**wanted), *rules]


def _seccomp(limits: Limits, walls: tuple[str, ...]) -> list[str]:
    may_fork = limits.processes > 1
    # Signals of its own processes only: the process namespace or Landlock sees to that.
    walled = "bubblewrap" in walls or ("landlock" in walls and landlock.abi() >= landlock.SIGNAL_SCOPE_ABI)
    program = seccomp.seccomp_filter(may_fork=may_fork, may_signal=may_fork and walled, memfd=limits.by_resident)
    return [f"bpf {code} {true} {false} {'pid' if k is None else k}" for code, true, false, k in program]


def _bubblewrap(trees: tuple[Tree, ...], scratch: Path) -> list[str]:
    program = bubblewrap()
    assert program is not None
    binds: list[str] = []
    masked: list[str] = []
    for tree in (t for t in trees if not t.names_only):
        own = tree.path == _PROC and shows_own_processes()
        binds += ["--proc", "/proc"] if own else ["--ro-bind", str(tree.path), str(tree.path)]
        for name in tree.hidden:
            if (tree.path / name).is_dir():
                binds += ["--tmpfs", str(tree.path / name)]
                masked += ["--remount-ro", str(tree.path / name)]
    for device in (d for d in _DEVICES if d.exists()):
        binds += ["--dev-bind", str(device), str(device)]
    binds += ["--bind", str(scratch), str(scratch), *masked, "--remount-ro", "/", "--chdir", str(scratch)]
    return [program, "--unshare-all", "--die-with-parent", *binds]


class _Watched:
    """A running job: reads what it prints, watches its limits, kills its whole process group."""

    def __init__(self, process: subprocess.Popen[bytes], limits: Limits, scratch: Path, *, began: float) -> None:
        self.process, self.limits, self.scratch, self.began = process, limits, scratch, began
        self.printed = {"stdout": bytearray(), "stderr": bytearray()}
        self.killed_by: KilledBy | None = None
        self.seconds = 0.0

    def wait(self) -> None:
        """Return when the job has ended by itself or by a limit, and nothing of it runs any more."""
        ended = os.pidfd_open(self.process.pid)
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(ended, selectors.EVENT_READ)
                for name in self.printed:
                    stream = getattr(self.process, name)
                    os.set_blocking(stream.fileno(), False)
                    selector.register(stream, selectors.EVENT_READ, name)
                while not self._step(selector):
                    pass
        finally:
            os.close(ended)
            self._end()

    def _step(self, selector: selectors.BaseSelector) -> bool:
        """Wait for something to happen; whether the job is over."""
        left = self.began + self.limits.wall_s - time.monotonic()
        events = selector.select(max(0.0, min(_WATCH_S, left)))
        over = False
        for key, _ in events:
            if key.data is None:
                over = True
            elif not self._read(key.data):
                selector.unregister(key.fileobj)
        self.killed_by = self._exceeded()
        return over or self.killed_by is not None

    def _read(self, name: str) -> bool:
        """Take what a stream has; whether more may come."""
        try:
            chunk = os.read(getattr(self.process, name).fileno(), 1 << 16)
        except BlockingIOError:
            return True
        self.printed[name] += chunk
        return bool(chunk)

    def _exceeded(self) -> KilledBy | None:
        if any(len(p) > self.limits.output_bytes for p in self.printed.values()):
            return "output"
        # A browser's own deleted files are memory that its processes share, which counts as such.
        job = _descendants(self.process.pid, most=_OURS + 1) if self.limits.processes == 1 else []
        if _disk_exceeded(self.scratch, self.limits, deleted=sum(map(_deleted_bytes, job))):
            return "disk"
        if len(job) > _OURS + 1:  # where seccomp does not refuse them
            return "processes"
        if self.limits.processes > 1 and (by := self._processes_exceeded()) is not None:
            return by
        return "wall" if time.monotonic() - self.began >= self.limits.wall_s else None

    def _processes_exceeded(self) -> KilledBy | None:
        resident = list(_resident_of_group(self.process.pid))
        if len(resident) > self.limits.processes + _OURS:
            return "processes"
        return "memory" if sum(resident) > self.limits.memory_bytes else None

    def _end(self) -> None:
        """Kill the group while its leader is still unreaped, so that its number belongs to nobody else."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        # A kill takes effect a little later; only the leader is waited for by the kernel.
        until = time.monotonic() + _LAST_BREATH_S
        while self.limits.processes > 1 and time.monotonic() < until and any(_resident_of_group(self.process.pid)):
            time.sleep(0.01)
        self._drain()
        self.seconds = time.monotonic() - self.began

    def _drain(self) -> None:
        for name, printed in self.printed.items():
            stream = getattr(self.process, name)
            while len(printed) <= self.limits.output_bytes and self._more(name):
                pass
            stream.close()

    def _more(self, name: str) -> bool:
        before = len(self.printed[name])
        return self._read(name) and len(self.printed[name]) > before

    def result(self, files: Mapping[str, bytes]) -> Result:
        code = self.process.returncode
        most = self.limits.output_bytes
        out, err = (bytes(self.printed[name][:most]) for name in ("stdout", "stderr"))
        cut = any(len(p) > most for p in self.printed.values())
        killed_by = self.killed_by or ("cpu" if code in (-signal.SIGXCPU, 128 + signal.SIGXCPU) else None)
        return Result(code, out, err, cut, self.seconds, killed_by, files)


def _resident_of_group(group: int) -> Iterator[int]:
    """Resident bytes of every process of a group."""
    page = os.sysconf("SC_PAGE_SIZE")
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                fields = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[2]) == group:
                yield int(fields[21]) * page


def _descendants(process: int, *, most: int) -> list[int]:
    """A process and all it started, and they; no more than one above `most`."""
    found = [process]
    for parent in found:  # it grows meanwhile
        with contextlib.suppress(OSError):  # it has ended
            for thread in os.scandir(f"/proc/{parent}/task"):
                found += map(int, Path(thread.path, "children").read_text().split())
        if len(found) > most:
            break
    return found[: most + 1]


def _deleted_bytes(process: int) -> int:
    """Space of deleted files that a process holds open. Its standard input is one, and no work of its own."""
    sizes: dict[tuple[int, int], int] = {}
    with contextlib.suppress(OSError):  # it has ended
        for entry in os.scandir(f"/proc/{process}/fd"):
            with contextlib.suppress(OSError):  # closed since it was listed
                facts = entry.stat()
                if entry.name != "0" and stat.S_ISREG(facts.st_mode) and facts.st_nlink == 0:
                    sizes[facts.st_dev, facts.st_ino] = facts.st_blocks * 512
    return sum(sizes.values())


def _disk_exceeded(folder: Path, limits: Limits, *, deleted: int) -> bool:
    """Too many files, too large, nested too deep to be counted in time, or kept from being counted."""
    files, size = 0, deleted
    folders = [(str(folder), 0)]
    while folders:
        path, depth = folders.pop()
        try:
            for entry in os.scandir(path):
                files += 1
                if entry.is_dir(follow_symlinks=False):
                    folders.append((entry.path, depth + 1))
                else:
                    size += entry.stat(follow_symlinks=False).st_blocks * 512
                if files > limits.files or size > limits.disk_bytes or depth > _DEEPEST:
                    return True
        except FileNotFoundError:
            continue  # gone since it was listed
        except OSError:
            return True
    return size > limits.disk_bytes


def _collected(job: Job, scratch: Path) -> Iterator[tuple[str, bytes]]:
    """Plain files only: a link could lead anywhere, a pipe would never end."""
    for name in job.collect:
        try:
            opened = os.open(scratch / _plain(name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            facts = os.fstat(opened)
            if stat.S_ISREG(facts.st_mode) and facts.st_nlink == 1 and facts.st_size <= job.limits.disk_bytes:
                yield name, Path(f"/proc/self/fd/{opened}").read_bytes()
        finally:
            os.close(opened)


@functools.cache
def _remove_stale() -> None:
    """Once a process: scratch folders that a killed process left, an hour old and without their owner."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*-*"):
        owner = folder.name.removeprefix(_PREFIX).partition("-")[0]
        with contextlib.suppress(OSError):
            old = time.time() - folder.stat(follow_symlinks=False).st_mtime > _STALE_S
            if old and not Path("/proc", owner).exists():
                _remove(folder)


def _remove(scratch: Path) -> None:
    """Remove a folder that may have been made hard to remove: rm is fast where folders are nested deep."""
    remove = ("rm", "-rf", "--one-file-system", str(scratch))
    if subprocess.run(remove, check=False, capture_output=True).returncode != 0:
        subprocess.run(("chmod", "-R", "u+rwX", str(scratch)), check=False, capture_output=True)
        subprocess.run(remove, check=True, capture_output=True)
