"""Training pass of one long packed row under a mask of tokens x tokens, and by parts: seconds and peak memory.

    python tests/bench/bench_long_rows.py [--tokens 2500 5000 10000] [--out tests/bench/results/long_rows.md]

A prompt of three fifths of the tokens and a group of 8 completions that share the rest; the quickstart's 0.65M
Qwen2.5-VL, random weights, fp32, one thread. Each figure in a process of its own; memory as in bench_logprob_memory,
and the mask itself, which a micro-batch would hold, is made inside.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from bench_logprob_memory import PeakMemory
from makers.bench_models import model_of, versions
from makers.rendered import make_prompt, random_completions

from mmrl.models.logprobs import token_logprobs
from mmrl.models.packing import group_row, pack

GROUP = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tokens", type=int, nargs="+", default=[2500, 5000, 10000])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--measure", nargs=2, metavar=("TOKENS", "WAY"), help="one figure, in this process")
    options = parser.parse_args()
    if options.measure:
        print(*measure(int(options.measure[0]), options.measure[1]))
        return
    lines = [
        "| tokens | mask, s | parts, s | ratio | mask, MiB | parts, MiB | ratio |",
        "|---|---|---|---|---|---|---|",
    ]
    for tokens in options.tokens:
        (mask_s, mask_mib), (parts_s, parts_mib) = (figure(tokens, way) for way in ("sdpa", "parts"))
        seconds = f"{mask_s:.2f} | {parts_s:.2f} | {mask_s / parts_s:.1f}"
        lines.append(f"| {tokens} | {seconds} | {mask_mib:.0f} | {parts_mib:.0f} | {mask_mib / parts_mib:.1f} |")
        print(lines[-1], file=sys.stderr, flush=True)
    text = "\n".join([*lines, "", versions(), ""])
    print(text)
    if options.out:
        options.out.write_text(text, encoding="utf-8")


def figure(tokens: int, way: str) -> tuple[float, float]:
    command = [sys.executable, __file__, "--measure", str(tokens), way]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    seconds, mib = map(float, output.split()[-2:])
    return seconds, mib


def measure(tokens: int, way: str) -> tuple[float, float]:
    """Seconds and peak MiB of forward and backward."""
    torch.set_num_threads(1)
    model, processor = model_of(None, dtype=torch.float32)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    prompt_tokens = tokens * 3 // 5
    prompt = make_prompt([[1 + number % 50 for number in range(prompt_tokens)]], family="qwen2_5_vl", pad_ids={})
    completions = random_completions(((tokens - prompt_tokens) // GROUP,) * GROUP, seed=0)
    micro = pack([group_row(prompt, completions, range(GROUP))], processor, attention=way)
    start = time.perf_counter()
    with PeakMemory() as memory:
        options = {"temperature": 1.0, "banned_ids": (), "chunk": 256}
        token_logprobs(model, micro, processor, **options).logprobs_L.mean().backward()
    return time.perf_counter() - start, memory.peak_mib


if __name__ == "__main__":
    main()
