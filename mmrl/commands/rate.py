"""`mmrl rate`: how often a model is right on each row of a dataset, as a file that the dataset's section can join."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from mmrl.commands.evaluate import EvaluateRequest, evaluate_benchmarks
from mmrl.config.load import load_config
from mmrl.config.tree import read_yaml
from mmrl.errors import ConfigError
from mmrl.evaluate.benchmark import Benchmark, load_benchmark
from mmrl.evaluate.rate import RATINGS, benchmarks_of_run, write_ratings
from mmrl.evaluate.result import SCORES, read_scores


@dataclass(frozen=True)
class RateRequest:
    """dataset: a task file or a shipped benchmark's name, or a run's YAML, whose `data.train` is rated.

    evaluation: how it is asked. names: of the run's datasets; empty: all. threshold: what a right answer is worth at
    least.
    """

    evaluation: EvaluateRequest
    dataset: str
    names: tuple[str, ...]
    threshold: float


def rate_command(request: RateRequest) -> int:
    """Ask, score, and write `ratings.jsonl` for each dataset. Returns 1 when one could not be rated."""
    asked = request.evaluation
    benchmarks, root = _benchmarks(request)
    code = evaluate_benchmarks(replace(asked, root=root), benchmarks)
    for benchmark in benchmarks:
        folder = asked.out / benchmark.name
        if not (folder / SCORES).is_file():
            continue
        questions = read_scores(folder)
        count = write_ratings(folder / RATINGS, questions, threshold=request.threshold)
        print(f"{folder / RATINGS}: {count} of {len(questions)} rows rated; join them by `columns_from:`")
    return code


def _benchmarks(request: RateRequest) -> tuple[list[Benchmark], Path]:
    """What is rated, and the folder that its files' paths start from."""
    path = Path(request.dataset)
    if path.suffix not in (".yaml", ".yml") or "score" in read_yaml(path).value:
        found, root = [_drawn(load_benchmark(request.dataset))], request.evaluation.root
    else:
        found, root = benchmarks_of_run(load_config(path)), Path.cwd()
    known = [benchmark.name for benchmark in found]
    if unknown := [name for name in request.names if name not in known]:
        raise ConfigError(f"--datasets: {request.dataset} has no dataset {unknown[0]!r}; it has: {', '.join(known)}")
    chosen = [benchmark for benchmark in found if not request.names or benchmark.name in request.names]
    if not chosen:
        raise ConfigError(f"{request.dataset}: 'data.train' is empty, so there is nothing to rate")
    return chosen, root


def _drawn(benchmark: Benchmark) -> Benchmark:
    """Several answers at temperature 0 would be equal."""
    return benchmark if benchmark.section.answers.temperature else benchmark.answered_by(temperature=1.0)
