"""Processes and the DeepSpeed engine. One process needs no launcher, no MPI and no compiler.

Every function works for any world size; a single process is a world of one.
"""

from __future__ import annotations

import atexit
import logging
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from mmrl.config.schema import ModelSection, TrainSection

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
    if torch.distributed.is_initialized():
        return
    if "RANK" not in os.environ:
        os.environ.update(_SINGLE_PROCESS, MASTER_PORT=str(_free_port()))
    if not torch.cuda.is_available():
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
    deepspeed = _import_deepspeed()
    deepspeed.init_distributed(dist_backend="nccl" if torch.cuda.is_available() else "gloo", verbose=False)
    atexit.register(_leave_group)
    if torch.cuda.is_available():
        torch.cuda.set_device(device())


def _leave_group() -> None:
    if torch.distributed.is_initialized():
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


def gather_objects(value: Any) -> list[Any]:
    """The values of all ranks, in rank order, on every rank."""
    if world_size() == 1:
        return [value]
    gathered: list[Any] = [None] * world_size()
    torch.distributed.all_gather_object(gathered, value)
    return gathered


def build_engine(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, *, model_section: ModelSection, train: TrainSection
) -> Any:
    """The DeepSpeed engine of this run.

    Gradient accumulation is counted in tokens, so DeepSpeed's own counter stays at 1 and `backward` sets the boundary
    by hand. `gradient_clipping` is always passed: left out it would mean 1.0.
    """
    engine, _, _, _ = _import_deepspeed().initialize(
        model=model, optimizer=optimizer, config=engine_config(model_section=model_section, train=train)
    )
    return engine


def load_optimizer(engine: Any, state: dict[str, Any]) -> None:
    """Put this rank's saved optimizer state back, fp32 master weights included.

    ZeRO's optimizers want a list of states that they index by rank.
    """
    if engine.zero_optimization():
        engine.optimizer.load_state_dict([state] * world_size(), load_from_fp32_weights=True)
    else:
        engine.optimizer.load_state_dict(state)


def optimizer_state_classes() -> list[Any]:
    """Plain data classes that DeepSpeed puts into an optimizer state; all that reading one back may create."""
    _import_deepspeed()
    from deepspeed.runtime.fp16.loss_scaler import LossScaler
    from deepspeed.runtime.zero.config import ZeroStageEnum
    from deepspeed.utils.tensor_fragment import fragment_address

    return [LossScaler, ZeroStageEnum, fragment_address]


def apply_step(engine: Any) -> float:
    """Clip and step; returns the gradient norm before clipping.

    DeepSpeed reports a norm only where it keeps fp32 gradients of its own; plain fp32 training reads the parameters'.
    """
    if engine.zero_optimization() or engine.bfloat16_enabled():
        engine.step()
        return float(engine.get_global_grad_norm() or 0.0)
    gradients = [p.grad for p in engine.module.parameters() if p.grad is not None]
    norm = float(torch.nn.utils.get_total_norm(gradients))
    engine.step()
    return norm


def engine_config(*, model_section: ModelSection, train: TrainSection) -> dict[str, Any]:
    """DeepSpeed's configuration as a dictionary; a function of the run's configuration alone."""
    return {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 1,
        "gradient_clipping": train.max_grad_norm,
        "bf16": {"enabled": model_section.dtype == "bfloat16"},
        "zero_optimization": {"stage": train.zero_stage, "overlap_comm": False},
        "zero_allow_untested_optimizer": True,
        "steps_per_print": 10**9,
    }


def _import_deepspeed() -> Any:
    """DeepSpeed without its banner and without its shared-memory op.

    That op is compiled on first use even for one process, needs ninja and g++, and a killed build leaves a lock on
    which the next start hangs; gloo does the same work.
    """
    logging.getLogger("DeepSpeed").setLevel(logging.ERROR)
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


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
