"""`mmrl score`: run the rewards on a file of stored completions.

Each line holds `completion`, `answer`, `task` and any other column; all reach the rewards. Lines with an `id` that
agree in everything but the completion are one group, for rewards of the group form. Places and times in `answer` are
in the space the completions are written in. The output repeats the lines in order and adds `reward` (null when
unscored), `reward_breakdown` and, where a part is unscored, `reward_problems`. Without a config, every task is scored
by the shipped reward of the same name.
"""

from __future__ import annotations

import codecs
import json
import math
import os
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmrl.config.schema import RewardsSection
from mmrl.data.rows import parse_row
from mmrl.data.sample import Sample
from mmrl.errors import ConfigError, DataError, RewardError, did_you_mean, known_names, type_words
from mmrl.plugins import shipped_names
from mmrl.scoring.distributions import summary
from mmrl.scoring.router import Router
from mmrl.scoring.scores import Scores

_OWN = ("completion", "answer", "task")
_ADDED = ("reward", "reward_breakdown", "reward_problems")
UNSCORED = 1


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the file: its number, its columns, and the sample it stands for."""

    number: int
    columns: Mapping[str, Any]
    sample: Sample

    @property
    def completion(self) -> str:
        return self.columns["completion"]

    @property
    def group_key(self) -> str:
        """Equal for the completions of one sample; a line without id is a group of its own."""
        same = {name: value for name, value in self.columns.items() if name not in ("completion", *_ADDED)}
        return json.dumps(same if "id" in same else self.number)


@dataclass(frozen=True, slots=True)
class Result:
    """What is added to a line; None stands for unscored, for the reasons in `problems`, by part."""

    reward: float | None
    breakdown: dict[str, float | None]
    problems: Mapping[str, str]

    @property
    def columns(self) -> dict[str, Any]:
        added = {"reward": self.reward, "reward_breakdown": self.breakdown}
        return {**added, "reward_problems": self.problems} if self.problems else added


def score_file(path: Path, *, config: Path | None = None, out: Path | None = None) -> int:
    """Score every line of `path`; write the rows to `out` (None: standard output), a table to standard error.

    Returns the exit code: 0, or 1 when rows stayed unscored. Raises DataError, naming file and line, for a line that
    is no row, RewardError for a task without reward, and what loading the config raises.
    """
    if out is not None and not out.parent.is_dir():
        raise ConfigError(f"--out {out}: there is no folder {out.parent}; make it, or name another")
    rows = list(_read(Path(path)))
    section = section_of([row.sample for row in rows], config=config)
    groups = _groups(rows)
    with _prints_to_standard_error(), _named(config), Router(section) as router:
        router.validate({row.sample.task for row in rows})
        scores = router.score([(group[0].sample, [row.completion for row in group]) for group in groups])
    scored = sorted(zip((row for group in groups for row in group), _results(scores), strict=True), key=_line_number)
    _write(scored, out)
    print(summary([row.sample.task for group in groups for row in group], scores), file=sys.stderr)
    return UNSCORED if any(result.reward is None for _, result in scored) else 0


@contextmanager
def _prints_to_standard_error() -> Iterator[None]:
    """What a reward prints, in this process or in a worker that is started now, is no row of standard output."""
    sys.stdout.flush()
    own = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(own, 1)
        os.close(own)


@contextmanager
def _named(config: Path | None) -> Iterator[None]:
    """Names the configuration in what is wrong with its rewards: their keys alone say no file."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{config}: {error}" if config is not None else str(error)) from error


def _results(scores: Scores) -> Iterator[Result]:
    for row, reward in enumerate(scores.rewards_N.tolist()):
        parts = {name: _json(value) for name, value in scores.row_breakdown(row).items()}
        yield Result(_json(reward), parts, scores.problems[row])


def _json(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _line_number(scored: tuple[Row, Result]) -> int:
    return scored[0].number


def read_samples(path: Path) -> Iterator[Sample]:
    """The samples of a file whose rows need no completion. Raises DataError, naming file and line, for a bad row."""
    yield from (row.sample for row in _read(path, needed=("answer", "task")))


def _read(path: Path, *, needed: Sequence[str] = _OWN) -> Iterator[Row]:
    try:
        lines = path.read_bytes().removeprefix(codecs.BOM_UTF8).split(b"\n")
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    if not any(line.strip() for line in lines):
        raise DataError(f"{path}: no rows")
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield _row(parse_row(line, f"{path}:{number}"), where=f"{path}:{number}", number=number, needed=needed)


def _row(columns: dict[str, Any], *, where: str, number: int, needed: Sequence[str]) -> Row:
    missing = [name for name in needed if name not in columns]
    if missing:
        raise DataError(
            f"{where}: no column {missing[0]!r}; the row has {', '.join(columns)}; "
            f"no card is applied here, so give the columns the names {', '.join(needed)}"
        )
    for name in ("completion", "task"):
        if name in needed and not isinstance(columns[name], str):
            raise DataError(f"{where}: {name!r} must be text, not {type_words(columns[name])}")
    rest = {name: value for name, value in columns.items() if name not in (*_OWN, *_ADDED)}
    sample_id = str(columns.get("id", f"line-{number}"))
    sample = Sample(sample_id, columns["task"], "image", (), answer=columns["answer"], columns=rest, origin=where)
    return Row(number, columns, sample)


def section_of(samples: Sequence[Sample], *, config: Path | None) -> RewardsSection:
    """The rewards of a configuration, or for each task the shipped reward of its name.

    Raises RewardError, naming the first row whose task has none.
    """
    if config is None:
        return _shipped_section(samples)
    from mmrl.config.load import load_config

    section = load_config(config).rewards
    for key, problem in section.name_problems():
        raise ConfigError(f"{config}: rewards.{key}: {problem}")
    for sample in samples:
        if sample.task not in section.tasks:
            known = ", ".join(section.tasks) or "none"
            hint = did_you_mean(sample.task, section.tasks)
            raise RewardError(
                f"{sample.where}: the task {sample.task!r} has no reward in {config}; known: {known}{hint}"
            )
    return section


def _shipped_section(samples: Sequence[Sample]) -> RewardsSection:
    known = shipped_names("rewards")
    for sample in samples:
        if sample.task not in known:
            raise RewardError(
                f"{sample.where}: no shipped reward is named like the task {sample.task!r}; "
                f"give --config, or one of: {known_names(known, listed_by='mmrl list rewards')}"
                f"{did_you_mean(sample.task, known)}"
            )
    tasks = sorted({sample.task for sample in samples})
    return RewardsSection.model_validate({"tasks": {task: [{"reward": task}] for task in tasks}})


def _groups(rows: Sequence[Row]) -> list[list[Row]]:
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.group_key].append(row)
    return list(groups.values())


def _write(scored: Sequence[tuple[Row, Result]], out: Path | None) -> None:
    own = ({name: value for name, value in row.columns.items() if name not in _ADDED} for row, _ in scored)
    added = ({**columns, **result.columns} for columns, (_, result) in zip(own, scored, strict=True))
    text = "".join(json.dumps(columns, ensure_ascii=False) + "\n" for columns in added)
    if out is None:
        sys.stdout.write(text)
    else:
        out.write_text(text, encoding="utf-8")
