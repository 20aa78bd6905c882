"""Benchmarks of `evaluate.tasks`, answered by the policy while it trains, with the run's own engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from mmrl.data.prepare import Prepared
from mmrl.data.skipped import SkippedLog
from mmrl.errors import EngineError
from mmrl.evaluate.benchmark import Benchmark, Rows, budgets_of, load_benchmark, open_router, read_rows
from mmrl.evaluate.judge import TRAINING_REMEDIES, VERDICTS
from mmrl.evaluate.records import Record, Reply, status_of, write_records
from mmrl.evaluate.repeats import seed_of
from mmrl.evaluate.result import Outcome, outcome_of, questions_of, write_results, write_scores
from mmrl.evaluate.runner import Score
from mmrl.rollout.types import Request
from mmrl.scoring.judge.calls import NONE, JudgeCalls
from mmrl.training import distributed
from mmrl.training.rollouts import RolloutSpec, generated, requests_for, scored
from mmrl.training.run_folder import environment
from mmrl.training.runtime import Runtime

# Records and scores of answers, by question and by (question, repeat).
Records = dict[str, list[Record]]
Scores = dict[tuple[str, int], Score]
Share = tuple[Records, Scores, JudgeCalls]


@dataclass(frozen=True)
class OpenBenchmark:
    """A benchmark whose rows were read. run: the training's parts, with this benchmark's data and rewards."""

    benchmark: Benchmark
    rows: Rows
    run: Runtime


@contextmanager
def open_benchmarks(run: Runtime) -> Iterator[list[OpenBenchmark]]:
    """The benchmarks of the run's configuration. Raises, before a step is trained, for one that cannot be scored."""
    with ExitStack() as stack:
        yield distributed.together(lambda: [_open(run, task, stack) for task in run.config.evaluate.tasks])


def _open(run: Runtime, task: str, stack: ExitStack) -> OpenBenchmark:
    section = run.config.evaluate
    benchmark = load_benchmark(task).judged_by(
        section.judge,
        without=section.no_judge,
        store=Path(run.config.cache.dir) / VERDICTS,
        remedies=TRAINING_REMEDIES,
    )
    benchmark = benchmark.for_model(run.processor)
    config = benchmark.config(
        run.config.model,
        cache=run.config.cache,
        budgets=run.config.budgets,
        workers=run.config.rewards.workers,
    )
    data = config.data.model_copy(update={"decode_workers": run.config.data.decode_workers})
    config = config.model_copy(update={"data": data, "seed": run.config.seed})
    assert section.root is not None, "checked with the configuration"
    rows = read_rows(benchmark, config, root=Path(section.root), limit=section.limit)
    router = stack.enter_context(open_router(benchmark, config, rows, run.processor))
    return OpenBenchmark(benchmark, rows, replace(run, config=config, router=router))


def evaluate(run: Runtime, benchmarks: Sequence[OpenBenchmark], *, step: int) -> dict[str, float]:
    """Ask every question once, each rank its share. Returns `eval/<task>/score` and counts; answers, scores and numbers
    are in the run's folder `evaluations/step-NNNNNN`, in the form of `mmrl evaluate`.
    """
    section = run.config.evaluate
    with run.sampling():
        shares = distributed.together(lambda: [_answer_share(of, size=section.batch_size) for of in benchmarks])
    gathered = distributed.gather_objects(shares)
    folder = run.folder / "evaluations" / f"step-{step:06d}"
    outcomes, metrics = [], {}
    for number, of in enumerate(benchmarks):
        outcome = _finish(of, [shares[number] for shares in gathered], folder / of.benchmark.name)
        outcomes.append(outcome)
        metrics |= _metrics(outcome)
    if distributed.is_main():
        write_results(folder, outcomes, made_with=_made_with(run, step))
    return metrics


def _made_with(run: Runtime, step: int) -> dict[str, object]:
    model = {"path": str(run.folder), "step": step, "dtype": run.config.model.dtype}
    settings = {"engine": run.config.rollout.engine, "seed": run.config.seed}
    return {"model": model, **settings, "environment": environment()}


