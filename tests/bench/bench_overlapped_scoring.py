"""Seconds of a batch whose rewards are scored while it is generated, against scoring after generation.

    python tests/bench/bench_overlapped_scoring.py [--repeats N]

16 groups of 8 completions and a reward that waits 50 ms for each, as one does that waits for a compiler or a server,
in one worker: 6.4 s. The engine takes as long: a group every 0.4 s. Both ways run in turn, after a round that does not
count; the ratio is that of the medians.

    overlapped    mmrl.training.rollouts.generated and scored
    sequential    the same engine, then Router.score

That engine is a script. In the last row it is hf_engine with a model of 27M parameters and room for a quarter of the
completions (32 tokens at most, 180 of the prompt), so that groups finish one after the other; rewards take 10 ms.

The last group is scored after generation at best: 6.8 s of 12.8 s, a ratio of 0.53. A reward of the batch form gets two
blocks of 64 (`rewards.batch_size`), the second of them after generation: 9.6 s, 0.75.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from makers import slow_rewards
from makers.bench_models import medium_model
from makers.rendered import make_image, make_prompt
from makers.scoring import answered
from makers.scripted_engine import ScriptedEngine, prepared_with, scripted_run

from mmrl.config.schema import RewardsSection
from mmrl.rollout.hf_engine import HfEngine
from mmrl.rollout.types import Sampling
from mmrl.scoring.router import Router
from mmrl.training.rollouts import generated, scored

GROUPS, SIZE, REWARD_S = 16, 8, 0.05
FORMS = {"one": "waits_50_ms", "group": "group_waits_50_ms", "batch": "batch_waits_50_ms"}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--repeats", type=int, default=3)
    repeats = arguments.parse_args().repeats
    lines = [
        "| form of the reward | overlapped / sequential | waited for scores after generation, s |",
        "|---|---|---|",
    ]
    for form, function in FORMS.items():
        ratio, waited_s = measured(function, repeats=repeats)
        lines.append(f"| {form} | {ratio:.2f} | {waited_s:.2f} |")
    ratio, waited_s = measured_with_hf(repeats=repeats)
    lines.append(f"| one, hf_engine | {ratio:.2f} | {waited_s:.2f} |")
    lines += ["", f"Python {sys.version.split()[0]}, {len(os.sched_getaffinity(0))} cores; medians of {repeats}."]
    print("\n".join(lines))


def measured(function: str, *, repeats: int) -> tuple[float, float]:
    """The ratio of both ways, and the seconds of `score` when they overlap."""
    part = {"reward": f"{slow_rewards.__file__}:{function}"}
    section = RewardsSection.model_validate({"tasks": {"t": [part]}, "timeout_s": 60.0})
    names = [str(number) for number in range(GROUPS)]
    engine = ScriptedEngine({name: ["text"] * SIZE for name in names}, names, generating)
    prepared, requests = prepared_with([answered("x")] * GROUPS, n=SIZE)
    return in_turn(section, engine, prepared, requests, repeats=repeats)


def measured_with_hf(*, repeats: int) -> tuple[float, float]:
    torch.set_num_threads(1)
    model, processor = medium_model()
    pad_ids = {"image": processor.image_token_id, "video": processor.video_token_id}
    prepared, requests = prepared_with([answered("x")] * GROUPS, n=SIZE)
    images = [make_image("qwen2_5_vl", seed=number, height=24, width=24) for number in range(GROUPS)]
    prompts = [make_prompt([[1], image, [*range(32)]], family="qwen2_5_vl", pad_ids=pad_ids) for image in images]
    sampling = Sampling(max_new_tokens=32)
    requests = [dataclasses.replace(r, prompt=p, sampling=sampling) for r, p in zip(requests, prompts, strict=True)]
    room = GROUPS * (len(prompts[0].prompt_ids_T) + SIZE * 32) // 4
    part = {"reward": f"{slow_rewards.__file__}:waits_10_ms"}
    section = RewardsSection.model_validate({"tasks": {"t": [part]}, "timeout_s": 60.0})
    engine = HfEngine(model, processor, max_batch_tokens=room)
    return in_turn(section, engine, prepared, requests, repeats=repeats)


def in_turn(
    section: RewardsSection, engine: Any, prepared: Sequence[Any], requests: Sequence[Any], *, repeats: int
) -> tuple[float, float]:
    """Both ways, one after the other, `repeats` times after a round that does not count."""
    with Router(section) as router:
        run = scripted_run(router, engine)
        ways = (lambda: scored(run, generated(run, prepared, requests)), lambda: sequential(run, prepared, requests))
        runs, waits = [], []
        for _ in range(1 + repeats):
            runs.append((timed(ways[0]), timed(ways[1])))
            waits.append(run.watch.take()["score"])
    overlapped, one_after_the_other = (statistics.median(of_one) for of_one in zip(*runs[1:], strict=True))
    return overlapped / one_after_the_other, statistics.median(waits[1:])


def generating(name: str | None) -> None:
    """Before a group is finished: as long as its rewards take."""
    if name is not None:
        time.sleep(SIZE * REWARD_S)


def sequential(run: Any, prepared: Sequence[Any], requests: Sequence[Any]) -> None:
    groups = list(run.rollout.generate(requests))
    texts = [[completion.text for completion in group.completions] for group in groups]
    run.router.score([(item.sample, of_group) for item, of_group in zip(prepared, texts, strict=True)])


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
