"""Does the quickstart learn by looking? Five seeds, a supervised control, swapped media and the best constant answer.

    python tests/bench/bench_quickstart.py --seeds 0 1 2 3 4 --out tests/bench/results/quickstart.md

For every seed: a new model and new training order; the warm start; then the reinforcement-learning stage of
configs/quickstart.yaml, and, from the same warm start, as many further supervised steps (the control). The trained
model is scored once more with each row's media replaced by another row's of the same task.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import statistics
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path

from makers.bench_models import versions

from mmrl.config.load import load_config
from mmrl.config.schema import RunConfig
from mmrl.data.readers import SampleSet, read_datasets
from mmrl.data.sample import Sample
from mmrl.data.skipped import SkippedLog
from mmrl.models.tiny import make_tiny_model
from mmrl.scoring.parse import parse_choice, parse_geometry
from mmrl.scoring.router import Router
from mmrl.training.checkpoint import find_checkpoints
from mmrl.training.run import train

ROOT = Path(__file__).resolve().parents[2]
UNITS = range(7)
CONSTANTS = {
    "quadrant": list("ABCD"),
    "box": [
        f"{x1} {y1} {x2} {y2}"
        for x1, x2 in itertools.combinations(UNITS, 2)
        for y1, y2 in itertools.combinations(UNITS, 2)
    ],
    "segment": [f"{start} {end}" for start, end in itertools.combinations(UNITS, 2)],
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--work", type=Path, default=Path("runs/bench_quickstart"))
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    constants = best_constants(configure(arguments.work, seed=0, name="constants", control=False))
    results = [measure(arguments.work, seed=seed) for seed in arguments.seeds]
    text = report(results, constants)
    print(text)
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(text, encoding="utf-8")
    return 0


def configure(work: Path, *, seed: int, name: str, control: bool) -> RunConfig:
    """The quickstart's configuration for one seed. The control replaces the last stage by as many supervised steps."""
    model = work / f"model-{seed}"
    if not model.is_dir():
        make_tiny_model(model, seed=seed)
    overrides = [f"seed={seed}", f"name={name}", f"out_dir={work}", f"model.path={model.resolve()}"]
    overrides += [
        "validation.generations=1000000",
        "log.console=false",
        "log.trackers=[]",
        "checkpoint.best=null",
    ]
    config = load_config(ROOT / "configs" / "quickstart.yaml", overrides)
    if not control:
        return config
    warm, rl = config.stages
    further = warm.model_copy(update={"name": "control", "steps": rl.steps, "warmup_steps": 0})
    return config.model_copy(update={"stages": (warm, further)})


def measure(work: Path, *, seed: int) -> dict[str, dict[str, float]]:
    """Of one seed: held-out metrics before, after and of the control; parse rates before; scores with swapped media."""
    config = configure(work, seed=seed, name=f"seed{seed}", control=False)
    started = time.monotonic()
    train(config, overwrite=True)
    seconds = time.monotonic() - started
    run, control = work / f"seed{seed}", work / f"seed{seed}-control"
    shutil.rmtree(control, ignore_errors=True)
    shutil.copytree(run, control, symlinks=True)
    after_warm_start = find_checkpoints(control)[0]
    for later in find_checkpoints(control)[1:]:
        shutil.rmtree(later)
    assert json.loads((after_warm_start / "state.json").read_text())["position"]["stage"] == 1
    train(configure(work, seed=seed, name=control.name, control=True), resume=True)
    before, after = stage_ends(run)
    return {
        "seed": {"number": seed, "seconds": seconds},
        "before": before,
        "after": after,
        "control": stage_ends(control)[-1],
        "parsed": parse_rates(said(run, step=before["step"])),
        "swapped": swapped_scores(config, said(run, step=after["step"])),
    }


