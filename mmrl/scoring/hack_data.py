"""The rows that `mmrl score --hack-report` tries its tricks on: golden cases, a file of rows, or a run's datasets."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from mmrl.errors import DataError
from mmrl.scoring.cases import Case, cases_of
from mmrl.scoring.hack_report import Target
from mmrl.scoring.parse import extract_prediction
from mmrl.scoring.reward import resolve_reward
from mmrl.scoring.selftest import chosen_rewards
from mmrl.scoring.tricks import Item, answer_text, item_of

if TYPE_CHECKING:
    from mmrl.config.schema import RewardsSection
    from mmrl.data.sample import Sample

_T = TypeVar("_T")
MOST_ROWS = 200
"""Rows of a task that are tried; of more, these many are drawn by a fixed seed."""

MOST_CASES = 6


def fixture_targets(name: str = "all") -> list[Target]:
    """Shipped rewards on their golden cases: each distinct row with the completion that scores best there.

    Without measures, which pay for nothing, and rewards that ask a judge, whose replies are written for the cases.
    """
    names = [n for n in chosen_rewards(name) if pays_by_rule(n)]
    return [Target(n, n, n, _usual_options(cases_of(n)), fixture_items(cases_of(n))) for n in names]


def pays_by_rule(name: str) -> bool:
    """Whether a reward pays for an answer, and does so by itself."""
    reward = resolve_reward(name)
    return not (reward.is_measure or reward.asks_a_judge)


def _usual_options(cases: Sequence[Case]) -> dict:
    """No options where some case has none, else the most frequent ones: the reward's default form."""
    scored = [dict(case.options) for case in cases if case.error is None]
    return {} if {} in scored else max(scored, key=scored.count)


def fixture_items(cases: Sequence[Case]) -> tuple[Item, ...]:
    """One item a distinct answer, with the completion that scores best; of the cases in the reward's default form."""
    usual = _usual_options(cases)
    best: dict[str, tuple[float, Item]] = {}
    for case in (case for case in cases if case.error is None and dict(case.options) == usual):
        for completion, reward in zip(case.completions, case.rewards, strict=True):
            item = Item(case.sample, completion, item_of(case.sample).prompt, is_whole=True)
            key = _gold_key(item)
            if key not in best or reward > best[key][0]:
                best[key] = reward, item
    top = max((reward for reward, _ in best.values()), default=0.0)
    # A row whose best completion scores badly has no right answer among the cases.
    return tuple(item for reward, item in best.values() if reward >= 0.5 * top)[:MOST_CASES]


def _gold_key(item: Item) -> str:
    """Equal for rows with one gold answer, which may stand in other columns; without any it is the completion's own."""
    sample = item.sample
    if sample.answer is None:
        return json.dumps(sample.columns, sort_keys=True, default=str) if sample.columns else item.right
    gold = answer_text(sample.answer)
    return (extract_prediction(gold) or gold).casefold()


def run_targets(path: Path) -> list[Target]:
    """The parts of every task of a run's configuration, on its datasets. Raises ConfigError and DataError."""
    from mmrl.config.load import load_config

    return list(_targets(list(_run_samples(path)), load_config(path).rewards))


def row_targets(path: Path, *, config: Path | None = None) -> list[Target]:
    """The parts of every task in a file of rows with `answer`, `task` and any other column.

    Without config a task is scored by the shipped reward of its name.
    Raises DataError for a bad row, RewardError for a task without reward, ConfigError for a bad configuration.
    """
    from mmrl.scoring.score_file import read_samples, section_of

    samples = list(read_samples(path))
    return list(_targets(samples, section_of(samples, config=config)))


def _targets(samples: Sequence[Sample], section: RewardsSection) -> Iterator[Target]:
    """Parts that count for the held-out score: format parts pay for form, which needs no looking."""
    from mmrl.scoring.router import Router

    with Router(section) as router:
        router.validate({sample.task for sample in samples})
        by_task: dict[str, list[Item]] = defaultdict(list)
        for sample in samples:
            by_task[sample.task].append(item_of(sample))
        for task, items in sorted(by_task.items()):
            for part in router.parts(task):
                if part.spec.weight and not part.spec.is_format and not part.reward.is_measure:
                    chosen = tuple(_drawn(items))
                    yield Target(task, part.name, part.spec.reward, part.spec.options, chosen, part.relative_to)


def _drawn(items: Sequence[_T]) -> list[_T]:
    return random.Random(0).sample(items, min(MOST_ROWS, len(items)))


def _run_samples(path: Path) -> Iterator[Sample]:
    """Held-out rows of every data section of a run, or its training rows where none are held out; media stay shut."""
    from mmrl.config.checks import located
    from mmrl.config.load import load_config
    from mmrl.data.readers import read_datasets
    from mmrl.data.skipped import SkippedLog

    found = 0
    for _, data in located(load_config(path)).data_sections():
        log = SkippedLog(None, max_fraction=data.max_skipped_fraction)
        for rows in read_datasets(data.val or data.train, data=data, relative_to=Path.cwd(), skipped=log):
            found += len(rows)
            for task, count in rows.task_counts().items():
                of_task = rows.of_tasks([task])
                yield from (of_task[index] for index in _drawn(range(count)))
    if not found:
        raise DataError(f"{path}: the configuration has no data")
