"""Seconds that new weights take to a rollout server of this machine, against a plain copy of the same bytes.

    python tests/bench/bench_server_weights.py [--repeats N]

One server with a random model of at least 400 MB in bfloat16. Each way runs in turn with the copy, after a round that
does not count; the ratio is that of the medians.

    copy            each tensor into one of its size that is there already, in one process
    shared_memory   ServerEngine.sync_weights by files in /dev/shm: written, mapped and loaded by the server
    upload          the same by HTTP bodies with a checksum

Both ways end when the server has answered, with its caches emptied.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from makers.bench_models import large_model, versions
from makers.rollout_servers import StartedServer, server_engine
from makers.tiny_run import write_run
from makers.vlm import TinyVlm

from mmrl.models.families import load_processor
from mmrl.models.load import save_model
from mmrl.rollout.server.push import Way

WAYS: tuple[Way, ...] = ("shared_memory", "upload")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--repeats", type=int, default=7)
    options = arguments.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        print(table(Path(folder), repeats=options.repeats))


def table(folder: Path, *, repeats: int) -> str:
    model, processor = large_model(torch.bfloat16)
    save_model(model, processor, folder / "large")
    vlm = TinyVlm("qwen2_5_vl", model, load_processor(folder / "large"))
    server = StartedServer(configuration(folder), folder / "token")
    copy, ratios = plain_copy(model), {}
    try:
        for way in WAYS:
            url = server.url  # waits for it, and so for the token
            engine = server_engine(vlm, [url], token(folder), way=way, start_s=300, dtype="bfloat16")
            runs = [(timed(lambda: sync(engine, model)), timed(copy)) for _ in range(1 + repeats)][1:]  # noqa: B023
            synced, copied = (statistics.median(of_one) for of_one in zip(*runs, strict=True))
            ratios[way] = synced / copied
            engine.close()
    finally:
        server.end(signal.SIGTERM)
    size = sum(p.nbytes for p in model.parameters()) / 1e6
    lines = [f"| {way} | {ratio:.1f} |" for way, ratio in ratios.items()]
    cores = len(os.sched_getaffinity(0))
    foot = f"{size:.0f} MB, bfloat16, {cores} cores, one thread a process; {versions()}; medians of {repeats}."
    return "\n".join(["| way | seconds, as a multiple of a plain copy's |", "|---|---|", *lines, "", foot])


def configuration(folder: Path) -> Path:
    path = write_run(folder)
    tree = yaml.safe_load(path.read_text())
    tree["model"] = {"path": str(folder / "large"), "dtype": "bfloat16"}
    path.write_text(yaml.safe_dump(tree))
    return path


def plain_copy(model: Any) -> Callable[[], None]:
    targets = [torch.empty_like(p) for p in model.parameters()]

    def work() -> None:
        with torch.no_grad():
            for target, source in zip(targets, model.parameters(), strict=True):
                target.copy_(source)

    return work


def token(folder: Path) -> str:
    return (folder / "token").read_text().strip()


def sync(engine: Any, model: Any) -> None:
    engine.sync_weights(model.named_parameters(), 0)


def timed(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
