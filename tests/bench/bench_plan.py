"""`mmrl check --plan` against what runs take: bytes of living tensors and resident memory, part by part.

    python tests/bench/bench_plan.py > tests/bench/results/plan.md        (about 4 minutes on two idle cores)
    python tests/bench/bench_plan.py --only zero        some cases, by a part of their names

A random Qwen2.5-VL of 35 million parameters (25 million without its vocabulary of 8,192), float32 unless said, on CPUs,
one thread a process. Each case is one real step over packed rows, twice, and a rollout with hf_engine, in processes of
its own (tests/makers/plan_run.py); `small` models have 0.6 million parameters. The plan knows
the configuration, config.json and the headers of the media.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from makers.bench_models import medium_model, versions
from makers.plan_cases import PARTS, Case, measured, planned, write_run
from makers.tiny_models import tiny_model_dir

from mmrl.models.load import save_model

TEXT, IMAGES, CLIPS = ("text:256",), ("image:336", "image:336"), ("clip:16",)
CHECKPOINTING, SEPARATE = "model.gradient_checkpointing=true", "train.shared_prefix=false"
FAMILIES = ("qwen2_vl", "qwen3_vl", "internvl", "smolvlm", "idefics3", "llava_onevision", "gemma3")
SMALL = ("image:336", "image:300", "text:200")
CASES = (
    Case("text", TEXT),
    Case("text, checkpointing", TEXT * 2, (CHECKPOINTING,)),
    Case("two prompts, 512 tokens a micro-batch", TEXT * 2, ("train.micro_batch_tokens=512",)),
    Case("two prompts, 2048 tokens a micro-batch", TEXT * 2, ("train.micro_batch_tokens=2048",)),
    Case("groups of 8", TEXT, ("rollout.group_size=8",)),
    Case("groups of 8, no shared prefix", TEXT, ("rollout.group_size=8", SEPARATE)),
    Case("two pictures of 336 x 336", IMAGES),
    Case("two pictures, checkpointing", IMAGES, (CHECKPOINTING,)),
    Case("two pictures, frozen tower", IMAGES, ("model.freeze=[vision_tower, projector]",)),
    Case("a clip of 16 frames", CLIPS),
    Case("LoRA on two pictures", IMAGES, ("model.lora={rank: 16}",)),
    Case("bfloat16", TEXT, ("model.dtype=bfloat16",)),
    Case("long completions", TEXT, ("rollout.max_new_tokens=256", "train.micro_batch_tokens=600")),
    *(Case(f"zero {stage}", IMAGES, (f"train.zero_stage={stage}",)) for stage in (1, 2, 3)),
    *(Case(f"zero {stage}, 2 processes", IMAGES, (f"train.zero_stage={stage}",), 2) for stage in (0, 1, 2, 3)),
    *(Case(f"small {family}", SMALL, family=family) for family in FAMILIES),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--resident", action="store_true", help="resident memory too (twice the time)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        model, processor = medium_model(vocabulary=8192)
        save_model(model, processor, Path(place) / "model")
        print(f"{versions()}; float32, MB of one process: planned / living tensors (ratio), resident above imports\n")
        kinds = ("live", "resident") if arguments.resident else ("live",)
        print(f"| case | {' | '.join(PARTS)} |\n|---|{'---|' * len(PARTS)}")
        for number, case in enumerate(case for case in CASES if arguments.only in case.name):
            folder = Path(place) / str(number)
            folder.mkdir()
            run = write_run(folder, tiny_model_dir(case.family) if case.family else Path(place) / "model", case)
            _, plan = planned(run, case)
            print(f"| {case.name} | {_cells(plan, [measured(run, case, kind) for kind in kinds])} |", flush=True)


def _cells(plan: dict[str, int], found: list[dict[str, int]]) -> str:
    cells = []
    for part in PARTS:
        live, *resident = (one.get(part) for one in found)
        if live is None:
            cells.append("-")
            continue
        more = "".join(f", {size / 1e6:.0f}" for size in resident if size)
        cells.append(f"{plan[part] / 1e6:.1f} / {live / 1e6:.1f} ({plan[part] / live:.2f}){more}")
    return " | ".join(cells)


if __name__ == "__main__":
    main()
