"""How often a model is right on each row of a dataset: several answers to a question, as columns for a curriculum.

A row of n answers, c of them right (worth at least `threshold`):

    pass_rate    c / n
    mean_score   mean of what the answers are worth
    pass_at_K    1 - C(n - c, K) / C(n, K), for K = 2, 4, .. up to n (mmrl.evaluate.repeats)
    answers      n; answers that could not be scored are no answers

Rows whose question failed have no line. The answers are those of an evaluation, stored as such, so that an interrupted
rating goes on and a changed reward rates stored answers anew.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mmrl.config.benchmark_section import AnswerSection, BenchmarkSection, ProvenanceSection
from mmrl.config.schema import RunConfig
from mmrl.data.templates import dataset_name
from mmrl.evaluate.benchmark import Benchmark
from mmrl.evaluate.numbers import Question
from mmrl.evaluate.repeats import best_of

RATINGS = "ratings.jsonl"


def rating_of(scores: Sequence[float], *, threshold: float) -> dict[str, Any] | None:
    """The columns of a row; None without a scored answer.

    >>> rating_of([1.0, 0.0, 0.0, 0.0], threshold=0.5)
    {'pass_rate': 0.25, 'mean_score': 0.25, 'answers': 4, 'pass_at_2': 0.5, 'pass_at_4': 1.0}
    """
    known = [score for score in scores if not math.isnan(score)]
    if not known:
        return None
    right = [float(score >= threshold) for score in known]
    rating = {"pass_rate": sum(right) / len(right), "mean_score": math.fsum(known) / len(known), "answers": len(known)}
    several = [2**n for n in range(1, len(known).bit_length())]
    return {**rating, **{f"pass_at_{k}": best_of(right, k=k) for k in several}}


def write_ratings(path: Path, questions: Mapping[str, Question], *, threshold: float) -> int:
    """One line a rated row, with its id; returns their number."""
    ratings = {key: rating_of(question.scores, threshold=threshold) for key, question in questions.items()}
    lines = [json.dumps({"id": key, **rating}, ensure_ascii=False) for key, rating in ratings.items() if rating]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return len(lines)


def benchmarks_of_run(config: RunConfig) -> list[Benchmark]:
    """The training datasets of a run, each as what an evaluation asks: its rows, templates, budgets and rewards, with
    the run's sampling.
    """
    rollout, data = config.rollout, config.data
    answers = AnswerSection(
        max_new_tokens=rollout.max_new_tokens,
        temperature=rollout.temperature,
        top_p=rollout.top_p,
        top_k=rollout.top_k,
        stop=rollout.stop,
    )
    found = []
    for dataset in data.train:
        common = {
            "budgets": {**config.budgets, **dataset.budgets},
            "system_prompt": data.system_prompt if dataset.system_prompt is None else dataset.system_prompt,
            "user_template": data.user_template if dataset.user_template is None else dataset.user_template,
            "task_templates": {**data.task_templates, **dataset.task_templates},
        }
        section = BenchmarkSection(
            data=dataset.model_copy(update=common),
            max_prompt_tokens=data.max_prompt_tokens,
            score=config.rewards.tasks,
            answers=answers,
            provenance=ProvenanceSection(source=dataset.path, layout="verified"),
        )
        found.append(Benchmark(dataset_name(dataset), section, Path.cwd(), rewards=config.rewards))
    return found
