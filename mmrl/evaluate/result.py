"""What an evaluation leaves: results.json with numbers and all that they depend on, scores.jsonl, a table."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.table import Table

from mmrl.config.benchmark_section import AverageSection, BenchmarkSection
from mmrl.config.schema import BudgetClass
from mmrl.errors import DataError
from mmrl.evaluate.benchmark import SCORE, Benchmark, Rows, columns_of
from mmrl.evaluate.numbers import (
    Estimate,
    Measure,
    Numbers,
    Question,
    Shares,
    by_value,
    mean_numbers,
    measures_of,
    numbers_of,
    of_part,
    only,
    part_means,
)
from mmrl.evaluate.records import Record
from mmrl.evaluate.repeats import Repeats, repeats_of
from mmrl.evaluate.runner import Score
from mmrl.scoring.judge.calls import NONE, JudgeCalls
from mmrl.scoring.parse import extract_prediction
from mmrl.scoring.parts import part_name
from mmrl.scoring.router import Router

RESULTS = "results.json"
SCORES = "scores.jsonl"
_COUNTS = {
    "n": "n_total",
    "failed": "n_failed",
    "unscored": "n_unscored",
    "unparsed": "n_unparsed",
    "truncated": "n_truncated",
}


@dataclass(frozen=True, slots=True)
class Stored:
    """What is known of answers without scores: questions, those that failed, and answers that were cut."""

    n_total: int
    n_failed: int
    n_truncated: int


@dataclass(frozen=True)
class Outcome:
    """One benchmark's numbers, or why there are none. parts: means by name. groups: column -> value -> numbers.
    measures: what parts return beside their scores. also: more scores of the same answers, by name. repeats: of several
    answers to each question.

    budgets: of the classes that its media have, as they were opened. stored: in place of numbers, where answers were
    only stored. judge_calls: for all scores.
    """

    benchmark: Benchmark
    numbers: Numbers | None = None
    parts: Mapping[str, float] | None = None
    groups: Mapping[str, Mapping[str, Numbers]] | None = None
    measures: Mapping[str, Measure] = field(default_factory=dict)
    also: Mapping[str, Numbers] = field(default_factory=dict)
    repeats: Repeats | None = None
    problem: str = ""
    budgets: Mapping[str, BudgetClass] = field(default_factory=dict)
    stored: Stored | None = None
    judge_calls: JudgeCalls = NONE

    @property
    def has_failures(self) -> bool:
        """Whether a question failed, or the judge gave no verdict."""
        calls = self.judge_calls
        return bool((self.counts is not None and self.counts.n_failed) or calls.failed or calls.unread)

    @property
    def is_broken(self) -> bool:
        """Whether it could not run, or all its questions failed: then its files or the engine are at fault."""
        return self.counts is None or 0 < self.counts.n_total == self.counts.n_failed

    @property
    def counts(self) -> Numbers | Stored | None:
        return self.numbers or self.stored


def stored_of(records: Mapping[str, Sequence[Record]]) -> Stored:
    """Counts of the questions of a benchmark, by key."""
    failed = sum(of_key[0].is_failed for of_key in records.values())
    cut = sum(record.status == "truncated" for of_key in records.values() for record in of_key)
    return Stored(len(records), failed, cut)


def outcome_of(
    benchmark: Benchmark,
    questions: Sequence[Question],
    *,
    budgets: Mapping[str, BudgetClass],
    judge_calls: JudgeCalls = NONE,
) -> Outcome:
    section = benchmark.section
    ways = dict(section.averages())
    also = {name: _averaged(benchmark, ways[f"also.{name}"], questions) for name in section.also}
    return Outcome(
        benchmark,
        _averaged(benchmark, section.how, questions),
        part_means(questions),
        {column: _within(benchmark, by_value(questions, column)) for column in section.report},
        measures=measures_of(questions),
        budgets=budgets,
        also={name: numbers for name, numbers in also.items() if numbers is not None},
        repeats=_repeated(benchmark, questions),
        judge_calls=judge_calls,
    )


def _repeated(benchmark: Benchmark, questions: Sequence[Question]) -> Repeats | None:
    """Of several answers to each question, or of verdicts on their reasoning. None where a score is no mean of what
    single answers are worth: shares, and means of several scores.
    """
    section, how = benchmark.section, benchmark.section.how
    of_parts = {part_name(part) for parts in benchmark.parts.values() for part in parts}
    reasoning = section.reasoning if section.reasoning in of_parts else None  # rules in place of a judge have none
    counted = _counted(how, questions)
    count = min((len(question.scores) for question in counted if question.scores), default=1)
    if not counted or how.mean_of or how.corpus or how.shares is not None or (count == 1 and reasoning is None):
        return None
    ways = {"groups": how.group_columns, "all_of": how.all_of_columns, "cluster": section.cluster}
    return repeats_of(counted, count=count, reasoning=reasoning, **ways)


def _within(benchmark: Benchmark, of: Mapping[str, Sequence[Question]]) -> dict[str, Numbers]:
    """The numbers of the rows with each value, in which groups of rows have no say."""
    average = benchmark.section.how
    inside = average if average.mean_of else average.model_copy(update={"groups": ()})
    found = {value: _averaged(benchmark, inside, part) for value, part in of.items()}
    return {value: numbers for value, numbers in found.items() if numbers is not None}


def _averaged(benchmark: Benchmark, average: AverageSection, questions: Sequence[Question]) -> Numbers | None:
    """What the answers are worth, averaged in this way; None where no row counts."""
    section = benchmark.section
    if average.mean_of:
        ways_of_all = dict(section.averages())
        others = {name: ways_of_all[f"also.{name}"] for name in average.weights}
        of_all = {name: (_counted(other, questions), _ways(benchmark, other)) for name, other in others.items()}
        there = {name: of for name, of in of_all.items() if of[0]}
        weights = [average.weights[name] for name in there]
        return mean_numbers(questions, list(there.values()), weights=weights, cluster=section.cluster)
    counted, ways = _counted(average, questions), _ways(benchmark, average)
    if not counted or (ways["shares"] is not None and not any(map(ways["shares"].of, counted))):
        return None
    return numbers_of(counted, **ways, cluster=section.cluster)


def _counted(average: AverageSection, questions: Sequence[Question]) -> list[Question]:
    """The questions that count, with the scores that do."""
    kept = only(questions, average.only)
    if average.answered:
        kept = [question for question in kept if question.is_answered]
    return kept if average.part is None else of_part(kept, average.part)


def _ways(benchmark: Benchmark, average: AverageSection) -> dict[str, Any]:
    """Keywords of `numbers_of`, but the cluster."""
    first = next(iter(benchmark.parts.values()))[0]
    name = first.name or first.reward
    shares = None if average.shares is None else Shares(average.shares, name, average.share_names)
    ways = {"groups": average.group_columns, "all_of": average.all_of_columns, "shares": shares}
    return {**ways, "corpus": average.corpus}


def question_of(
    key: str,
    records: Sequence[Record],
    scores: Mapping[tuple[str, int], Score],
    columns: Mapping[str, Any],
    *,
    votes: tuple[str | None, ...] = (),
    references: tuple[str, ...] = (),
) -> Question:
    """The outcome of a question: its records with their scores."""
    answered = [record for record in records if not record.is_failed]
    return Question(
        key=key,
        scores=tuple(scores[key, record.repeat].value for record in answered),
        parts=tuple(scores[key, record.repeat].parts for record in answered),
        num_truncated=sum(record.status == "truncated" for record in answered),
        num_unparsed=sum(scores[key, record.repeat].is_unread for record in answered),
        columns=columns,
        votes=votes,
        texts=tuple(extract_prediction(record.completion, answer="plain") or "" for record in answered),
        references=references,
    )


def questions_of(
    rows: Rows, records: Mapping[str, Sequence[Record]], scores: Mapping[tuple[str, int], Score], router: Router
) -> list[Question]:
    """The outcome of every question that has records. router: of the rewards that gave the scores."""
    columns = {row.sample_id or row.where: rows.failed_columns[row.where] for row in rows.failed}
    votes: dict[str, tuple[str | None, ...]] = {}
    references: dict[str, tuple[str, ...]] = {}
    for sample in rows.samples:
        key = sample.sample_id
        columns[key] = columns_of(sample)
        references[key] = _texts(sample.answer)
        if len(of_key := records.get(key, ())) > 1:
            votes[key] = router.votes(sample, [record.completion for record in of_key])
    return [
        question_of(
            key,
            of_key,
            scores,
            columns.get(key, {}),
            votes=votes.get(key, ()),
            references=references.get(key, ()),
        )
        for key, of_key in records.items()
    ]


def _texts(answer: Any) -> tuple[str, ...]:
    """The accepted texts of a row; nothing where its answer is no text."""
    listed = answer if isinstance(answer, list | tuple) else [answer]
    return tuple(listed) if all(isinstance(text, str) for text in listed) else ()


def write_results(folder: Path, outcomes: Sequence[Outcome], *, made_with: Mapping[str, Any]) -> None:
    """made_with: what the numbers depend on beside the task files."""
    benchmarks = {outcome.benchmark.name: _json(outcome) for outcome in outcomes}
    text = json.dumps({"benchmarks": benchmarks, **made_with}, indent=2, ensure_ascii=False)
    (folder / RESULTS).write_text(text + "\n", encoding="utf-8")


def write_scores(folder: Path, questions: Sequence[Question], section: BenchmarkSection) -> None:
    """One line a question: its id and the scores of its answers; null: could not be scored; none: it failed.

    `groups`, `all_of`, `cluster`: its values in the columns that the task averages and resamples by.
    """
    text = "".join(json.dumps(_score_line(q, section), ensure_ascii=False) + "\n" for q in questions)
    (folder / SCORES).write_text(text, encoding="utf-8")


def read_scores(folder: Path) -> dict[str, Question]:
    """What write_scores wrote, by key."""
    path = folder / SCORES
    found = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            row = json.loads(line)
            scores = tuple(math.nan if score is None else float(score) for score in row.pop("scores"))
            key = row.pop("key")
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise DataError(f"{path}:{number}: not a line of scores ({error})") from error
        found[key] = Question(key, scores, 0, row)
    return found


def _score_line(question: Question, section: BenchmarkSection) -> dict[str, Any]:
    line: dict[str, Any] = {"key": question.key}
    line["scores"] = [None if math.isnan(score) else score for score in question.scores]
    if section.how.group_columns or section.how.all_of_columns:
        line["groups"] = [str(question.columns.get(column)) for column in section.how.group_columns]
        line["all_of"] = [str(question.columns.get(column)) for column in section.how.all_of_columns]
    if section.cluster is not None:
        line["cluster"] = str(question.columns.get(section.cluster))
    return line


def _json(outcome: Outcome) -> dict[str, Any]:
    section = outcome.benchmark.section
    row: dict[str, Any] = {"task_hash": outcome.benchmark.hash, "version": section.version}
    row["layout"] = section.provenance.layout
    row["answers"] = section.answers.model_dump(mode="json")
    row["budgets"] = {name: budget.model_dump(mode="json") for name, budget in outcome.budgets.items()}
    row["variant"], row["template"] = outcome.benchmark.variant, section.data.user_template
    row["task_templates"], row["system_prompt"] = section.data.task_templates, section.data.system_prompt
    row["options"] = section.model_dump(mode="json", include={"options"})["options"]
    if section.judge is not None:
        row["judge"] = outcome.benchmark.judge_told
    if outcome.stored is not None:
        return {**row, "predict_only": True, **asdict(outcome.stored)}
    if outcome.numbers is None:
        return {**row, "problem": outcome.problem}
    named = outcome.benchmark.score_name
    groups = {c: {v: _row(n, named) for v, n in of.items()} for c, of in (outcome.groups or {}).items()}
    measures = {name: asdict(measure) for name, measure in outcome.measures.items()}
    if outcome.repeats is not None:
        row["repeats"] = _with_score_named(asdict(outcome.repeats), named)
    also = {name: _row(numbers, named) for name, numbers in outcome.also.items()}
    numbers = _row(outcome.numbers, named)
    if row.get("judge") is not None:
        row["verdicts"] = _verdicts(outcome.judge_calls)
    return {**row, **numbers, "also": also, "parts": outcome.parts, "measures": measures, "groups": groups}


def _row(numbers: Numbers, score_name: str) -> dict[str, Any]:
    return _with_score_named(asdict(numbers), score_name)


def _with_score_named(value: Any, score_name: str) -> Any:
    if not isinstance(value, dict):
        return value
    return {score_name if k == SCORE else k: _with_score_named(of, score_name) for k, of in value.items()}


def _verdicts(calls: JudgeCalls) -> dict[str, int]:
    """Of n_judged verdicts n_from_cache needed no request. The others stand for answers without a score."""
    found = {"n_judged": calls.judged, "n_from_cache": calls.remembered}
    return {**found, "n_failed_calls": calls.failed, "n_unread_verdicts": calls.unread}


def table(outcomes: Sequence[Outcome]) -> Table:
    """A line per benchmark, and one for each of its further scores, in per cent. A star: the task file's layout was not
    checked on published files. A dagger: rules in place of its judge.
    """
    shown = Table("benchmark", "score", "95% interval", *_COUNTS, box=None, padding=(0, 2, 0, 0))
    for column in shown.columns[1:]:
        column.justify, column.no_wrap = "right", True
    for outcome in outcomes:
        name = outcome.benchmark.name + (" †" if outcome.benchmark.without_judge else "")
        name += "" if outcome.benchmark.section.provenance.layout == "verified" else " *"
        counts = [str(getattr(outcome.counts, count, "")) for count in _COUNTS.values()]
        if (numbers := outcome.numbers) is None:
            shown.add_row(name, "-", "", *counts)
            continue
        shown.add_row(name, *_per_cent(numbers), *counts)
        for other, of_other in outcome.also.items():
            shown.add_row(f"  {other}", *_per_cent(of_other), str(of_other.n_total))
        for measure, estimate in outcome.repeats.lines() if outcome.repeats is not None else ():
            shown.add_row(f"  {measure}", *_per_cent(estimate))
    return uncut(shown)


def uncut(shown: Table) -> Table:
    """A table that is printed wider than the terminal rather than with cut names and numbers."""
    for column in shown.columns:
        column.min_width = max(len(str(cell)) for cell in (column.header, *column.cells))
    return shown


def _per_cent(numbers: Numbers | Estimate) -> tuple[str, str]:
    return f"{100 * numbers.score:.1f}", f"{100 * numbers.low:.1f} to {100 * numbers.high:.1f}"
