"""`mmrl evaluate` and `mmrl compare`: the commands that measure models on benchmarks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from mmrl.commands.evaluate_options import (
    CacheLevel,
    Deadline,
    JudgeModel,
    JudgeServer,
    JudgeTimeout,
    JudgeTokenEnv,
    LongestAnswer,
    NoJudge,
    OptionOrder,
    PredictOnly,
    PromptVariant,
    Repeats,
    Rescore,
    Strict,
    Temperature,
)
from mmrl.commands.options import (
    DEFAULT_CACHE,
    Answering,
    Batch,
    Decoders,
    Engines,
    RetryFailed,
    Seed,
    ServerModel,
    Servers,
    SharedCache,
    TokenEnv,
    WeightType,
    example,
)
from mmrl.errors import ConfigError

if TYPE_CHECKING:
    from mmrl.config.judge_section import JudgeServerSection

benchmarks_app = typer.Typer()


@benchmarks_app.command(
    epilog=example(
        "mmrl evaluate --model runs/my-run/checkpoints/best/model --tasks mmstar,charades_sta --root /data/benchmarks",
        "mmrl evaluate --model DIR --tasks ./mine.yaml --limit 50 --engine vllm --out results/try",
        "mmrl evaluate --model DIR --tasks docvqa_val --engine openai --server http://gpu1:8000/v1 --server-model NAME",
    )
)
def evaluate(
    model: Annotated[str, typer.Option(help="Model folder, checkpoint or hub id.")],
    tasks: Annotated[str, typer.Option(help="Benchmarks, or paths of task files, with commas between.")],
    root: Annotated[Path, typer.Option(help="Folder that the task files' paths start from.")] = Path("benchmarks"),
    out: Annotated[Path | None, typer.Option(help="Folder of the results; default: results/<model's folder>.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first rows of each benchmark.")] = None,
    engine: Answering = "hf",
    server: Servers = None,
    server_model: ServerModel = None,
    token_env: TokenEnv = None,
    repeats: Repeats = None,
    temperature: Temperature = None,
    max_new_tokens: LongestAnswer = None,
    options: OptionOrder = None,
    variant: PromptVariant = None,
    seed: Seed = 0,
    batch: Batch = 16,
    dp: Engines = 1,
    deadline: Deadline = 1800.0,
    workers: Decoders = 0,
    dtype: WeightType = "bfloat16",
    cache: SharedCache = DEFAULT_CACHE,
    cache_level: CacheLevel = "auto",
    retry_failed: RetryFailed = False,
    rescore: Rescore = False,
    predict_only: PredictOnly = False,
    strict: Strict = False,
    judge_server: JudgeServer = None,
    judge_token_env: JudgeTokenEnv = None,
    judge_model: JudgeModel = None,
    judge_timeout: JudgeTimeout = 120.0,
    no_judge: NoJudge = False,
) -> None:
    """Score a model on benchmarks, from local files. A second call goes on where the first one stopped."""
    from mmrl.commands.evaluate import EvaluateRequest, evaluate_command
    from mmrl.config.schema import ModelSection

    request = EvaluateRequest(
        model=ModelSection(path=model, dtype=dtype),
        tasks=split_names(tasks),
        root=root,
        out=out or Path("results") / Path(model).name,
        cache=cache,
        cache_level=cache_level,
        engine=engine,
        servers=tuple(server or ()),
        server_model=server_model,
        token_env=token_env,
        deadline_s=deadline,
        predict_only=predict_only,
        strict=strict,
        limit=limit,
        repeats=repeats,
        temperature=temperature,
        max_new_tokens=max_new_tokens,
        options=options,
        variant=variant,
        seed=seed,
        batch=batch,
        dp=dp,
        workers=workers,
        retry_failed=retry_failed,
        rescore=rescore,
        judge=_judge(judge_server, judge_token_env, judge_model, judge_timeout),
        no_judge=no_judge,
    )
    raise typer.Exit(evaluate_command(request))


@benchmarks_app.command(
    epilog=example(
        "mmrl rate /models/Qwen2.5-VL-3B-Instruct my.yaml -k 8 --out ratings/base",
        "mmrl rate DIR my.yaml --engine vllm --datasets geometry",
    )
)
def rate(
    model: Annotated[str, typer.Argument(help="Model folder, checkpoint or hub id")],
    dataset: Annotated[str, typer.Argument(help="A run's YAML, whose data.train is rated, or a task file")],
    k: Annotated[int, typer.Option("-k", min=1, help="Answers to each question.")] = 8,
    out: Annotated[Path | None, typer.Option(help="Folder to write; default: ratings/<model's folder>.")] = None,
    datasets: Annotated[str, typer.Option(help="Only these of the run, with commas between.")] = "",
    threshold: Annotated[float, typer.Option(help="An answer worth at least this is right.")] = 0.5,
    root: Annotated[Path, typer.Option(help="Folder that a task file's paths start from.")] = Path("benchmarks"),
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first rows.")] = None,
    engine: Answering = "hf",
    server: Servers = None,
    server_model: ServerModel = None,
    token_env: TokenEnv = None,
    temperature: Annotated[
        float | None, typer.Option(min=0.0, help="Default: the run's; of a task file that says 0, 1.")
    ] = None,
    max_new_tokens: Annotated[int | None, typer.Option(min=1, help="Longest answer; default: the file's.")] = None,
    seed: Seed = 0,
    batch: Batch = 16,
    dp: Engines = 1,
    workers: Decoders = 0,
    dtype: WeightType = "bfloat16",
    cache: SharedCache = DEFAULT_CACHE,
    retry_failed: RetryFailed = False,
) -> None:
    """Rate each row of a dataset by how often a model is right on it: pass rate and pass@k, as columns."""
    from mmrl.commands.evaluate import EvaluateRequest
    from mmrl.commands.rate import RateRequest, rate_command
    from mmrl.config.schema import ModelSection

    evaluation = EvaluateRequest(
        model=ModelSection(path=model, dtype=dtype),
        tasks=(),
        root=root,
        out=out or Path("ratings") / Path(model).name,
        cache=cache,
        engine=engine,
        servers=tuple(server or ()),
        server_model=server_model,
        token_env=token_env,
        limit=limit,
        repeats=k,
        temperature=temperature,
        max_new_tokens=max_new_tokens,
        seed=seed,
        batch=batch,
        dp=dp,
        workers=workers,
        retry_failed=retry_failed,
    )
    raise typer.Exit(rate_command(RateRequest(evaluation, dataset, split_names(datasets), threshold)))


@benchmarks_app.command(epilog=example("mmrl compare results/base results/tuned --out tuned.md"))
def compare(
    a: Annotated[Path, typer.Argument(metavar="A", help="Folder of results (mmrl evaluate --out)")],
    b: Annotated[Path, typer.Argument(metavar="B", help="Folder of results to compare with A")],
    tasks: Annotated[str, typer.Option(help="Benchmarks with commas between; default: all of both.")] = "",
    out: Annotated[Path | None, typer.Option(help="Write the table there, too: a .md or .html file.")] = None,
    anyway: Annotated[bool, typer.Option("--anyway", help="Compare what was not asked alike.")] = False,
) -> None:
    """Compare two evaluations question by question: differences, their intervals, McNemar's test."""
    from mmrl.commands.compare import CompareRequest, compare_command

    raise typer.Exit(compare_command(CompareRequest(a, b, split_names(tasks), out, anyway)))


