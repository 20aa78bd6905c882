"""Seconds of giving a vLLM engine new weights, against copying the same bytes.

    python tests/bench/bench_weight_sync.py [--repeats N] [--dtypes float32 bfloat16] [--unpacked]

Random weights in the shape of Qwen2.5-VL, at least 400 MB of them; one thread.

    sync    `VllmEngine.sync_weights`: names and shapes checked, fused layers filled, caches of the old weights dropped
    copy    `tensor.copy_` of every parameter into memory that is there already
    pack    of the sync: oneDNN's own form of every matrix, which vLLM makes on CPUs because decoding is faster with it

`--unpacked` has vLLM keep the matrices as they are, as it does on GPUs.

The two run in turn; medians, and the ratio of the medians.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from makers.bench_models import large_model, versions

from mmrl.models.families import load_processor
from mmrl.models.load import save_model
from mmrl.rollout.vllm_engine import VllmEngine
from mmrl.rollout.vllm_private import CoreOptions, import_vllm


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--repeats", type=int, default=7)
    arguments.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16"])
    arguments.add_argument("--unpacked", action="store_true")
    options = arguments.parse_args()
    torch.set_num_threads(1)
    import_vllm()
    packing = Packing(enabled=not options.unpacked)
    print("| type | matrices | parameters | MB | sync s | of it pack s | copy s | sync / copy |")
    print("|---|---|---|---|---|---|---|---|")
    for dtype in options.dtypes:
        with tempfile.TemporaryDirectory() as folder:
            print(table_row(dtype, Path(folder), packing, repeats=options.repeats), flush=True)
    print(f"\n{versions()}, vLLM {sys.modules['vllm'].__version__}; medians of {options.repeats}, 1 thread")


class Packing:
    """The seconds that vLLM spends on packing; or, not enabled, its being told that oneDNN is missing."""

    def __init__(self, *, enabled: bool) -> None:
        self.name, self.seconds = "packed" if enabled else "as they are", 0.0
        operations: Any = importlib.import_module("vllm._custom_ops")
        operations._supports_onednn = enabled
        self._pack, operations.create_onednn_mm = operations.create_onednn_mm, self._timed

    def _timed(self, *arguments: Any) -> Any:
        start = time.perf_counter()
        handler = self._pack(*arguments)
        self.seconds += time.perf_counter() - start
        return handler


def table_row(dtype: str, folder: Path, packing: Packing, *, repeats: int) -> str:
    model, processor = large_model(getattr(torch, dtype))
    save_model(model, processor, folder)
    engine = VllmEngine(load_processor(folder), CoreOptions(dtype=dtype, max_model_len=256))
    named = list(model.named_parameters())
    copies = [torch.zeros_like(parameter) for _, parameter in named]

    def sync() -> None:
        engine.sync_weights(named, 0)

    def copy() -> None:
        with torch.no_grad():
            for target, (_, parameter) in zip(copies, named, strict=True):
                target.copy_(parameter)

    sync()
    packing.seconds = 0.0
    ours, theirs = medians([sync, copy], repeats=repeats)
    pack = packing.seconds / (repeats + 1)
    engine.close()
    count = sum(parameter.numel() for _, parameter in named)
    size = sum(parameter.numel() * parameter.element_size() for _, parameter in named) / 1e6
    numbers = f"{count / 1e6:.0f}M | {size:.0f} | {ours:.3f} | {pack:.3f} | {theirs:.3f} | {ours / theirs:.1f}"
    return f"| {dtype} | {packing.name} | {numbers} |"


def medians(ways: list[Callable[[], Any]], *, repeats: int) -> list[float]:
    """Median seconds of each; the first run of everything is slower and left out."""
    seconds: list[list[float]] = [[] for _ in ways]
    for turn in range(repeats + 1):
        for taken, way in zip(seconds, ways, strict=True):
            start = time.perf_counter()
            way()
            if turn:
                taken.append(time.perf_counter() - start)
    return [statistics.median(taken) for taken in seconds]


if __name__ == "__main__":
    main()
