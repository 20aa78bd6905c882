"""Training pass (forward + backward) of a group of 8: the prompt once in a packed row, against 8 separate rows.

    python tests/bench/bench_shared_prefix.py [--repeats N] [--pixels 84 336 672]

25M-parameter Qwen2.5-VL of random weights, one image, completions of 64 tokens, fp32, one thread. Four forms run in
turn, so that load on the machine meets all of them; medians:

    separate        one row a completion, each with its image through the vision tower: what trainers do
    image once      the same rows, the image through the tower once and its features gathered
    packed, mask    one row: the prompt once, then its completions, under a mask of tokens x tokens (attention: sdpa)
    packed          the same row, by parts: only pairs that see each other (attention: auto)
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from makers.bench_models import medium_model, versions
from makers.rendered import make_image, make_prompt, random_completions
from makers.timing import medians

from mmrl.algorithms.batch import MicroBatch, Row
from mmrl.models.logprobs import token_logprobs
from mmrl.models.packing import group_row, pack, separate_rows

GROUP, COMPLETION = 8, 64


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--repeats", type=int, default=5)
    arguments.add_argument("--pixels", type=int, nargs="+", default=[84, 336, 672])
    options = arguments.parse_args()
    torch.set_num_threads(1)
    model, processor = medium_model()
    size = sum(p.numel() for p in model.parameters()) / 1e6
    print(f"{versions()}; {size:.1f}M parameters, group of {GROUP}, completions of {COMPLETION}, fp32, 1 thread\n")
    print(
        "| image | prompt tokens | separate s | image once s | packed, mask s | packed s | separate / packed | "
        "mask / packed | log-probs differ by |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for pixels in options.pixels:
        print(table_row(model, processor, pixels=pixels, repeats=options.repeats), flush=True)


def table_row(model: Any, processor: Any, *, pixels: int, repeats: int) -> str:
    image = make_image("qwen2_5_vl", seed=0, height=pixels // 14, width=pixels // 14)
    pad_ids = {"image": processor.image_token_id, "video": processor.video_token_id}
    prompt = make_prompt([[1, 2, 3], image, list(range(30))], family="qwen2_5_vl", pad_ids=pad_ids)
    completions = random_completions((COMPLETION,) * GROUP, seed=0)
    rows = separate_rows(prompt, completions, range(GROUP))
    forms = [
        pack([with_own_media(row, number=i) for i, row in enumerate(rows)], processor),
        pack(rows, processor),
        pack([group_row(prompt, completions, range(GROUP))], processor, attention="sdpa"),
        pack([group_row(prompt, completions, range(GROUP))], processor),
    ]
    with torch.no_grad():
        values = [logprobs(model, micro, processor) for micro in forms]
    difference = (values[0] - values[3]).abs().max().item()
    seconds = medians([lambda micro=micro: training_pass(model, micro, processor) for micro in forms], repeats=repeats)
    cells = [f"{pixels} px", f"{len(prompt.prompt_ids_T)}", *(f"{s:.3f}" for s in seconds)]
    return (
        "| "
        + " | ".join([*cells, *(f"{s / seconds[3]:.2f}" for s in (seconds[0], seconds[2])), f"{difference:.1e}"])
        + " |"
    )


def with_own_media(row: Row, *, number: int) -> Row:
    """The row with media of other keys, so that they are encoded once more for it."""
    media = tuple(dataclasses.replace(entry, key=f"{entry.key}-{number}") for entry in row.media)
    return dataclasses.replace(row, media=media)


def logprobs(model: Any, micro: MicroBatch, processor: Any) -> torch.Tensor:
    return token_logprobs(model, micro, processor, temperature=1.0, banned_ids=(), chunk=1024).logprobs_L


def training_pass(model: Any, micro: MicroBatch, processor: Any) -> None:
    model.zero_grad()
    logprobs(model, micro, processor).mean().backward()


if __name__ == "__main__":
    main()