@benchmarks_app.command(
    "export-results",
    epilog=example("mmrl export-results results/tuned logs --format lmms-eval --root /data"),
)
def export_results(
    results: Annotated[Path, typer.Argument(help="Folder of results (mmrl evaluate --out)")],
    out: Annotated[Path, typer.Argument(help="Folder to write")],
    format_: Annotated[Literal["lmms-eval", "vlmevalkit"], typer.Option("--format", help="Whose files.")],
    root: Annotated[Path, typer.Option(help="Folder that the task files' paths start from.")] = Path("benchmarks"),
    tasks: Annotated[str, typer.Option(help="Benchmarks, or paths of task files; default: all of RESULTS.")] = "",
) -> None:
    """Write answers and numbers as the files of lmms-eval or VLMEvalKit."""
    from mmrl.commands.exchange import ExportRequest, export_command

    raise typer.Exit(export_command(ExportRequest(results, format_, root, out, split_names(tasks))))


@benchmarks_app.command(
    "import-results", epilog=example("mmrl import-results 20250101_samples_mmstar.jsonl results/theirs --task mmstar")
)
def import_results(
    file: Annotated[Path, typer.Argument(help="Sample log of lmms-eval (.jsonl), or predictions of VLMEvalKit (.tsv)")],
    out: Annotated[Path, typer.Argument(help="Folder of results to write")],
    task: Annotated[str, typer.Option(help="Benchmark, or path of a task file.")],
    root: Annotated[Path, typer.Option(help="Folder that the task file's paths start from.")] = Path("benchmarks"),
    key: Annotated[
        str | None, typer.Option(help="Field that says which question a row is; default: key, doc_id (.tsv: index).")
    ] = None,
    model: Annotated[str, typer.Option(help="Whose answers these are; default: the file's name.")] = "",
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first rows of the benchmark were asked.")] = None,
    judge_server: Annotated[str | None, typer.Option(help="As for mmrl evaluate, as the following ones.")] = None,
    judge_token_env: Annotated[str | None, typer.Option(help="Environment variable of the judge's token.")] = None,
    judge_model: Annotated[str | None, typer.Option(help="Another judge than the task file names.")] = None,
    judge_timeout: Annotated[float, typer.Option(min=0.1, help="Seconds for one request to the judge.")] = 120.0,
    no_judge: Annotated[
        bool, typer.Option("--no-judge", help="Score by rule where the task file names a judge.")
    ] = False,
) -> None:
    """Score the answers that lmms-eval or VLMEvalKit stored, by the benchmark's own rewards."""
    from mmrl.commands.exchange import ImportRequest, import_command

    judge = _judge(judge_server, judge_token_env, judge_model, judge_timeout)
    request = ImportRequest(file, task, root, out, key, model, limit, judge=judge, no_judge=no_judge)
    raise typer.Exit(import_command(request))


def _judge(url: str | None, token_env: str | None, model: str | None, timeout_s: float) -> JudgeServerSection | None:
    from mmrl.config.judge_section import JudgeServerSection

    if url is not None:
        return JudgeServerSection(url=url, api_key_env=token_env, model=model, timeout_s=timeout_s)
    if token_env is not None or model is not None:
        raise ConfigError("--judge-token-env and --judge-model are for --judge-server")
    return None


def split_names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())
