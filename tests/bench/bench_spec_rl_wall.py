"""Wall time that forced prefixes save, and what is left of it in a whole step of SPEC-RL.

    chrt --rr 10 python tests/bench/bench_spec_rl_wall.py --out tests/bench/results/spec_rl_wall.md

hf_engine, fp32, one thread, one 84-pixel image a prompt, group of 8. Ways run in turn, medians, all ratios of one run.

    engine    completions are sampled; then each is asked for again with a share of it forced, which goes through the
              model in one pass. What was sampled took a step a token: the ratio is what one pass is worth.
    step      a GRPO step against one of SPEC-RL on the same prompts at every step and a learning rate of 1e-9, so that
              all drafted tokens are kept: with `official`, for random weights give all tokens about the same
              probability, and the default remembers likely ones. SPEC-RL adds a pass over the drafts, one for tokens at
              cuts, and one that remembers alternatives.
"""

from __future__ import annotations

import argparse
import dataclasses
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from makers.bench_models import medium_model, model_of, versions
from makers.rendered import make_image, make_prompt
from makers.rows import write_jsonl
from makers.timing import medians
from makers.tiny_models import tiny_model_dir

from mmrl.config.load import load_config
from mmrl.rollout.hf_engine import HfEngine
from mmrl.rollout.types import Request, Sampling
from mmrl.training.grpo import GrpoStage
from mmrl.training.runtime import open_runtime
from mmrl.training.schedule import set_hyperparameters
from mmrl.training.stage_rows import read_rows, train_loader

GROUP, PIXELS = 8, 84
# Model, prompts a step, tokens of a completion
SETTINGS = (("0.7M", 4, 128), ("27M", 1, 128))
SHARES = (0.5, 0.9, 1.0)
REWARD = "def score(completion, sample):\n    return len(set(completion)) / max(1, len(completion))\n"


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--repeats", type=int, default=5)
    arguments.add_argument("--out", type=Path)
    options = arguments.parse_args()
    torch.set_num_threads(1)
    head = ["model", "prompts", "tokens", "sampled s", *(f"{share:.0%} forced s (sampled / it)" for share in SHARES)]
    lines = [_row(head), "|" + "---|" * len(head)]
    lines += [_row(engine_row(*setting, repeats=options.repeats)) for setting in SETTINGS]
    columns = ["kept", "GRPO step s", "of it rollout", "SPEC-RL step s", "of it rollout", "ratio"]
    head = ["model", "prompts", "tokens", *columns]
    lines += ["", _row(head), "|" + "---|" * len(head)]
    lines += [_row(step_row(*setting, repeats=options.repeats)) for setting in SETTINGS]
    lines += ["", f"{versions()}; fp32, 1 thread, group of {GROUP}; medians of {options.repeats}.", ""]
    print("\n".join(lines))
    if options.out:
        options.out.write_text("\n".join(lines), encoding="utf-8")


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def engine_row(name: str, prompts: int, tokens: int, *, repeats: int) -> list[str]:
    model, processor = model_of(None, dtype=torch.float32) if name == "0.7M" else medium_model()
    pad_ids = {"image": processor.image_token_id, "video": processor.video_token_id}
    requests = []
    for number in range(prompts):
        image = make_image("qwen2_5_vl", seed=number, height=PIXELS // 14, width=PIXELS // 14)
        prompt = make_prompt([[1, 2, 3], image, list(range(30))], family="qwen2_5_vl", pad_ids=pad_ids)
        requests.append(Request(str(number), prompt, GROUP, Sampling(max_new_tokens=tokens), seed=number))
    engine = HfEngine(model, processor)
    groups = list(engine.generate(requests))
    asked = [requests]
    for share in SHARES:
        forced = [tuple(c.ids[: round(share * len(c.ids))] for c in group.completions) for group in groups]
        asked.append([dataclasses.replace(g.request, prefix_ids=p) for g, p in zip(groups, forced, strict=True)])
    seconds = medians([lambda these=these: list(engine.generate(these)) for these in asked], repeats=repeats)
    cells = [f"{s:.3f} ({seconds[0] / s:.1f}x)" for s in seconds[1:]]
    return [name, str(prompts), str(tokens), f"{seconds[0]:.3f}", *cells]


def step_row(name: str, prompts: int, tokens: int, *, repeats: int) -> list[str]:
    options = {"spec_rl": {"official": True}}
    kinds = {"grpo": {}, "spec_rl": {"plugins": ["spec_rl"], "plugin_options": options}}
    with tempfile.TemporaryDirectory() as folder:
        stages = {kind: opened(Path(folder) / kind, name, prompts, tokens, how) for kind, how in kinds.items()}
        seconds: dict[str, list[float]] = {kind: [] for kind in kinds}
        rollout: dict[str, list[float]] = {kind: [] for kind in kinds}
        kept = 0.0
        for number in range(repeats + 2):  # the first draws the drafts, the second warms up
            for kind, (run, stage) in stages.items():
                start = time.perf_counter()
                metrics = stage.step(number)
                if number > 1:
                    seconds[kind].append(time.perf_counter() - start)
                    rollout[kind].append(run.watch.take()["rollout"])
                else:
                    run.watch.take()
                kept = metrics.get("spec_rl/kept_share", kept)
        for run, _ in stages.values():
            run.close()
    cells = [f"{statistics.median(times):.3f}" for kind in kinds for times in (seconds[kind], rollout[kind])]
    ratio = statistics.median(seconds["grpo"]) / statistics.median(seconds["spec_rl"])
    return [name, str(prompts), str(tokens), f"{kept:.2f}", *cells, f"{ratio:.2f}"]


def opened(folder: Path, name: str, prompts: int, tokens: int, algorithm: dict) -> tuple[Any, GrpoStage]:
    """A stage whose every step has the same prompts."""
    folder.mkdir(parents=True)
    shutil.copytree(tiny_model_dir("qwen2_5_vl"), folder / "model")
    if name != "0.7M":
        medium_model()[0].save_pretrained(folder / "model")
    (folder / "reward.py").write_text(REWARD)
    rows, random = [], np.random.default_rng(0)
    for number in range(prompts):
        Image.fromarray(random.integers(0, 256, (PIXELS, PIXELS, 3), dtype=np.uint8)).save(folder / f"{number}.png")
        rows.append({"problem": "<image>right?", "answer": "a", "images": [f"{number}.png"], "problem_type": "t"})
    config = {
        "model": {"path": "model", "dtype": "float32", "gradient_checkpointing": False},
        "budgets": {"image": {"min_pixels": 784, "max_pixels": PIXELS * PIXELS}},
        "data": {"train": [{"path": str(write_jsonl(folder / "rows.jsonl", rows)), "card": "easyr1"}]},
        "cache": {"dir": str(folder / "cache")},
        "rollout": {"group_size": GROUP, "max_new_tokens": tokens},
        "algorithm": algorithm,
        "rewards": {"workers": 0, "tasks": {"t": [{"reward": "./reward.py:score"}]}},
        "stages": [{"name": "rl", "kind": "grpo", "steps": 1000, "prompts_per_step": prompts, "lr": 1e-9}],
        "log": {"rollouts_per_step": 0},
    }
    (folder / "run.yaml").write_text(yaml.safe_dump(config))
    (folder / "run").mkdir()
    run = open_runtime(load_config(folder / "run.yaml"), folder / "run", model_path=folder / "model")
    section = run.config.stages[0]
    set_hyperparameters(run.optimizer, lr=section.lr, weight_decay=0.0)
    return run, GrpoStage(run, section, train_loader(run, 0, read_rows(run.config, log=None)[0]))


if __name__ == "__main__":
    main()
