"""What a run really takes, part by part, for comparison with its plan: `measure(config)` here, or as a program

    python tests/makers/plan_run.py CONFIG live|resident [KEY=VALUE ...]      (under torch.distributed.run: several)

that prints a line of JSON. The step is a real one: load_policy, DeepSpeed's engine, packed rows of all prompts of
data.train with completions of max_new_tokens, `optimizer_step` twice; then hf_engine samples on all prompts. `live`
counts the bytes of living tensors; `resident` is the highest resident memory above that after imports.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from makers.live_memory import LiveMemory

from mmrl.config.load import load_config
from mmrl.config.schema import RunConfig
from mmrl.data.cache import PixelCache
from mmrl.data.decoder import MediaOpener
from mmrl.data.prepare import Preparer
from mmrl.data.readers import read_datasets
from mmrl.data.rendered import RenderedPrompt
from mmrl.data.skipped import SkippedLog
from mmrl.models.load import load_policy
from mmrl.models.packing import group_rows, separate_rows
from mmrl.rollout.hf_engine import HfEngine
from mmrl.rollout.types import Request, Sampling
from mmrl.training import distributed, zero
from mmrl.training.schedule import build_optimizer, set_hyperparameters
from mmrl.training.step import LogprobSettings, optimizer_step


class Resident:
    """The interface of LiveMemory over the process's own resident memory (without mapped files), above that at first;
    looked at every other millisecond.
    """

    def __init__(self) -> None:
        self._zero = self._highest = _own_bytes()

    def __enter__(self) -> Resident:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def live(self) -> int:
        return _own_bytes() - self._zero

    @property
    def peak(self) -> int:
        return max(self._highest, _own_bytes()) - self._zero

    def restart(self) -> None:
        self._highest = _own_bytes()

    def watch(self, tensors: Any) -> None:
        """Nothing to be told."""

    def _watch(self) -> None:
        while not self._stop.wait(0.002):
            self._highest = max(self._highest, _own_bytes())


def measure(config: RunConfig, kind: str) -> dict[str, int]:
    """Bytes: `weights`, `resting` between steps, highest points of `backward`, `step` and `sampling`."""
    torch.set_num_threads(1)
    distributed.start_processes()
    cap = _bucket_bytes(config)  # for `resident` too: it imports all that loading imports
    distributed.import_deepspeed()
    memory: Any = LiveMemory(cap=cap) if kind == "live" else Resident()
    with memory:
        model, processor = load_policy(config.model)
        memory.watch(model.parameters())
        memory.watch(model.buffers())
        found = {"weights": memory.live}
        prompts = prompts_of(config, processor)
        optimizer = build_optimizer(model, config.train)
        set_hyperparameters(optimizer, lr=1e-4, weight_decay=0.0)
        settings = zero.engine_config(model_section=config.model, train=config.train)
        engine = zero.build_engine(model, optimizer, settings)
        found |= _train(config, engine, processor, prompts, memory)
        if config.train.zero_stage < 3:
            found |= _sample(config, model, processor, prompts, memory)
    return found


def prompts_of(config: RunConfig, processor: Any) -> list[RenderedPrompt]:
    data, log = config.data, SkippedLog(None, max_fraction=0.0)
    with MediaOpener(data.video, workers=1) as opener:
        preparer = Preparer(
            cache=PixelCache(Path(config.cache.dir)),
            opener=opener,
            processor=processor,
            config=config,
            data=data,
            skipped=log,
            geometry_kind=lambda _: None,
        )
        sets = read_datasets(data.train, data=data, relative_to=Path.cwd(), skipped=log)
        return [item.prompt for samples in sets for item in preparer.prepare(samples)]


def _bucket_bytes(config: RunConfig) -> int:
    """The most that gradients fill of DeepSpeed's buckets, and no less than the largest weight."""
    model, _ = load_policy(config.model)
    trained = sum(p.numel() * p.element_size() for p in model.parameters() if p.requires_grad)
    return max(trained, *(p.numel() * p.element_size() for p in model.parameters()))


def _train(config: RunConfig, engine: Any, processor: Any, prompts: Any, memory: Any) -> dict[str, int]:
    size, group = config.rollout.max_new_tokens, config.rollout.group_size
    generator = torch.Generator().manual_seed(0)
    rows, train = [], config.train
    for place, prompt in enumerate(prompts):
        ids = torch.randint(5, 60, (group, size), generator=generator).tolist()
        sequences = range(place * group, (place + 1) * group)
        if train.shared_prefix and processor.family.shares_prefix:
            rows += group_rows(prompt, ids, sequences, max_tokens=train.micro_batch_tokens)
        else:
            rows += separate_rows(prompt, ids, sequences)
    settings = LogprobSettings(
        processor,
        temperature=1.0,
        banned_ids=(),
        chunk=train.logprob_chunk,
        micro_batch_tokens=train.micro_batch_tokens,
        padded=not train.padding_free or train.attention == "sdpa",
    )
    found: dict[str, int] = {}
    reduce, step = engine.allreduce_gradients, engine.step
    engine.allreduce_gradients = _after(reduce, "backward", memory, found)
    engine.step = _after(step, "backward", memory, found)
    for _ in range(2):
        found.clear()
        found["resting"] = memory.live
        memory.restart()
        how = {"settings": settings, "num_tokens": size}
        optimizer_step(engine, rows, lambda grid_NC, *_: (-grid_NC.sum() / 1000, {}), **how)
    engine.step = step
    return found


def _after(function: Callable[..., Any], part: str, memory: Any, found: dict[str, int]) -> Callable[..., Any]:
    """The function; what went before it belongs to `part`, and it itself to the step."""

    def measured(*arguments: Any, **options: Any) -> Any:
        found[part] = max(memory.peak, found.get(part, 0))
        memory.restart()
        result = function(*arguments, **options)
        found["step"] = max(memory.peak, found.get("step", 0))
        memory.restart()
        return result

    return measured


def _sample(config: RunConfig, model: Any, processor: Any, prompts: Any, memory: Any) -> dict[str, int]:
    """Completions that go on to max_new_tokens, for nothing ends them."""
    endless = dataclasses.replace(processor, eos_ids=())
    engine = HfEngine(model, endless, max_batch_tokens=config.rollout.max_batch_tokens)
    sampling = Sampling(max_new_tokens=config.rollout.max_new_tokens)
    memory.restart()
    before = memory.live
    requests = [Request(p.sample_id, p, n=config.rollout.group_size, sampling=sampling) for p in prompts]
    for _ in engine.generate(requests):
        pass
    return {"sampling": memory.peak, "before_sampling": before}


def _own_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no RssAnon")


if __name__ == "__main__":
    loaded = load_config(Path(sys.argv[1]), sys.argv[3:])
    measured = measure(loaded, sys.argv[2])
    highest = {name: max(int(one[name]) for one in distributed.gather_objects(measured)) for name in measured}
    if distributed.is_main():
        print("\n" + json.dumps(highest), flush=True)