def stage_ends(run: Path) -> tuple[dict[str, float], dict[str, float]]:
    """The validation rows at the end of the first and of the last stage."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    validations = [row for row in rows if "val/mean" in row]
    first = validations[0]["stage"]
    return [row for row in validations if row["stage"] == first][-1], validations[-1]


def said(run: Path, *, step: float) -> list[dict]:
    """The greedy completions of all held-out rows at a step."""
    rows = [json.loads(line) for line in (run / "rollouts.jsonl").read_text().splitlines()]
    return [row for row in rows if row.get("split") == "val" and row["step"] == step]


def parse_rates(completions: list[dict]) -> dict[str, float]:
    """Share of the completions of each task that are an answer of the task's kind."""
    parse = {
        "quadrant": partial(parse_choice, letters="ABCD"),
        "box": partial(parse_geometry, kind="box"),
        "segment": partial(parse_geometry, kind="time"),
    }
    return {
        task: statistics.fmean(function(row["completion"]) is not None for row in completions if row["task"] == task)
        for task, function in parse.items()
    }


def swapped_scores(config: RunConfig, completions: list[dict]) -> dict[str, float]:
    """Scores when every row shows another row's media of its task, the answer kept.

    Rows of one task differ in their media alone, so what the model says to row i with row j's media is what it says to
    row j. The mean over all swaps j != i therefore needs no further pass.
    """
    text = {row["sample_id"]: row["completion"] for row in completions}
    rows = read_val(config)
    with Router(config.rewards) as router:
        return {task: mean_over_swaps(router, [r for r in rows if r.task == task], text) for task in CONSTANTS}


def mean_over_swaps(router: Router, rows: list[Sample], text: dict[str, str]) -> float:
    """Mean task score of every row's answer against the completions of all other rows."""
    assert len({str(row.messages) for row in rows}) == 1, "rows of one task must share their prompt"
    counts = Counter(text[row.sample_id] for row in rows)
    scores = router.score([(row, list(counts)) for row in rows]).task_scores
    total = 0.0
    for row, values in zip(rows, scores, strict=True):
        by_text = dict(zip(counts, values, strict=True))
        total += sum(counts[said] * value for said, value in by_text.items()) - by_text[text[row.sample_id]]
    return total / (len(rows) * (len(rows) - 1))


def read_val(config: RunConfig) -> list[Sample]:
    log = SkippedLog(None, max_fraction=0.0)
    return list(SampleSet.concat(read_datasets(config.data.val, data=config.data, relative_to=ROOT, skipped=log)))


def best_constants(config: RunConfig) -> dict[str, float]:
    """Per task, the best mean task score that one fixed answer reaches on the held-out rows."""
    rows = read_val(config)
    best: dict[str, float] = {}
    with Router(config.rewards) as router:
        for task, candidates in CONSTANTS.items():
            own = [row for row in rows if row.task == task]
            scores = router.score([(row, candidates) for row in own]).task_scores
            best[task] = max(statistics.fmean(column) for column in zip(*scores, strict=True))
    return best


def report(results: list[dict[str, dict[str, float]]], constants: dict[str, float]) -> str:
    """A markdown table, one line per seed, and the best constant answers."""
    tasks = list(constants)
    head = ["seed", "parsed", *tasks, "mean", "gain", "control", *(f"{task} swapped" for task in tasks), "seconds"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(cells(result, tasks)) + " |" for result in results]
    best = ", ".join(f"{task} {value:.3f}" for task, value in constants.items())
    return "\n".join([*lines, "", f"Best constant answers: {best}. {versions()}.", ""])


def cells(result: dict[str, dict[str, float]], tasks: list[str]) -> list[str]:
    before, after = result["before"], result["after"]
    keys = [*(f"val/task/{task}" for task in tasks), "val/mean"]
    return [
        str(result["seed"]["number"]),
        f"{min(result['parsed'].values()):.2f}",
        *(f"{before[key]:.3f} → {after[key]:.3f}" for key in keys),
        f"{after['val/mean'] - before['val/mean']:+.3f}",
        f"{result['control']['val/mean']:.3f}",
        *(f"{result['swapped'][task]:.3f}" for task in tasks),
        f"{result['seed']['seconds']:.0f}",
    ]


if __name__ == "__main__":
    sys.exit(main())
