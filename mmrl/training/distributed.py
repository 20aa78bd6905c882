"""The processes of a run. One process needs no launcher, no MPI and no compiler.

Every function works for any world size; a single process is a world of one. All but `rank`, `world_size`, `is_main` and
`device` are collective: every process calls them, in the same order.
"""

from __future__ import annotations

import atexit
import logging
import os
import signal
import socket
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

from mmrl.errors import EchoedError, MmrlError

T = TypeVar("T")

# Set beside _SINGLE_PROCESS: programs that a training starts inherit its environment and are groups of their own.
ALONE = "MMRL_ALONE"
# Set where several machines train: the words of the launcher, as JSON.
LAUNCHER = "MMRL_LAUNCHER"
_SINGLE_PROCESS = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}


def device() -> torch.device:
    """The device of this process: its own GPU, or the CPU."""
    if torch.cuda.is_available():
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    return torch.device("cpu")


def start_processes() -> None:
    """Join the process group; without a launcher, become a group of one. Safe to call twice.

    It is left when the process ends, not when a run does: DeepSpeed keeps groups of its own that do not survive it.
    """
    if not _is_launched() and os.environ.get(ALONE) != str(os.getpid()):
        os.environ.update(_SINGLE_PROCESS, MASTER_PORT=str(free_port()))
        os.environ[ALONE] = str(os.getpid())
    if not torch.cuda.is_available():
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
    if torch.distributed.is_initialized():  # by an earlier training of this process, or by vLLM
        return
    if was_launched():
        _end_with_launcher()
    deepspeed = import_deepspeed()
    deepspeed.init_distributed(dist_backend="nccl" if torch.cuda.is_available() else "gloo", verbose=False)
    atexit.register(_leave_group)
    if torch.cuda.is_available():
        torch.cuda.set_device(device())


def _is_launched() -> bool:
    """Whether a launcher started this process. What a group of one wrote is no launcher's, also in its children."""
    return "RANK" in os.environ and not os.environ.get(ALONE)


def was_launched() -> bool:
    """Whether a launcher started this process together with others."""
    return _is_launched() and int(os.environ.get("WORLD_SIZE", "1")) > 1


def _end_with_launcher() -> None:
    """Have the kernel send SIGTERM when the launcher dies, however it dies: the run writes a checkpoint and ends."""
    from torch.multiprocessing import _prctl_pr_set_pdeathsig  # type: ignore[attr-defined]

    _prctl_pr_set_pdeathsig(signal.SIGTERM)


def _leave_group() -> None:
    """Not after a traceback on GPUs: leaving waits for collectives that the others will never finish."""
    failed = getattr(sys, "last_value", None) is not None
    if torch.distributed.is_initialized() and not (failed and torch.cuda.is_available()):
        torch.distributed.destroy_process_group()


def rank() -> int:
    return torch.distributed.get_rank() if torch.distributed.is_initialized() else 0


def world_size() -> int:
    return torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1


def is_main() -> bool:
    return rank() == 0


def barrier() -> None:
    if world_size() > 1:
        torch.distributed.barrier()


def sum_over_ranks(values: Sequence[float]) -> list[float]:
    """Element-wise sum of the values of all ranks, in float64."""
    if world_size() == 1:
        return [float(v) for v in values]
    total = torch.tensor(list(values), dtype=torch.float64, device=device())
    torch.distributed.all_reduce(total)
    return total.tolist()


def any_rank(flag: object) -> bool:
    """Whether the flag is true on some rank; the same answer on all."""
    return sum_over_ranks([float(bool(flag))])[0] > 0


def together(function: Callable[[], T]) -> T:
    """What the function returns on this rank. Where it raises a user's error on some rank, all ranks raise.

    The first rank that failed raises its own error, the others EchoedError, which is not printed again: nobody waits
    for a process that is gone, and one fault is one line. The function itself calls nothing collective.
    """
    if world_size() == 1:
        return function()
    result: Any = None
    error: MmrlError | OSError | None = None
    try:
        result = function()
    except (MmrlError, OSError) as raised:
        error = raised
    said = gather_objects(None if error is None else str(error))
    failed = [number for number, message in enumerate(said) if message is not None]
    if not failed:
        return result
    if failed[0] == rank() and error is not None:
        raise error
    raise EchoedError(f"process {failed[0]}: {said[failed[0]]}") from error


def on_main(function: Callable[[], T]) -> T:
    """What the function returns on the main rank, which alone calls it; its error is raised on all, printed by one."""
    mine = together(lambda: function() if is_main() else None)
    return gather_objects(mine)[0]


def gather_objects(value: Any) -> list[Any]:
    """The values of all ranks, in rank order, on every rank."""
    if world_size() == 1:
        return [value]
    gathered: list[Any] = [None] * world_size()
    torch.distributed.all_gather_object(gathered, value)
    return gathered


def import_deepspeed() -> Any:
    """DeepSpeed without its banner and without its shared-memory op.

    That op is compiled on first use even for one process, needs ninja and g++, and a killed build leaves a lock on
    which the next start hangs; gloo does the same work.
    """
    logging.getLogger("DeepSpeed").setLevel(logging.ERROR)
    # DeepSpeed's collectives call torch's by names that torch is about to change.
    warnings.filterwarnings("ignore", category=FutureWarning, module="torch.distributed.c10d_logger")
    with _without_stderr():
        import deepspeed

    deepspeed.utils.logger.setLevel(logging.ERROR)
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    return deepspeed


@contextmanager
def _without_stderr() -> Iterator[None]:
    """Drop what child processes print: on import DeepSpeed asks the linker which libraries its kernels would find."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