def _answer_share(of: OpenBenchmark, *, size: int) -> Share:
    """This rank's questions, `size` at a time. One that cannot be asked is a record with its reason."""
    run = replace(of.run, skipped=SkippedLog(None, max_fraction=1.0))
    records: Records = {}
    scores: Scores = {}
    calls = NONE
    samples = of.rows.samples
    share = range(distributed.rank(), len(samples), distributed.world_size())
    for start in range(0, len(share), size):
        prepared = run.prepare([samples[index] for index in share[start : start + size]], run.config.data)
        calls += _answer(of.benchmark, run, prepared, records, scores)
    for row in run.skipped.rows:
        key = row.sample_id or row.where
        records[key] = [Record(of.benchmark.answers_hash, key, 0, status_of(row.kind), reason=row.reason)]
    return records, scores, calls


def _answer(
    benchmark: Benchmark, run: Runtime, prepared: Sequence[Prepared], records: Records, scores: Scores
) -> JudgeCalls:
    repeats = benchmark.section.answers.repeats
    spec = RolloutSpec((repeats,) * len(prepared), benchmark.sampling, seed=("evaluate", run.config.seed))
    asked: list[tuple[Prepared, Request]] = []
    for item, request in zip(prepared, requests_for(prepared, spec), strict=True):
        reason = _refusal(run, request)
        if reason is None:
            seed = seed_of(run.config.seed, benchmark.name, item.sample.sample_id)
            asked.append((item, replace(request, request_id=str(len(asked)), seed=seed)))
        else:
            key = item.sample.sample_id
            records[key] = [Record(benchmark.answers_hash, key, 0, "error", reason=reason)]
    if not asked:
        return NONE
    rolled = scored(run, generated(run, [item for item, _ in asked], [request for _, request in asked]))
    for index, (item, group) in enumerate(zip(rolled.prepared, rolled.groups, strict=True)):
        key = item.sample.sample_id
        is_place = run.geometry_kind(item.sample.task) is not None
        records[key] = [
            Record.of(benchmark.answers_hash, item.sample, repeat, Reply.of(completion), is_place=is_place)
            for repeat, completion in enumerate(group.completions)
        ]
        for repeat, value in enumerate(rolled.scores.task_scores[index]):
            read = rolled.scores
            scores[key, repeat] = Score(value, read.breakdown_of(index, repeat), read.is_unread(index, repeat))
    return rolled.scores.judge_calls


def _refusal(run: Runtime, request: Request) -> str | None:
    """Why the engine cannot serve a request, which it says before anything is decoded."""
    try:
        run.rollout.generate([request])
    except EngineError as error:
        return str(error)
    return None


def _finish(of: OpenBenchmark, shares: Sequence[Share], folder: Path) -> Outcome:
    """The numbers of all ranks' answers; the main one writes them."""
    missing = {row.sample_id or row.where: row.reason for row in of.rows.failed}
    hash_ = of.benchmark.answers_hash
    records = {key: [Record(hash_, key, 0, "media_error", reason=why)] for key, why in missing.items()}
    scores: Scores = {}
    calls = NONE
    for of_rank, scores_of_rank, calls_of_rank in shares:
        records |= of_rank
        scores |= scores_of_rank
        calls += calls_of_rank
    questions = questions_of(of.rows, records, scores, of.run.router)
    if distributed.is_main():
        folder.mkdir(parents=True, exist_ok=True)
        write_records(folder, records)
        write_scores(folder, questions, of.benchmark.section)
    budgets = budgets_of(of.rows.samples, of.run.config)
    return outcome_of(of.benchmark, questions, budgets=budgets, judge_calls=calls)


def _metrics(outcome: Outcome) -> dict[str, float]:
    numbers, prefix = outcome.numbers, f"eval/{outcome.benchmark.name}"
    assert numbers is not None
    return {
        f"{prefix}/{outcome.benchmark.score_name}": numbers.score,
        **{f"{prefix}/{name}": further.score for name, further in outcome.also.items()},
        f"{prefix}/n": float(numbers.n_total),
        f"{prefix}/failed": float(numbers.n_failed),
        f"{prefix}/unscored": float(numbers.n_unscored),
        f"{prefix}/unparsed": float(numbers.n_unparsed),
        f"{prefix}/truncated": float(numbers.n_truncated),
    }
