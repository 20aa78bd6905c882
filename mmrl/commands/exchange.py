"""`mmrl export-results` and `mmrl import-results`: answers to and from the files of lmms-eval and VLMEvalKit."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from rich.console import Console

from mmrl.config.judge_section import WITHOUT_JUDGE, JudgeServerSection
from mmrl.config.schema import CacheSection, ModelSection, RunConfig
from mmrl.errors import ConfigError, DataError
from mmrl.evaluate import exchange
from mmrl.evaluate.benchmark import SCORE, Benchmark, Rows, budgets_of, load_benchmark, read_rows
from mmrl.evaluate.judge import REMEDIES, VERDICTS
from mmrl.evaluate.records import SAMPLES, Record, RecordFile, write_records
from mmrl.evaluate.result import RESULTS, outcome_of, questions_of, read_scores, table, write_results, write_scores
from mmrl.evaluate.runner import Score
from mmrl.scoring.router import Router
from mmrl.training.run_folder import environment


@dataclass(frozen=True)
class ExportRequest:
    """tasks: names or paths as in `mmrl evaluate`; empty: all of the results, which then are shipped ones."""

    results: Path
    format: Literal["lmms-eval", "vlmevalkit"]
    root: Path
    out: Path
    tasks: tuple[str, ...] = ()


@dataclass(frozen=True)
class ImportRequest:
    """file: .jsonl of lmms-eval or .tsv of VLMEvalKit. key: its field that says which question a row is; None: what its
    harness numbers rows by. model: whose answers these are. judge, no_judge: as for `mmrl evaluate`.
    """

    file: Path
    task: str
    root: Path
    out: Path
    key: str | None = None
    model: str = ""
    limit: int | None = None
    judge: JudgeServerSection | None = None
    no_judge: bool = False


def export_command(request: ExportRequest) -> int:
    """Write the files of another harness. Raises DataError where the benchmark's rows are not those that were asked."""
    path = request.results / RESULTS
    if not path.is_file():
        raise ConfigError(f"{request.results} is no folder of results: it has no {RESULTS} (mmrl evaluate --out)")
    results = json.loads(path.read_text(encoding="utf-8"))
    model = Path(results["model"]["path"]).name
    folder = request.out / model
    folder.mkdir(parents=True, exist_ok=True)
    date, names = datetime.now().strftime("%Y%m%d_%H%M%S"), []
    for task in request.tasks or tuple(results["benchmarks"]):
        benchmark, rows = _rows(task, request, results)
        name = benchmark.name
        stored = RecordFile(
            request.results / name / SAMPLES,
            task_hash=benchmark.answers_hash,
            repeats=benchmark.section.answers.repeats,
        )
        records, scores = stored.read(), read_scores(request.results / name)
        samples = [sample for sample in rows.samples if sample.sample_id in records and sample.sample_id in scores]
        if len(samples) + len(rows.failed) != len(scores):
            there = f"of which {len(samples)} are in {request.root}"
            raise DataError(f"{request.results / name} has {len(scores)} questions, {there}")
        names.append(name)
        if request.format == "lmms-eval":
            log = exchange.lmms_eval_samples(samples, records, scores)
            (folder / f"{date}_samples_{name}.jsonl").write_text(log, encoding="utf-8")
        else:
            predictions = exchange.vlmevalkit_table(samples, records, scores)
            (folder / f"{model}_{name}.tsv").write_text(predictions, encoding="utf-8")
            score = exchange.vlmevalkit_score(results["benchmarks"][name])
            (folder / f"{model}_{name}_acc.csv").write_text(score, encoding="utf-8")
    if request.format == "lmms-eval":
        text = exchange.lmms_eval_results(names, results, date=date)
        (folder / f"{date}_results.json").write_text(text, encoding="utf-8")
    print(f"written: {folder}")
    return 0


def _rows(task: str, request: ExportRequest, results: dict[str, Any]) -> tuple[Benchmark, Rows]:
    row = results["benchmarks"].get(Path(task).stem if task.endswith((".yaml", ".yml")) else task)
    if row is None or not row.keys() & {SCORE, WITHOUT_JUDGE}:
        raise ConfigError(f"{request.results} has no scores of {task!r}; has: {', '.join(results['benchmarks'])}")
    benchmark = load_benchmark(task).in_variant(row["variant"]).answered_by(**row["answers"])
    benchmark = benchmark.with_options(row["options"]).scored_as(row)
    if benchmark.hash != row["task_hash"]:
        raise ConfigError(f"{task}: the task file is another than the one that was asked ({request.results / RESULTS})")
    return benchmark, read_rows(benchmark, _config(benchmark), root=request.root, limit=row["n_total"])


