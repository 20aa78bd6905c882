"""The checks that need a CUDA machine, in one go; prints a table. Not collected by pytest.

    python tests/gpu/run.py [--device cuda] [--gpus 1] [--sizes tiny 2b] > table.md     a CUDA machine
    python tests/gpu/run.py --device cpu --tiny                                         the same code on a CPU

Random weights in the shape of Qwen2.5-VL: tiny, and about 2e9 parameters; bfloat16 on a GPU, float32 on a CPU. vLLM
chooses its kernels (flash attention on a GPU); the trainer's packed groups attend as `train.attention: auto` says. For
each size:

    log-probs       largest and mean |vLLM - trainer| over the tokens of the same completions, pictures included
    tokens/s        the engine of a training run, and vLLM alone on the same prompts
    sleep           bytes of the device that are free again while the engine sleeps
    sleep/wake      whether a greedy answer after sleep, wake and sync equals the one before
    weight sync     seconds of sync_weights against copying the same bytes
    attention       packed groups by the device's own way (flex on a GPU) against a mask of tokens x tokens: largest
                    distance of log-probs and, over the largest one, of gradients; seconds; peak memory of a long row
    ZeRO 1, 2, 3    two steps of training on one process and on all: loss and distance of the second, seconds, memory
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bench"))

from bench_vllm_engine import requests_for, tokens_of, vllm_alone
from bench_weight_sync import medians
from makers.bench_models import model_of, versions
from makers.tiny_run import write_run

from mmrl.data.rendered import RenderedPrompt
from mmrl.models.families import FamilyProcessor, load_processor
from mmrl.models.load import save_model
from mmrl.models.logprobs import token_logprobs
from mmrl.models.packing import group_row, pack
from mmrl.rollout.types import Group
from mmrl.rollout.vllm_engine import VllmEngine
from mmrl.rollout.vllm_types import CoreOptions

Row = tuple[str, str, str]
# width, MLP width, layers, heads, key-value heads, vision width, vision layers
SIZES = {"tiny": None, "2b": (2048, 8192, 32, 16, 2, 1280, 16)}


@dataclass(frozen=True)
class Place:
    """Where and how the checks run."""

    device: str
    dtype: str
    gpus: int
    stages: tuple[int, ...]
    prompts: int
    new: int
    repeats: int


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    on_gpu = options.device == "cuda"
    if on_gpu and not torch.cuda.is_available():
        print("no CUDA device; --device cpu --tiny runs the same code without one", file=sys.stderr)
        return 2
    scale = (16, 128, 5) if on_gpu else (2, 6, 1)
    place = Place(options.device, "bfloat16" if on_gpu else "float32", options.gpus, tuple(options.stages), *scale)
    print("| model | check | result |\n|---|---|---|")
    for size in ["tiny"] if options.tiny else options.sizes:
        with tempfile.TemporaryDirectory() as folder:
            for row in [*engine_rows(size, Path(folder), place), *training_rows(size, Path(folder), place)]:
                print("| " + " | ".join(row) + " |", flush=True)
    print(f"\n{versions()}, vLLM {sys.modules['vllm'].__version__}; {device_name(place)}, {place.dtype}")
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--gpus", type=int, default=1, help="processes of the largest training")
    parser.add_argument("--sizes", nargs="+", choices=list(SIZES), default=list(SIZES))
    parser.add_argument("--stages", nargs="+", type=int, choices=[1, 2, 3], default=[1, 2, 3], help="of ZeRO")
    parser.add_argument("--tiny", action="store_true", help="the tiny model alone")
    return parser.parse_args(arguments)


def device_name(place: Place) -> str:
    return torch.cuda.get_device_name() if place.device == "cuda" else "CPU"


def engine_rows(size: str, folder: Path, place: Place) -> Iterator[Row]:
    model, processor = model_of(SIZES[size], dtype=getattr(torch, place.dtype))
    save_model(model, processor, folder / "model")
    model, processor = model.to(place.device).eval(), load_processor(folder / "model")
    engine = VllmEngine(processor, CoreOptions(dtype=place.dtype, max_model_len=1024))
    engine.sync_weights(model.named_parameters(), 0)
    requests = requests_for(processor, count=place.prompts, new=place.new)
    groups = list(engine.generate(requests))
    worst, mean = distances(model, processor, groups)
    yield size, "log-probs, max (mean) distance from the trainer's", f"{worst:.1e} ({mean:.1e})"
    ours, alone = (speed(engine, way) for way in (lambda: tokens_of(engine, requests), vllm_alone(engine, requests)))
    yield size, "tokens/s, engine / vLLM alone", f"{ours:.0f} / {alone:.0f} = {ours / alone:.2f}"
    yield from sleep_rows(size, engine, model, requests[0])
    yield size, "weight sync / copy, s", sync_against_copy(engine, model, repeats=place.repeats)
    engine.close()
    yield from attention_rows(size, model, processor, groups, place)


def attention_rows(
    size: str, model: Any, processor: FamilyProcessor, groups: Sequence[Group], place: Place
) -> Iterator[Row]:
    """The way of `auto` against dense masks: on the groups, and on one long row, whose mask would be large."""
    rows = [group_row(g.request.prompt, [c.ids for c in g.completions], range(g.request.n)) for g in groups]
    model.requires_grad_(True)
    (ours, our_gradient, our_s), (dense, gradient, dense_s) = (
        attended(model, processor, rows, way) for way in ("auto", "sdpa")
    )
    off = (ours - dense).abs().max().item()
    off_gradient = ((our_gradient - gradient).abs().max() / gradient.abs().max()).item()
    yield size, "attention, distance of log-probs (gradients)", f"{off:.1e} ({off_gradient:.1e})"
    yield size, "attention, s, auto / mask", f"{our_s:.3f} / {dense_s:.3f}"
    prompt = text_prompt(groups[0].request.prompt, tokens=12_000 if place.device == "cuda" else 600)
    length = len(prompt.prompt_ids_T) // 24
    long_row = group_row(prompt, [[5] * length for _ in range(8)], range(8))
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    attended(model, processor, [long_row], "auto")
    peak = f"{torch.cuda.max_memory_allocated() / 2**30:.2f} GiB" if torch.cuda.is_available() else "no GPU"
    yield size, f"attention, peak of a row of {long_row.num_tokens} tokens", peak


def text_prompt(prompt: RenderedPrompt, *, tokens: int) -> RenderedPrompt:
    """A prompt of so many text tokens."""
    positions = torch.arange(tokens)
    return replace(
        prompt,
        prompt_ids_T=torch.full((tokens,), 5),
        position_ids_3T=positions.expand(3, -1),
        next_position=tokens,
        placeholders=(),
        media=(),
    )


def attended(model: Any, processor: FamilyProcessor, rows: list[Any], way: Any) -> tuple[torch.Tensor, Any, float]:
    """Log-probs, the gradient of one projection, and the seconds of the second pass: the first one compiles."""
    micro = pack(rows, processor, padded=way == "sdpa", attention=way)
    order = (micro.sequence_L * 100_000 + micro.token_L).argsort(stable=True)
    for _ in range(2):
        model.zero_grad()
        wait()
        start = time.perf_counter()
        found = token_logprobs(model, micro, processor, temperature=1.0, banned_ids=processor.banned_ids, chunk=256)
        found.logprobs_L.float().mean().backward()
        wait()
        seconds = time.perf_counter() - start
    layers = model.model.language_model.layers
    gradient = layers[0].self_attn.k_proj.weight.grad.float().cpu()
    model.zero_grad()
    return found.logprobs_L.detach().float().cpu()[order], gradient, seconds


def distances(model: Any, processor: FamilyProcessor, groups: Sequence[Group]) -> tuple[float, float]:
    """Largest and mean distance between the sampler's log-probs and the trainer's, over all tokens."""
    off = []
    for group in groups:
        micro = pack(
            [group_row(group.request.prompt, [c.ids for c in group.completions], range(group.request.n))], processor
        )
        with torch.no_grad():
            options = {
                "temperature": group.request.sampling.temperature,
                "banned_ids": processor.banned_ids,
                "chunk": 256,
            }
            result = token_logprobs(model, micro, processor, **options)
        for number, completion in enumerate(group.completions):
            found = result.logprobs_L.float().cpu()[micro.sequence_L.cpu() == number]
            off.append((found - torch.tensor(completion.behavior_logprobs)).abs())
    all_T = torch.cat(off)
    return all_T.max().item(), all_T.mean().item()


def speed(engine: VllmEngine, way: Any) -> float:
    """Tokens a second of the second run; the caches of the first are dropped."""
    way()
    engine._core.reset_caches()
    start = time.perf_counter()
    return way() / (time.perf_counter() - start)


def sleep_rows(size: str, engine: VllmEngine, model: Any, request: Any) -> Iterator[Row]:
    before, free = greedy_ids(engine, request), free_bytes()
    engine.sleep()
    freed = free_bytes() - free
    engine.wake()
    engine.sync_weights(model.named_parameters(), 1)
    yield size, "freed by sleep", f"{freed / 2**30:.2f} GiB" if torch.cuda.is_available() else "nothing: no GPU"
    yield size, "same answer after sleep, wake and sync", "yes" if greedy_ids(engine, request) == before else "NO"


def greedy_ids(engine: VllmEngine, request: Any) -> tuple[int, ...]:
    sampling = replace(request.sampling, greedy=True)
    [group] = engine.generate([replace(request, n=1, sampling=sampling)])
    return group.completions[0].ids


def free_bytes() -> int:
    return torch.cuda.mem_get_info()[0] if torch.cuda.is_available() else 0


def sync_against_copy(engine: VllmEngine, model: Any, *, repeats: int) -> str:
    named = list(model.named_parameters())
    copies = [torch.empty_like(parameter) for _, parameter in named]

    def sync() -> None:
        engine.sync_weights(named, 2)
        wait()

    def copy() -> None:
        with torch.no_grad():
            for target, (_, parameter) in zip(copies, named, strict=True):
                target.copy_(parameter)
        wait()

    ours, theirs = medians([sync, copy], repeats=repeats)
    return f"{ours:.4f} / {theirs:.4f} = {ours / theirs:.1f}"


def wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def training_rows(size: str, folder: Path, place: Place) -> Iterator[Row]:
    """Trainings under every stage, from one process to all, with the engine of each asleep during updates."""
    stage = {"name": "rl", "kind": "grpo", "steps": 2, "prompts_per_step": 2 * place.gpus, "lr": 1e-6}
    rollout = {"group_size": 4, "max_new_tokens": 8, "engine": "vllm"}
    config = write_run(folder / "run", stages=[stage], rollout=rollout)
    common = [f"model.path={folder / 'model'}", f"model.dtype={place.dtype}", "data.val=[]", "checkpoint.keep_last=1"]
    for zero_stage in place.stages:
        for processes in sorted({1, place.gpus}):
            name = f"zero{zero_stage}-{processes}"
            run(config, [*common, f"train.zero_stage={zero_stage}", f"name={name}"], processes=processes)
            yield size, f"ZeRO {zero_stage}, {processes} processes", outcome(folder / "run" / "runs" / name)


def run(config: Path, changes: Sequence[str], *, processes: int) -> None:
    launcher = ["launch", "--nproc", str(processes)] if processes > 1 else []
    command = [sys.executable, "-m", "mmrl", *launcher, "train", str(config), *changes]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\nexit code {done.returncode}\n{done.stderr[-3000:]}")


def outcome(folder: Path) -> str:
    *_, last = (json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines())
    memory = {key.removeprefix("perf/peak_"): value for key, value in last.items() if key.startswith("perf/peak_")}
    peaks = ", ".join(f"{key} {value:.1f}" for key, value in memory.items())
    gap = last["policy/rollout_gap_max"]
    return f"loss {last['loss/total']:.4f}, gap {gap:.1e}, {last['perf/seconds_step']:.1f} s, {peaks}"


if __name__ == "__main__":
    raise SystemExit(main())
