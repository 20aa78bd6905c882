"""`mmrl evaluate`: a model's scores on benchmarks, from local files."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from rich.console import Console

from mmrl.config.judge_section import WITHOUT_JUDGE, JudgeServerSection
from mmrl.config.schema import CacheSection, ModelSection, RunConfig, VideoSection
from mmrl.data.cache import PixelCache
from mmrl.data.decoder import MediaOpener
from mmrl.data.prepare import Preparer
from mmrl.data.sample import Sample
from mmrl.data.skipped import SkippedLog
from mmrl.errors import ConfigError, MmrlError
from mmrl.evaluate.ahead import Openers
from mmrl.evaluate.benchmark import Benchmark, Rows, budgets_of, load_benchmark, open_router, read_rows
from mmrl.evaluate.engines import LocalEngine, open_flight
from mmrl.evaluate.features import CacheLevel, check_level, features_for
from mmrl.evaluate.flight import Flight
from mmrl.evaluate.judge import REMEDIES, VERDICTS
from mmrl.evaluate.options import read_order
from mmrl.evaluate.processes import ProcessFlight
from mmrl.evaluate.progress import EvaluationProgress, to_ask
from mmrl.evaluate.records import EXTENT, Record, RecordFile
from mmrl.evaluate.result import (
    Outcome,
    outcome_of,
    questions_of,
    stored_of,
    table,
    write_results,
    write_scores,
)
from mmrl.evaluate.row_files import row_files
from mmrl.evaluate.runner import Job, Runner, rescore
from mmrl.evaluate.servers import ServerFlight, endpoints
from mmrl.evaluate.weights import weights_hash
from mmrl.models.families import FamilyProcessor
from mmrl.models.load import processor_of
from mmrl.models.trained_with import checkpoint_settings
from mmrl.scoring.router import Router
from mmrl.training.run_folder import environment

MODEL = "model.json"


@dataclass(frozen=True)
class EvaluateRequest:
    """What is evaluated. tasks: names of shipped benchmarks or paths of task files. root: folder of their files.

    batch: requests that an engine has at once. dp: engines on this machine. servers: where engine `openai` asks, with
    the model's name there (None: its path) and the environment variable of a token. deadline_s: of a question, from
    when the engine has it.
    predict_only: answers are stored, not scored, and rows need no answer. strict: a failed question makes the exit
    code 1. retry_failed: ask again what failed before. rescore: score stored
    answers, without a model. repeats, temperature, max_new_tokens, options (as --options spells them): None: as the
    task files say. variant: of the task files; None: the one for the model. judge: where the judge of task files that
    name one answers. no_judge: their rules stand in its place. cache_level: see mmrl/evaluate/features.py.
    """

    model: ModelSection
    tasks: tuple[str, ...]
    root: Path
    out: Path
    cache: Path
    engine: Literal["hf", "vllm", "openai"] = "hf"
    servers: tuple[str, ...] = ()
    server_model: str | None = None
    token_env: str | None = None
    deadline_s: float = 1800.0
    predict_only: bool = False
    strict: bool = False
    limit: int | None = None
    repeats: int | None = None
    temperature: float | None = None
    max_new_tokens: int | None = None
    options: str | None = None
    variant: str | None = None
    seed: int = 0
    batch: int = 16
    dp: int = 1
    workers: int = 0
    retry_failed: bool = False
    rescore: bool = False
    judge: JudgeServerSection | None = None
    no_judge: bool = False
    cache_level: CacheLevel = "auto"


@dataclass
class _Plan:
    """A benchmark that can run. answers: stored before, by key. failed: records of rows whose medium is not there."""

    job: Job
    rows: Rows
    answers: dict[str, list[Record]]
    failed: dict[str, list[Record]]


def evaluate_command(request: EvaluateRequest) -> int:
    """Ask, score, print a table and write the results to `out`. Returns 0, or 1 when a benchmark could not run, when
    all questions of one failed or, with `strict`, a single one.

    Raises ConfigError for a benchmark that is not there, for one with a judge whose server is not given, and where
    `out` holds answers of another model or seed.
    """
    check_level(request.cache_level, engine=request.engine, dp=request.dp)
    return evaluate_benchmarks(request, [load_benchmark(name) for name in request.tasks])


def evaluate_benchmarks(request: EvaluateRequest, benchmarks: Sequence[Benchmark]) -> int:
    """The same of benchmarks that were read already; the request's `tasks` says nothing then."""
    _check(request)
    console = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)
    benchmarks = [_judged(benchmark, request) for benchmark in benchmarks]
    if len({benchmark.name for benchmark in benchmarks}) < len(benchmarks):
        raise ConfigError("a benchmark is named twice in --tasks")
    processor = processor_of(request.model)
    benchmarks = [_as_asked(benchmark, request, processor) for benchmark in benchmarks]
    made_with = _made_with(request)
    _claim(request.out, made_with)
    with ExitStack() as stack:
        opener = stack.enter_context(MediaOpener(VideoSection(), workers=1))  # for what is opened a second time
        plans, outcomes = [], {}
        for benchmark in benchmarks:
            try:
                plans.append(_plan(benchmark, request, processor, opener, stack))
            except MmrlError as error:  # the other benchmarks do not wait for its files to be mended
                outcomes[benchmark.name] = Outcome(benchmark, problem=str(error))
                console.print(f"{benchmark.name}: cannot run: {error}", style="red", markup=False)
        _answer(plans, request, processor, console)
        for plan in plans:
            outcomes[plan.job.benchmark.name] = _finished(plan, request.out, console)
    ordered = [outcomes[benchmark.name] for benchmark in benchmarks]
    files = {b.name: row_files(b, root=request.root, cache=request.cache) for b in benchmarks}
    write_results(request.out, ordered, made_with={**made_with, "data": files, "environment": environment()})
    Console(file=sys.stdout, highlight=False, markup=False, emoji=False).print(table(ordered), crop=False)
    for outcome in ordered:
        if outcome.is_broken and not outcome.problem:
            said = "all questions failed; samples.jsonl has the reasons, --retry-failed asks them again"
            console.print(f"{outcome.benchmark.name}: {said}", style="red", markup=False)
        _tell_of_judge(outcome, console)
    if any(b.without_judge for b in benchmarks) and not request.predict_only:
        console.print(f"† rules stand in place of the judge, and the score is called {WITHOUT_JUDGE}")
    console.print(f"results: {request.out}", markup=False)
    if any(b.section.provenance.layout != "verified" for b in benchmarks):
        console.print("* the task file's layout was not checked on the published files")
    broken = any(outcome.is_broken for outcome in ordered)
    failed = any(outcome.has_failures for outcome in ordered)
    return 1 if broken or (request.strict and failed) else 0


