"""How far log-probs on stored features are from those on pixels, for every family and type, on tiny random models.

    python tests/bench/bench_feature_types.py [--out tests/bench/results/feature_types.md]

Largest difference over prompts with pictures, clips (where the family reads them), both and one twice; 7 completion
tokens each; fp32 models. What is stored is the output of the vision modules, rounded to the type.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from makers.bench_models import versions
from makers.tiled_prompts import logprobs_of, prompts_of
from makers.tiny_models import TILE_KINDS
from makers.vlm import FAMILIES, mixed_prompts, tiny_vlm

from mmrl.config.schema import ModelSection
from mmrl.data.rendered import RenderedPrompt
from mmrl.models.features import STORED, VisionEncoder
from mmrl.models.packing import separate_rows

COMPLETIONS = [[3, 4, 5, 6], [7], [8, 9]]


def featured(prompt: RenderedPrompt, encoder: VisionEncoder, dtype: torch.dtype) -> RenderedPrompt:
    media = []
    for entry in prompt.media:
        found = encoder.encode(entry)
        deepstack = tuple(level.to(dtype) for level in found.deepstack)
        rounded = replace(found, tokens_KD=found.tokens_KD.to(dtype), deepstack=deepstack)
        media.append(replace(entry, features=rounded))
    return replace(prompt, media=tuple(media))


@torch.no_grad()
def largest_gap(kind: str, dtype: torch.dtype) -> float:
    vlm = tiny_vlm(kind)
    encoder = VisionEncoder.of(vlm.model, vlm.processor, ModelSection(path=kind, dtype="float32"))
    prompts = mixed_prompts(vlm)[1:] if kind in FAMILIES else prompts_of(kind)  # type: ignore[arg-type]
    gaps = []
    for prompt in prompts:
        pixels = logprobs_of(vlm, separate_rows(prompt, COMPLETIONS, [0, 1, 2]))
        features = logprobs_of(vlm, separate_rows(featured(prompt, encoder, dtype), COMPLETIONS, [0, 1, 2]))
        gaps += [abs(a - b) for p, f in zip(pixels, features, strict=True) for a, b in zip(p, f, strict=True)]
    return max(gaps)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    types = ("float32", "float16", "bfloat16")
    lines = [f"| family | {' | '.join(types)} |", "|---|---|---|---|"]
    for kind in (*FAMILIES, *TILE_KINDS):
        lines.append(f"| {kind} | {' | '.join(f'{largest_gap(kind, STORED[name]):.1e}' for name in types)} |")
    text = "\n".join([*lines, "", versions(), ""])
    print(text)
    if arguments.out:
        arguments.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
