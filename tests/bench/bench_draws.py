"""Time per draw of the curricula and of ExGRPO's replay at ten thousand and at a million prompts, and memory per
prompt.

    python tests/bench/bench_draws.py      writes tests/bench/results/draws.md

A step draws 64 prompts, sees 8 completions of each and enters the pass rates; the first step of each, which reads
columns and sorts rows, is apart. Rows are numbers here, so that what is measured is the plug-in and not the reading of
files.
"""

from __future__ import annotations

import random
import statistics
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from makers.batches import make_batch

from mmrl.algorithms.hooks import load_plugin
from mmrl.data.loader import hash_numbers
from mmrl.data.pool import Labels

SIZES, STEPS, PROMPTS, GROUP = (10_000, 1_000_000), 60, 64, 8
PLUGINS: dict[str, dict[str, Any]] = {
    "difficulty_bands": {"column": "pass_rate"},
    "hard_mining": {"share": 0.5},
    "stage_order": {"stages": [["a"], ["b"]], "review": 0.1},
    "exgrpo": {},
}
OUT = Path(__file__).parent / "results" / "draws.md"


class Numbers:
    """A pool of row numbers."""

    def __init__(self, size: int) -> None:
        self.size, self.progress, self._taken = size, 0.0, 0
        self._order = np.argsort(hash_numbers("bench", np.arange(size)))

    def __len__(self) -> int:
        return self.size

    def own_order(self, count: int) -> list[int]:
        self._taken += count
        return [int(self._order[n % self.size]) for n in range(self._taken - count, self._taken)]

    def column(self, name: str) -> np.ndarray:
        return np.linspace(0, 1, self.size)

    def labels(self, column: str | None = None) -> Labels:
        return Labels(("a", "b"), (np.arange(self.size) % 2).astype(np.int16))

    def row_of(self, prompt_id: str) -> int:
        return int(prompt_id)


def batch_of(rows: list[int]) -> Any:
    """Eight completions of each row, half of them right."""
    count = len(rows) * GROUP
    batch = make_batch(
        [1] * count, gid=[n // GROUP for n in range(count)], rewards=[float(n % 2) for n in range(count)]
    )
    return replace(batch, prompt_id=tuple(str(row) for row in rows for _ in range(GROUP)))


def step(hooks: dict[str, Any], pool: Numbers, number: int) -> float:
    """Seconds of the hooks in one step."""
    begun = time.perf_counter()
    rows = hooks["draw"](pool, PROMPTS, random.Random(number)) if "draw" in hooks else pool.own_order(PROMPTS)
    seconds = time.perf_counter() - begun
    batch = replace(batch_of(rows), step=number)
    rewards_N = batch.rewards_NK[:, 0]
    begun = time.perf_counter()
    for hook in ("keep", "replay"):
        if hook in hooks:
            hooks[hook](batch, rewards_N)
    if "on_step_end" in hooks:
        hooks["on_step_end"](batch, rewards_N, {})
    return seconds + time.perf_counter() - begun


def with_history(name: str, plugin: Any, size: int) -> None:
    """A plug-in that keeps what it saw has seen every prompt."""
    if name == "exgrpo":
        item = SimpleNamespace(mean_logprob=-1.0)
        plugin.holder._kept = {str(row): [item] for row in range(size)}
        plugin.holder._bucket, plugin.holder._begun = dict.fromkeys(plugin.holder._kept, 0.0), True
        plugin.holder._take = lambda *args: None  # a kept answer of this bench has no tokens
        plugin.hooks["replay"] = lambda batch, rewards_N: plugin.holder._drawn(sorted({*batch.prompt_id}), 32, step=0)


def measured(name: str, size: int) -> tuple[float, float, float]:
    """Median microseconds per prompt, seconds of the first step, bytes per prompt."""
    pool, plugin = Numbers(size), load_plugin(name, options=PLUGINS[name])
    tracemalloc.start()
    with_history(name, plugin, size)
    first = step(plugin.hooks, pool, 0)
    bytes_per_prompt = tracemalloc.get_traced_memory()[0] / size
    tracemalloc.stop()
    times = []
    for number in range(1, STEPS + 1):
        pool.progress = number / STEPS
        times.append(step(plugin.hooks, pool, number))
    return 1e6 * statistics.median(times) / PROMPTS, first, bytes_per_prompt


def main() -> None:
    torch.set_num_threads(1)
    lines = [
        "# Draws of curricula and replay",
        "",
        f"Median of {STEPS} steps of {PROMPTS} prompts x {GROUP}: microseconds per prompt of all the plug-in's hooks.",
        "",
        "| plug-in | 10,000 prompts | 1,000,000 prompts | ratio | first step at a million | bytes per prompt |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name in PLUGINS:
        (small, _, _), (large, first, memory) = (measured(name, size) for size in SIZES)
        lines.append(f"| `{name}` | {small:.1f} | {large:.1f} | {large / small:.2f} | {first:.2f} s | {memory:.0f} |")
    OUT.write_text("\n".join(lines) + "\n")
    print(OUT.read_text())


if __name__ == "__main__":
    main()
