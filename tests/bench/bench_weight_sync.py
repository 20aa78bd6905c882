"""Seconds of giving a vLLM engine new weights, against copying the same bytes; and what its matrices' form costs later.

    python tests/bench/bench_weight_sync.py [--repeats N] [--dtypes float32 bfloat16] [--completions 64] [--new 64]

Random weights in the shape of Qwen2.5-VL, at least 400 MB of them; one thread.

    matrices   as they are, which `rollout.vllm.cpu_packing: false` asks for and GPUs do; or packed for oneDNN
    sync       `VllmEngine.sync_weights`: names and shapes checked, fused layers filled, old weights' caches dropped
    pack       of the sync: oneDNN's own form of every matrix
    copy       `tensor.copy_` of every parameter into memory that is there already
    tokens/s   sampled tokens a CPU second: prompts of 64 text tokens, all completions in one batch

Sync and copy run in turn; medians, and the ratio of the medians. The two forms follow one another in one process.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from makers.bench_models import large_model, versions
from makers.rendered import make_prompt
from makers.timing import medians

from mmrl.models.families import load_processor
from mmrl.models.load import save_model
from mmrl.rollout.types import Request, Sampling
from mmrl.rollout.vllm_engine import VllmEngine
from mmrl.rollout.vllm_guard import import_vllm
from mmrl.rollout.vllm_types import CoreOptions


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--repeats", type=int, default=7)
    arguments.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16"])
    arguments.add_argument("--completions", type=int, default=64)
    arguments.add_argument("--new", type=int, default=64)
    options = arguments.parse_args()
    torch.set_num_threads(1)
    import_vllm()
    packing = Packing()
    print("| type | matrices | parameters | MB | sync s | of it pack s | copy s | sync / copy | tokens/s |")
    print("|---|---|---|---|---|---|---|---|---|")
    for dtype in options.dtypes:
        with tempfile.TemporaryDirectory() as folder:
            model, processor = large_model(getattr(torch, dtype))
            save_model(model, processor, Path(folder))
            for packed in (False, True):
                print(table_row(model, Path(folder), packing, options, packed=packed), flush=True)
    batch = f"{options.completions} completions of {options.new} tokens"
    print(f"\n{versions()}, vLLM {sys.modules['vllm'].__version__}; medians of {options.repeats}, {batch}, 1 thread")


class Packing:
    """The seconds that vLLM has spent on packing."""

    def __init__(self) -> None:
        self.seconds = 0.0
        operations: Any = importlib.import_module("vllm._custom_ops")
        self._pack, operations.create_onednn_mm = operations.create_onednn_mm, self._timed

    def _timed(self, *arguments: Any) -> Any:
        start = time.perf_counter()
        handler = self._pack(*arguments)
        self.seconds += time.perf_counter() - start
        return handler


def table_row(model: Any, folder: Path, packing: Packing, options: argparse.Namespace, *, packed: bool) -> str:
    dtype = str(model.dtype).removeprefix("torch.")
    settings = CoreOptions(dtype=dtype, max_model_len=256, cpu_packing=packed)
    engine = VllmEngine(load_processor(folder), settings)
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
    ours, theirs = medians([sync, copy], repeats=options.repeats)
    pack = packing.seconds / (options.repeats + 1)
    speed = tokens_a_second(engine, completions=options.completions, new=options.new)
    engine.close()
    count = sum(parameter.numel() for _, parameter in named)
    size = sum(parameter.numel() * parameter.element_size() for _, parameter in named) / 1e6
    numbers = f"{count / 1e6:.0f}M | {size:.0f} | {ours:.3f} | {pack:.3f} | {theirs:.3f} | {ours / theirs:.1f}"
    return f"| {dtype} | {'packed' if packed else 'as they are'} | {numbers} | {speed:.0f} |"


def tokens_a_second(engine: VllmEngine, *, completions: int, new: int) -> float:
    """The median of three runs, after one that is left out."""
    prompt = make_prompt([list(range(1, 65))], family="qwen2_5_vl", pad_ids={})
    sampling = Sampling(max_new_tokens=new)
    speeds = []
    for turn in range(4):
        start = time.process_time()
        [group] = engine.generate([Request("bench", prompt, completions, sampling, seed=turn)])
        speeds.append(sum(len(c.ids) for c in group.completions) / (time.process_time() - start))
    return statistics.median(speeds[1:])


if __name__ == "__main__":
    main()