def _check(request: EvaluateRequest) -> None:
    if request.engine == "openai" and not request.servers and not request.rescore:
        raise ConfigError("--engine openai needs --server URL (up to /v1), once for each server")
    if request.engine != "openai" and (request.servers or request.server_model or request.token_env):
        raise ConfigError("--server, --server-model and --token-env are for --engine openai")
    if request.engine == "openai" and request.dp > 1:
        raise ConfigError("--dp starts engines on this machine; of servers give --server once for each")
    if request.predict_only and request.rescore:
        raise ConfigError("--predict-only stores answers without scores, --rescore scores them: give one of them")
    if request.no_judge and request.judge is not None:
        raise ConfigError("--judge-server asks a judge, --no-judge does without: give one of them")


def _judged(benchmark: Benchmark, request: EvaluateRequest) -> Benchmark:
    return benchmark.judged_by(
        request.judge,
        without=request.no_judge or request.predict_only,
        store=request.cache / VERDICTS,
        remedies=REMEDIES,
    )


def _tell_of_judge(outcome: Outcome, console: Console) -> None:
    calls = outcome.judge_calls
    if calls.failed or calls.unread:
        console.print(
            f"{outcome.benchmark.name}: {calls.failed + calls.unread} answers without a verdict count 0 as unscored:"
            f" {calls.failed} calls of the judge failed, {calls.unread} of its answers were no verdict; --rescore asks"
            " for these alone",
            markup=False,
        )


def _as_asked(benchmark: Benchmark, request: EvaluateRequest, processor: FamilyProcessor) -> Benchmark:
    """The benchmark in the variant for the model, and with what the command line changes."""
    chosen = benchmark.for_model(processor) if request.variant is None else benchmark.in_variant(request.variant)
    ordered = chosen if request.options is None else chosen.with_options(read_order(request.options))
    return ordered.answered_by(
        repeats=request.repeats, temperature=request.temperature, max_new_tokens=request.max_new_tokens
    )