def _config(benchmark: Benchmark) -> RunConfig:
    """Rows are read; no model is loaded and no medium opened."""
    return benchmark.config(ModelSection(path="none"), cache=CacheSection(), budgets={}, workers=0)


def import_command(request: ImportRequest) -> int:
    """Score the answers of another harness and write results as `mmrl evaluate` does. Returns 1 where some had failed
    there.
    """
    answers, field = _read(request)
    benchmark = load_benchmark(request.task).judged_by(
        request.judge, without=request.no_judge, store=Path(CacheSection().dir) / VERDICTS, remedies=REMEDIES
    )
    if (request.out / RESULTS).exists():
        raise ConfigError(f"{request.out} holds results already; give another --out")
    config = _config(benchmark)
    rows = read_rows(benchmark, config, root=request.root, limit=request.limit)
    if rows.failed:
        raise DataError(f"{rows.failed[0].where}: {rows.failed[0].reason}; rows are matched with whole files only")
    samples = {sample.sample_id: sample for sample in rows.samples}
    found = exchange.matched(answers, list(samples.values()), field=field, name=str(request.file))
    with Router(config.rewards, relative_to=benchmark.relative_to) as router:
        router.validate(rows.read.task_counts())
        for task in rows.read.task_counts():
            if router.geometry_kind(task) is not None:
                fact = "answers are places in the space of a model, which the file does not name"
                raise ConfigError(f"{benchmark.name}: {fact}; ask the model itself (mmrl evaluate)")
        asked = [(key, answer) for key, answer in found.items() if answer.texts]
        scored = router.score([(samples[key], answer.texts) for key, answer in asked])
        scores = {
            (key, repeat): Score(value, scored.breakdown_of(index, repeat), scored.is_unread(index, repeat))
            for index, (key, _) in enumerate(asked)
            for repeat, value in enumerate(scored.task_scores[index])
        }
    records = {key: _records(benchmark, key, answer) for key, answer in found.items()}
    questions = questions_of(rows, records, scores, router)
    folder = request.out / benchmark.name
    folder.mkdir(parents=True, exist_ok=True)
    write_records(folder, records)
    write_scores(folder, questions, benchmark.section)
    budgets, calls = budgets_of(rows.samples, config), scored.judge_calls
    outcome = outcome_of(benchmark, questions, budgets=budgets, judge_calls=calls)
    model = {"path": request.model or request.file.stem}
    made_with = {"model": model, "engine": "imported", "file": str(request.file), "environment": environment()}
    write_results(request.out, [outcome], made_with=made_with)
    Console(file=sys.stdout, highlight=False, markup=False, emoji=False).print(table([outcome]))
    assert outcome.numbers is not None
    return 1 if outcome.numbers.n_failed else 0


def _read(request: ImportRequest) -> tuple[list[exchange.Answer], str]:
    """The rows of the file, and the field to match them by."""
    name = str(request.file)
    if request.file.suffix not in (".jsonl", ".tsv"):
        raise ConfigError(f"{name}: neither .jsonl (lmms-eval) nor .tsv (VLMEvalKit with PRED_FORMAT=tsv)")
    text = request.file.read_text(encoding="utf-8")
    if request.file.suffix == ".tsv":
        return exchange.read_vlmevalkit(text, name=name), request.key or exchange.INDEX
    answers = exchange.read_lmms_eval(text, name=name)
    has_keys = all(exchange.KEY in answer.row for answer in answers)
    return answers, request.key or (exchange.KEY if has_keys else exchange.PLACE)


def _records(benchmark: Benchmark, key: str, answer: exchange.Answer) -> list[Record]:
    if not answer.texts:
        return [Record(benchmark.answers_hash, key, 0, "error", reason=f"{answer.where}: the request had failed")]
    return [Record(benchmark.answers_hash, key, n, "ok", completion=text) for n, text in enumerate(answer.texts)]
