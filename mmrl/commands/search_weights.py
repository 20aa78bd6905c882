"""`mmrl search-weights`: short runs with other weights of rewards, to find which weights serve a score best.

Each trial is a run of `mmrl train` in a process of its own, once per seed. What was tried is one line of trials.jsonl
in the search's folder; a search that was stopped goes on with the trial, and the run, that was under way.
"""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from mmrl.algorithms.evolution import Evolution, Weights
from mmrl.config.load import load_config
from mmrl.config.schema import RunConfig
from mmrl.errors import ConfigError, MmrlError, did_you_mean

# Trials leave their metrics behind, and no models.
_SMALL = ("checkpoint.best=null", "checkpoint.keep_last=1", "log.trackers=[]", "log.console=false")


@dataclass(frozen=True)
class Search:
    """What is searched. ranges: `TASK/PART=LOW:HIGH`. score: key of the metrics, whose last value counts."""

    config: Path
    overrides: tuple[str, ...]
    ranges: tuple[str, ...]
    score: str
    out: Path
    trials: int = 12
    population: int = 4
    sigma: float = 0.5
    seeds: int = 1
    seed: int = 0


def search_weights_command(search: Search) -> int:
    """Run the trials that are missing and print all, the best first. Returns 0, or a run's code when it was stopped."""
    config = load_config(search.config, search.overrides)
    keys, evolution = _plan(search, config)
    _same_search(search)
    done = _read_trials(search.out / "trials.jsonl")
    for number in range(len(done), search.trials):
        weights = evolution.propose(number, [(trial["weights"], trial["score"]) for trial in done])
        scores = []
        for seed in range(search.seeds):
            code, score = _run(search, config, number, seed, [f"{keys[name]}={w!r}" for name, w in weights.items()])
            if code:
                return code
            scores.append(score)
        trial = {"trial": number, "weights": weights, "scores": scores, "score": math.fsum(scores) / len(scores)}
        with (search.out / "trials.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(trial) + "\n")
        done.append(trial)
        print(f"trial {number + 1} of {search.trials}: {search.score} {trial['score']:.4f}, {_shown(weights)}")
        for folder in search.out.glob(f"trial-{number:03d}-seed-*/checkpoints"):
            shutil.rmtree(folder)
    Console().print(_table(done, search.score))
    return 0


def _plan(search: Search, config: RunConfig) -> tuple[dict[str, str], Evolution]:
    """The configuration's key of each weight, and the strategy that starts from the weights it has."""
    parts = dict(_parts(config))
    bounds: dict[str, tuple[float, float]] = {}
    for text in search.ranges:
        name, low, high = _range(text)
        if name not in parts:
            hint = did_you_mean(name, parts) or f"; known: {', '.join(parts)}"
            raise ConfigError(f"--weight {text}: the configuration has no part {name!r}{hint}")
        bounds[name] = (low, high)
        _refuse_own_score(search.score, name, is_format=parts[name][2])
    if not bounds:
        raise ConfigError("nothing to search; give --weight TASK/PART=LOW:HIGH, once for each weight")
    start = {name: min(high, max(low, parts[name][1])) for name, (low, high) in bounds.items()}
    strategy = Evolution(bounds, start, population=search.population, sigma=search.sigma, seed=search.seed)
    return {name: parts[name][0] for name in bounds}, strategy


def _parts(config: RunConfig) -> Iterator[tuple[str, tuple[str, float, bool]]]:
    """`TASK/PART` of each part of a reward, as metrics name it, with its key, its weight and whether it is of form."""
    for task, parts in config.rewards.tasks.items():
        for index, part in enumerate(parts):
            key = f"rewards.tasks.{task}.{index}.weight"
            yield f"{task}/{part.name or part.reward}", (key, part.weight, part.is_format)


def _range(text: str) -> tuple[str, float, float]:
    name, _, numbers = text.rpartition("=")
    try:
        low, high = map(float, numbers.split(":"))
    except ValueError as error:
        raise ConfigError(f"--weight {text}: write TASK/PART=LOW:HIGH, such as t/format=0.05:1") from error
    if not 0 < low < high < math.inf:
        raise ConfigError(f"--weight {text}: LOW must be above 0 and below HIGH")
    return name, low, high


def _refuse_own_score(score: str, name: str, *, is_format: bool) -> None:
    """Held-out scores of a task are sums with the very weights that are searched: the largest weight would win."""
    task = name.partition("/")[0]
    if not is_format and (score == "val/mean" or score.startswith("val/dataset/") or score == f"val/task/{task}"):
        fact = f"--score {score} is made with the weight of {name}, so it measures the weight and not the model"
        raise ConfigError(f"{fact}; use a part (val/part/{name}) or a benchmark's score")


def _same_search(search: Search) -> None:
    """Begin the folder, or make sure that it belongs to this search."""
    said = json.loads(json.dumps({**asdict(search), "trials": 0, "config": str(search.config), "out": ""}))
    path = search.out / "search.json"
    if path.is_file():
        before = json.loads(path.read_text(encoding="utf-8"))
        changed = [f"{key} was {before[key]!r}" for key in said if before.get(key) != said[key]]
        if changed:
            raise ConfigError(f"{search.out} holds another search ({'; '.join(changed)}); name another --out")
        return
    if search.out.exists() and any(search.out.iterdir()):
        raise ConfigError(f"{search.out} holds files already, and no search; name another --out")
    search.out.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(said, indent=1), encoding="utf-8")


def _read_trials(path: Path) -> list[dict[str, Any]]:
    """The trials so far; a last line that was cut while it was written is dropped."""
    if not path.is_file():
        return []
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole, encoding="utf-8")
    return [json.loads(line) for line in whole.splitlines()]


def _run(search: Search, config: RunConfig, number: int, seed: int, weights: Sequence[str]) -> tuple[int, float]:
    """Exit code and score of one run, begun or gone on with."""
    name = f"trial-{number:03d}-seed-{seed}"
    own = [*search.overrides, *_SMALL, *weights, f"seed={config.seed + seed}", f"name={name}", f"out_dir={search.out}"]
    log = search.out / f"{name}.log"
    with log.open("a", encoding="utf-8") as file:
        command = [sys.executable, "-m", "mmrl", "train", str(search.config), *own, "--resume"]
        code = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, check=False).returncode
    if code in (75, 130):
        print(f"{name} was stopped; the same command goes on with it")
        return code, math.nan
    if code:
        last = log.read_text(encoding="utf-8").strip().splitlines()[-1:]
        raise MmrlError(f"{name} failed ({' '.join(last)}); see {log}")
    return 0, _last_value(search.out / name / "metrics.jsonl", search.score)


def _last_value(path: Path, key: str) -> float:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    found = [row[key] for row in rows if key in row]
    if not found:
        known = sorted({name for row in rows for name in row if name.startswith(("val/", "eval/", "reward/"))})
        raise ConfigError(f"--score {key}: no such metric{did_you_mean(key, known)}; there are: {', '.join(known)}")
    return float(found[-1])


def _shown(weights: Weights) -> str:
    return ", ".join(f"{name} {weight:.4g}" for name, weight in weights.items())


def _table(trials: Sequence[dict[str, Any]], score: str) -> Table:
    """All trials, the best first."""
    table = Table("trial", score, "weights", box=None)
    for trial in sorted(trials, key=lambda trial: trial["score"], reverse=True):
        table.add_row(str(trial["trial"] + 1), f"{trial['score']:.4f}", _shown(trial["weights"]))
    return table