def _made_with(request: EvaluateRequest) -> dict[str, Any]:
    """What answers depend on beside the task files: another value must not continue them."""
    return {
        "model": {
            "path": str(request.model.path),
            "dtype": request.model.dtype,
            "weights": weights_hash(request.model, request.cache),
        },
        "engine": request.engine,
        **({"server_model": request.server_model} if request.server_model is not None else {}),
        "seed": request.seed,
    }


def _claim(out: Path, made_with: Mapping[str, Any]) -> None:
    """Write what the folder's answers are made with. ConfigError where it holds others."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / MODEL
    if path.is_file() and (before := json.loads(path.read_text(encoding="utf-8"))) != made_with:
        changed = ", ".join(key for key in made_with if before.get(key) != made_with[key])
        raise ConfigError(f"{out} holds answers made with another {changed} ({path}); give another --out")
    path.write_text(json.dumps(made_with, indent=2) + "\n", encoding="utf-8")


def _plan(
    benchmark: Benchmark, request: EvaluateRequest, processor: FamilyProcessor, opener: MediaOpener, stack: ExitStack
) -> _Plan:
    settings = checkpoint_settings(request.model.path)
    config = benchmark.config(
        request.model,
        cache=CacheSection(dir=str(request.cache)),
        budgets=settings.budgets if settings else {},
        workers=request.workers,
    )
    rows = read_rows(benchmark, config, root=request.root, limit=request.limit, needs_answers=not request.predict_only)
    router = stack.enter_context(open_router(benchmark, config, rows, processor))
    folder = request.out / benchmark.name
    folder.mkdir(exist_ok=True)
    records = RecordFile(
        folder / "samples.jsonl", task_hash=benchmark.answers_hash, repeats=benchmark.section.answers.repeats
    )
    known = {key: of for key, of in records.read().items() if not (request.retry_failed and of[0].is_failed)}
    if not request.predict_only:
        for key in _uncompared(rows, known, router):
            del known[key]
    failed = {key: [Record(benchmark.answers_hash, key, 0, "media_error", reason=why)] for key, why in _absent(rows)}
    records.keep({**failed, **known})  # what was answered stays, though it is not asked this time
    keys = [rows.samples[index].sample_id for index in range(len(rows.samples))]
    job = Job(
        benchmark=benchmark,
        samples=rows.samples,
        todo=[index for index, key in enumerate(keys) if key not in known],
        preparer=_preparer(config, request, processor, opener, router),
        router=router,
        records=records,
        is_scored=not request.predict_only,
    )
    if request.rescore and job.todo:
        raise ConfigError(
            f"--rescore: {len(job.todo)} of {rows.size} questions have no stored answer in {folder} (of places, none"
            " that --predict-only stored can be scored); without --rescore they are asked"
        )
    return _Plan(job, rows, {key: known[key] for key in keys if key in known}, failed)


def _absent(rows: Rows) -> Iterator[tuple[str, str]]:
    """Key and reason of the rows whose medium is not there."""
    return ((row.sample_id or row.where, row.reason) for row in rows.failed)


def _uncompared(rows: Rows, known: Mapping[str, Sequence[Record]], router: Router) -> list[str]:
    """Stored answers of --predict-only that cannot be scored: places, without the dataset's in the model's space."""
    lacking = {key for key, of in known.items() if not of[0].is_failed and of[0].answer is None}
    if not lacking:
        return []
    return [s.sample_id for s in rows.samples if s.sample_id in lacking and router.geometry_kind(s.task) is not None]


def _preparer(
    config: RunConfig, request: EvaluateRequest, processor: FamilyProcessor, opener: MediaOpener, router: Router
) -> Preparer:
    return Preparer(
        cache=PixelCache(request.cache),
        opener=opener,
        processor=processor,
        config=config,
        data=config.data,
        skipped=SkippedLog(None, max_fraction=1.0),
        geometry_kind=(lambda task: None) if request.predict_only else router.geometry_kind,
    )


def _answer(plans: Sequence[_Plan], request: EvaluateRequest, processor: FamilyProcessor, console: Console) -> None:
    """Ask what has no answer yet; score answers of an earlier run."""
    for plan in plans if not request.predict_only else ():
        rescore(plan.job, _answered_samples(plan), plan.answers)
    jobs = [plan.job for plan in plans if plan.job.todo]
    if not jobs:
        return
    console.print(f"{to_ask(jobs)}; opening the model", markup=False)
    with ExitStack() as stack:
        flight = _open_flight(request, processor, stack, plans)
        openers = stack.enter_context(Openers(VideoSection(), workers=request.workers))
        told = stack.enter_context(EvaluationProgress(console, jobs))
        Runner(
            jobs,
            flight,
            openers,
            ready=2 * request.batch * request.dp,
            deadline_s=request.deadline_s,
            seed=request.seed,
            told=told,
        ).run()


def _answered_samples(plan: _Plan) -> dict[str, Sample]:
    """The samples of stored answers, with the answers that these were compared with."""
    found = {}
    for sample in plan.rows.samples:
        if (records := plan.answers.get(sample.sample_id)) is not None:
            stored = records[0]
            if stored.answer is not None:
                columns = {**sample.columns, EXTENT: stored.answer_extent}
                sample = replace(sample, answer=stored.answer, answer_space=stored.answer_space, columns=columns)
            found[sample.sample_id] = sample
    return found


def _open_flight(
    request: EvaluateRequest, processor: FamilyProcessor, stack: ExitStack, plans: Sequence[_Plan]
) -> Flight:
    if request.engine == "openai":
        servers = endpoints(
            request.servers,
            model=request.server_model or request.model.path,
            api_key_env=request.token_env,
            timeout_s=request.deadline_s,
        )
        preparers = {plan.job.benchmark.name: plan.job.preparer for plan in plans}
        flight = ServerFlight(
            servers, processor, size=request.batch, jobs_of=lambda sample: preparers[sample.dataset].jobs(sample)
        )
        return stack.enter_context(flight)
    sections = [plan.job.benchmark.section for plan in plans]
    longest = max(section.max_prompt_tokens + section.answers.max_new_tokens for section in sections)
    engine = LocalEngine(request.engine, request.model, longest, size=request.batch)
    count = min(request.dp, sum(len(plan.job.todo) for plan in plans))
    if count > 1:
        return stack.enter_context(ProcessFlight(engine, count=count))
    on_model = features_for(
        [plan.job for plan in plans], processor, request.model, level=request.cache_level, engine=request.engine
    )
    return stack.enter_context(open_flight(engine, processor, on_model=on_model))


def _finished(plan: _Plan, out: Path, console: Console) -> Outcome:
    """The numbers of a benchmark whose questions all have records; why the first of those that failed did."""
    job, stored = plan.job, plan.job.records.read()
    records = {sample.sample_id: stored[sample.sample_id] for sample in plan.rows.samples} | plan.failed
    _tell_of_failures(job.benchmark.name, records, console)
    if not job.is_scored:
        budgets = budgets_of(job.samples, job.preparer.config)
        return Outcome(job.benchmark, budgets=budgets, stored=stored_of(records))
    questions = questions_of(plan.rows, records, job.scores, job.router)
    write_scores(out / job.benchmark.name, questions, job.benchmark.section)
    budgets = budgets_of(job.samples, job.preparer.config)
    outcome = outcome_of(job.benchmark, questions, budgets=budgets, judge_calls=job.judge_calls)
    _tell_of_unscored(outcome, job.reward_problem, console)
    return outcome


def _tell_of_unscored(outcome: Outcome, problem: str, console: Console) -> None:
    if outcome.numbers is not None and (count := outcome.numbers.n_unscored):
        console.print(
            f"{outcome.benchmark.name}: {count} of {outcome.numbers.n_total} questions are unscored, for their reward"
            f" failed, and count 0; the first: {problem}; --rescore scores them again",
            markup=False,
        )


def _tell_of_failures(name: str, records: Mapping[str, Sequence[Record]], console: Console) -> None:
    failed = [of_key[0] for of_key in records.values() if of_key[0].is_failed]
    if failed:
        kinds = ", ".join(f"{count} {status}" for status, count in Counter(r.status for r in failed).most_common())
        console.print(
            f"{name}: {len(failed)} of {len(records)} questions failed ({kinds}) and count 0; the first is"
            f" {failed[0].key}: {failed[0].reason}; --retry-failed asks them again",
            markup=False,
        )
