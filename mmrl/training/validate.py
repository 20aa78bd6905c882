"""Held-out scores: every validation row, greedy or n samples, mean per task and per dataset.

Only task rewards count (`is_format` parts are reported apart). `val/mean` is the mean over tasks, so that a task with
many rows does not outweigh one with few.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mmrl.config.schema import DataSection
from mmrl.data.sample import Sample
from mmrl.data.sheet import contact_sheet
from mmrl.training import distributed
from mmrl.training.metrics import means_over_ranks
from mmrl.training.rollouts import RolloutSpec, ScoredRollouts, roll_out, rollout_rows, sampling_of
from mmrl.training.runtime import Runtime
from mmrl.training.trackers import Generation


@dataclass(frozen=True)
class Validation:
    """metrics: `val/mean`, `val/task/<task>`, `val/dataset/<name>`, `val/part/<task>/<part>`."""

    metrics: dict[str, float]
    generations: list[Generation]


def validate(run: Runtime, samples: Sequence[Sample], data: DataSection) -> Validation:
    """Score the policy on the validation rows, each exactly once: every rank takes its share (fault 77)."""
    values: dict[str, list[float]] = defaultdict(list)
    with run.sampling():
        generations = distributed.together(lambda: _score_share(run, samples, data, values=values))
    run.share_skipped()
    return Validation(_summary(values), generations)


def _score_share(
    run: Runtime, samples: Sequence[Sample], data: DataSection, *, values: dict[str, list[float]]
) -> list[Generation]:
    """Adds the scores of this rank's rows to `values`; returns generations to show."""
    section = run.config.validation
    sampling = sampling_of(run.config.rollout, greedy=section.n == 1)
    generations: list[Generation] = []
    share = samples[distributed.rank() :: distributed.world_size()]
    for start in range(0, len(share), section.batch_size):
        prepared = run.prepare([share[i] for i in range(start, min(start + section.batch_size, len(share)))], data)
        if not prepared:
            continue
        spec = RolloutSpec((section.n,) * len(prepared), sampling, seed=("validation", run.config.seed))
        rolled = roll_out(run, prepared, spec)
        _collect(rolled, values)
        generations += _shown(rolled, limit=section.generations - len(generations))
    return generations


def _shown(rolled: ScoredRollouts, *, limit: int) -> list[Generation]:
    """The first completions with a picture of what the model saw."""
    rows = rollout_rows(rolled, limit=limit)
    media = [item.prompt.media for item in rolled.prepared]
    return [Generation(row, contact_sheet(seen) if seen else None) for row, seen in zip(rows, media, strict=False)]


def _collect(rolled: ScoredRollouts, values: dict[str, list[float]]) -> None:
    for index, item in enumerate(rolled.prepared):
        for column, score in enumerate(rolled.scores.task_scores[index]):
            values["val/unscored"].append(float(math.isnan(score)))
            values[f"val/task/{item.sample.task}"].append(score)
            values[f"val/dataset/{item.sample.dataset}"].append(score)
            for part, value in rolled.scores.breakdown_of(index, column).items():
                values[f"val/part/{item.sample.task}/{part}"].append(value)


def _summary(values: Mapping[str, list[float]]) -> dict[str, float]:
    """Means over all ranks, their mean over tasks, and how many completions could not be scored."""
    means = means_over_ranks(values)
    tasks = [value for key, value in means.items() if key.startswith("val/task/")]
    if tasks:
        means["val/mean"] = math.fsum(tasks) / len(tasks)
    return means
