"""Tokens a CPU second of the ways to sample the same prompts: vllm_engine, vLLM alone, hf_engine.

    python tests/bench/bench_vllm_engine.py [--repeats N] [--models tiny medium] [--prompts 32] [--new 64]

Every prompt shows one picture of its own and gets 8 completions; fp32, one thread, so that CPU seconds are those of a
quiet machine. The ways run in turn, forwards and backwards, and vLLM's caches are emptied before each; medians. vLLM as
it packs matrices by itself (`rollout.vllm.cpu_packing`) needs an engine of its own, which follows:

    vllm_engine   from rendered prompts: uint8 frames are made into patches, one seeded request a completion
    vLLM alone    patches and prompts made beforehand, one request with n = 8 a prompt, its own seeds
    packed        the same, in an engine that packs its matrices
    hf_engine     the reference, from the same rendered prompts
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from makers.bench_models import medium_model, versions
from makers.rendered import make_image, make_prompt
from makers.vlm import tiny_vlm

from mmrl.models.families import load_processor
from mmrl.models.load import save_model
from mmrl.rollout.hf_engine import HfEngine
from mmrl.rollout.types import Request, Sampling
from mmrl.rollout.vllm_engine import VllmEngine
from mmrl.rollout.vllm_media import media_spans
from mmrl.rollout.vllm_private import _params
from mmrl.rollout.vllm_types import CoreOptions, CoreSampling

GROUP = 8


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--repeats", type=int, default=5)
    arguments.add_argument("--models", nargs="+", default=["tiny", "medium"])
    arguments.add_argument("--prompts", type=int, default=32)
    arguments.add_argument("--new", type=int, default=64)
    options = arguments.parse_args()
    torch.set_num_threads(1)
    print("| model | prompt tokens | vllm_engine tokens/s | vLLM alone | ratio | packed | ratio | hf_engine | ratio |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in options.models:
        with tempfile.TemporaryDirectory() as folder:
            print(table_row(name, Path(folder), options), flush=True)
    completions = f"{options.prompts} x {GROUP} completions of up to {options.new} tokens"
    print(f"\n{versions()}, vLLM {sys.modules['vllm'].__version__}; {completions}, fp32, 1 thread")


def table_row(name: str, folder: Path, options: argparse.Namespace) -> str:
    model, processor = (tiny_vlm("qwen2_5_vl").model, tiny_vlm("qwen2_5_vl").processor)
    if name == "medium":
        model, processor = medium_model()
    save_model(model, processor, folder)
    processor = load_processor(folder)
    requests = requests_for(processor, count=options.prompts, new=options.new)
    engine = opened(model, processor, packed=False)
    reference = HfEngine(model, processor)
    ways: list[Callable[[], int]] = [
        lambda: tokens_of(engine, requests),
        vllm_alone(engine, requests),
        lambda: tokens_of(reference, requests),
    ]
    ours, alone, hf = speeds(engine, ways, repeats=options.repeats)
    engine.close()
    engine = opened(model, processor, packed=True)
    [packed] = speeds(engine, [vllm_alone(engine, requests)], repeats=options.repeats)
    engine.close()
    size, length = sum(p.numel() for p in model.parameters()) / 1e6, len(requests[0].prompt.prompt_ids_T)
    others = " | ".join(f"{speed:.0f} | {ours / speed:.2f}" for speed in (alone, packed, hf))
    return f"| {size:.1f}M | {length} | {ours:.0f} | {others} |"


def opened(model: Any, processor: Any, *, packed: bool) -> VllmEngine:
    engine = VllmEngine(processor, CoreOptions(dtype="float32", max_model_len=256, cpu_packing=packed))
    engine.sync_weights(model.eval().named_parameters(), 0)
    return engine


def speeds(engine: VllmEngine, ways: list[Callable[[], int]], *, repeats: int) -> list[float]:
    measured(engine, ways)  # the first run of everything is slower
    runs = [measured(engine, ways, backwards=bool(i % 2)) for i in range(repeats)]
    return [statistics.median(of_way) for of_way in zip(*runs, strict=True)]


def requests_for(processor: Any, *, count: int, new: int) -> list[Request]:
    pads = {"image": processor.image_token_id, "video": processor.video_token_id}
    images = [make_image("qwen2_5_vl", seed=seed, height=12, width=12) for seed in range(count)]
    prompts = [make_prompt([[1, 2, 3], image, list(range(30))], family="qwen2_5_vl", pad_ids=pads) for image in images]
    return [Request(str(i), p, GROUP, Sampling(max_new_tokens=new), seed=i) for i, p in enumerate(prompts)]


def measured(engine: VllmEngine, ways: list[Callable[[], int]], *, backwards: bool = False) -> list[float]:
    speeds = []
    for way in reversed(ways) if backwards else ways:
        engine._core.reset_caches()
        start = time.process_time()
        count = way()
        speeds.append(count / (time.process_time() - start))
    return speeds[::-1] if backwards else speeds


def tokens_of(engine: VllmEngine | HfEngine, requests: list[Request]) -> int:
    return sum(len(c.ids) for group in engine.generate(requests) for c in group.completions)


def vllm_alone(engine: VllmEngine, requests: list[Request]) -> Callable[[], int]:
    """vLLM's own loop over finished prompts, as `LLM.generate` runs it."""
    core, prompts = engine._core, []
    for request in requests:
        spans = media_spans(request.prompt, engine.processor)
        media = {span.entry.key: core.medium(span.entry, engine.processor.geometry) for span in spans}
        prompts.append(core.prompt(request.prompt.prompt_ids_T.tolist(), spans, media))

    def run() -> int:
        for request, prompt in zip(requests, prompts, strict=True):
            ends, seed = engine.processor.eos_ids, 1000 * request.seed
            params = _params(CoreSampling(1.0, request.sampling.max_new_tokens, seed=seed, end_ids=ends))
            params.n = request.n
            core._engine.add_request(f"alone-{time.perf_counter_ns()}", prompt, params)
        count = 0
        while core._engine.has_unfinished_requests():
            outputs = [output for output in core._engine.step() if output.finished]
            count += sum(len(completion.token_ids) for output in outputs for completion in output.outputs)
        return count

    return run


if __name__ == "__main__":
    main()
