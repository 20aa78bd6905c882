"""`mmrl launch`: one command line as several processes, of this machine or of those in a host file.

On one machine the processes are started by the layer that torchrun stands on, without its agent: the agent kills what
has not ended 30 seconds after a signal, and a step with its checkpoint may take longer. Several machines are started
by DeepSpeed's launcher, over ssh.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from mmrl.commands.launched import pack
from mmrl.errors import ConfigError

COMMANDS = ("train",)
_POLL_S = 0.2
_REACH_S = 10
_INTERRUPTED = 130


def launch_command(arguments: Sequence[str], *, processes: int, hosts: Path | None) -> int:
    """Run `mmrl ARGUMENTS` in this many processes (on each machine of `hosts`). Returns the command's exit code.

    SIGTERM and SIGINT are passed on, to each process once. When a process fails the others are ended, and its code is
    returned (128 + n where signal n ended it).
    """
    _check(arguments)
    if hosts is not None:
        return _launch_on(hosts, arguments, processes=processes)
    return _Here(arguments, processes=processes).run()


def _check(arguments: Sequence[str]) -> None:
    """Refuse what every process would refuse, once."""
    if not arguments or arguments[0] not in COMMANDS:
        said = repr(arguments[0]) if arguments else "nothing"
        raise ConfigError(f"mmrl launch runs `mmrl train CONFIG ...` in several processes, not {said}")
    words = [word for word in arguments[1:] if not word.startswith("-")]
    if words:
        from mmrl.config.load import load_config

        load_config(Path(words[0]), words[1:])


def _launch_on(hosts: Path, arguments: Sequence[str], *, processes: int) -> int:
    if not hosts.is_file():
        raise ConfigError(f"{hosts}: no such file; a host file has one line a machine, e.g. `node1 slots={processes}`")
    _check_tools()
    _check_hosts(_names_in(hosts))
    launcher = ["launch", "--nproc", str(processes), "--hostfile", str(hosts)]
    runner = [sys.executable, "-m", "deepspeed.launcher.runner", "--hostfile", str(hosts), "--quiet"]
    placed = ["--num_gpus", str(processes), "--no_local_rank", "--module", "mmrl.commands.launched"]
    return _exit_code(subprocess.run([*runner, *placed, pack(arguments, launcher=launcher)], check=False).returncode)


def _check_tools() -> None:
    """Refuse what DeepSpeed's launcher would end with a traceback for."""
    missing = [tool for tool in ("ssh", "pdsh") if shutil.which(tool) is None]
    if missing:
        raise ConfigError(
            f"--hostfile: {' and '.join(missing)} not found; DeepSpeed's launcher needs ssh and pdsh here"
        )


def _names_in(hosts: Path) -> list[str]:
    """The machines of a host file. Raises ConfigError with what DeepSpeed says of a bad line."""
    from mmrl.training.distributed import import_deepspeed

    import_deepspeed()
    from deepspeed.launcher.runner import fetch_hostfile

    try:
        return list(fetch_hostfile(str(hosts)) or ())
    except ValueError as error:
        raise ConfigError(f"{hosts}: {error}; one line a machine, e.g. `node1 slots=8`") from error


def _check_hosts(names: Sequence[str]) -> None:
    """Refuse machines that ssh does not reach without a password; DeepSpeed asks the first one only."""

    def problem(name: str) -> str | None:
        options = ["-o", "BatchMode=yes", "-o", f"ConnectTimeout={_REACH_S}"]
        done = subprocess.run(["ssh", *options, name, "true"], capture_output=True, text=True, check=False)
        said = next(iter(done.stderr.strip().splitlines()), f"exit code {done.returncode}")
        return None if done.returncode == 0 else f"{name}: not reached by ssh without a password: {said}"

    with ThreadPoolExecutor(32) as pool:
        problems = [found for found in pool.map(problem, names) if found is not None]
    if problems:
        raise ConfigError("; ".join(problems))


class _Here:
    """The processes of this machine."""

    def __init__(self, arguments: Sequence[str], *, processes: int) -> None:
        self.arguments, self.processes = tuple(arguments), processes
        self._interrupted = False

    def run(self) -> int:
        from torch.distributed.elastic.multiprocessing.api import SignalException

        context = self._start()
        try:
            while True:
                try:
                    result = context.wait(timeout=_POLL_S, period=_POLL_S)
                except SignalException as received:
                    self._pass_on(context, received.sigval)
                    continue
                if result is not None:
                    return _INTERRUPTED if self._interrupted else _code_of(result.failures)
        finally:
            context.close()

    def _start(self) -> Any:
        from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, start_processes

        from mmrl.training.distributed import ALONE, free_port

        logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)  # processes speak for themselves
        shared = {
            "WORLD_SIZE": str(self.processes),
            "LOCAL_WORLD_SIZE": str(self.processes),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_port()),
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
            ALONE: "",
            "TORCHELASTIC_RUN_ID": "mmrl",
            "TORCHELASTIC_RESTART_COUNT": "0",
        }
        ranks = range(self.processes)
        return start_processes(
            name="mmrl",
            entrypoint=sys.executable,
            args=dict.fromkeys(ranks, ("-m", "mmrl", *self.arguments)),
            envs={rank: {**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in ranks},
            logs_specs=DefaultLogsSpecs(log_dir=os.devnull),
        )

    def _pass_on(self, context: Any, number: signal.Signals) -> None:
        """Give a signal to the processes themselves: what they started (reward workers) is theirs to end."""
        self._interrupted |= number == signal.SIGINT
        for pid in context.pids().values():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue


def _code_of(failures: dict[int, Any]) -> int:
    """The exit code of the process that failed first; 0 where none did."""
    if not failures:
        return 0
    return _exit_code(min(failures.values(), key=lambda failure: failure.timestamp).exitcode)


def _exit_code(returned: int) -> int:
    """What a shell would report: 128 + n for a process that signal n ended.

    >>> _exit_code(75), _exit_code(-9)
    (75, 137)
    """
    return returned if returned >= 0 else 128 - returned
