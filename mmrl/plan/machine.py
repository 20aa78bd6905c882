"""The machine that a run is planned for: the one given, or this one."""

from __future__ import annotations

import os
from pathlib import Path

from mmrl.plan.memory import Machine

DEFAULT_GPU_GB = 80.0
_GIB = 2**30
_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


def planned_machine(gpus: int | None, gpu_gb: float | None) -> Machine:
    """`gpus` GPUs of `gpu_gb` GB (2^30 bytes, as nvidia-smi counts); one alone implies the other: 80 GB, one GPU.

    Of neither: this machine's GPUs, one process each; else its memory, for one process.
    """
    if gpus is None and gpu_gb is None:
        return _this_machine()
    count, size = gpus or 1, DEFAULT_GPU_GB if gpu_gb is None else gpu_gb
    return Machine(count, int(size * _GIB), True, f"{count} GPU{'s' if count > 1 else ''} of {size:g} GB")


def _this_machine() -> Machine:
    import torch

    if torch.cuda.is_available():
        count, first = torch.cuda.device_count(), torch.cuda.get_device_properties(0)
        name = f"this machine: {count} x {first.name}, {first.total_memory / _GIB:.0f} GB"
        return Machine(count, first.total_memory, True, name)
    size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if _CGROUP_LIMIT.is_file() and (limit := _CGROUP_LIMIT.read_text().strip()).isdecimal():
        size = min(size, int(limit))
    return Machine(1, size, False, f"this machine: one process on CPUs, {size / _GIB:.1f} GB")
