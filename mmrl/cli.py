"""The `mmrl` command. Bodies import what they need when they run, so that `mmrl --help` answers at once.

Exit codes, of every command:

    0    done
    1    done, and something is not as it should be: a problem that `check` found, media or rows that failed
    2    an error of the user's: one `error:` line, no traceback
    75   `train` was asked to stop (SIGTERM) and wrote a checkpoint; --resume goes on
    130  interrupted by Ctrl-C
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from mmrl import __version__
from mmrl.commands.benchmarks import benchmarks_app
from mmrl.commands.cache import cache_app
from mmrl.commands.interrupt import told_of_interrupt
from mmrl.commands.make_questions import MAKE_QUESTIONS_EXAMPLES, make_questions
from mmrl.commands.make_tasks_options import MAKE_TASKS_EXAMPLES, make_tasks
from mmrl.commands.mixture import mixture_app
from mmrl.commands.options import DEFAULT_CACHE, AsJson, Config, Overrides, example
from mmrl.commands.search_weights_options import SEARCH_WEIGHTS_EXAMPLES, search_weights
from mmrl.commands.weights_options import COMPARE_WEIGHTS_EXAMPLES, MERGE_EXAMPLES, compare_weights, merge
from mmrl.errors import EchoedError, MmrlError

if TYPE_CHECKING:
    from mmrl.data.sample import MediaKind

app = typer.Typer(
    help="Reinforcement-learning fine-tuning of vision-language models.",
    epilog="Exit codes: 0 done, 1 problems found, 2 an error of yours, 75 stopped with a checkpoint, 130 interrupted.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich help pages cost 0.3 s of imports
)
app.add_typer(cache_app, name="cache")
app.add_typer(mixture_app, name="mixture")
app.add_typer(benchmarks_app)


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    if version:
        typer.echo(f"mmrl {__version__}")
        raise typer.Exit


@app.command(epilog=example("mmrl init data/train.jsonl --model /models/Qwen2.5-VL-3B-Instruct > my.yaml"))
def init(
    data: Annotated[Path, typer.Argument(help="Data file or folder")],
    model: Annotated[str | None, typer.Option(help="Model folder to write into the configuration.")] = None,
    card: Annotated[
        str | None, typer.Option(help="Card that reads the rows; default: the shipped one that fits.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="Split of a Hugging Face dataset dictionary.")] = None,
) -> None:
    """Print a commented starter configuration for DATA."""
    from mmrl.commands.starter import init_command

    raise typer.Exit(init_command(data, model=model, card=card, split=split))


@app.command(epilog=example("mmrl check my.yaml --media all", "mmrl check my.yaml --plan --gpus 8 --gpu-mem 80"))
def check(
    config: Config,
    overrides: Overrides = None,
    media: Annotated[Literal["all", "sample", "none"], typer.Option(help="Which media to open.")] = "sample",
    plan: Annotated[bool, typer.Option("--plan", help="Predict tokens, cache and memory; nothing is loaded.")] = False,
    gpus: Annotated[int | None, typer.Option(min=1, help="--plan: GPUs to plan for; default: this machine.")] = None,
    gpu_mem: Annotated[
        float | None, typer.Option(min=0.1, max=10_000.0, help="--plan: GB of each; default: 80.")
    ] = None,
    rows: Annotated[int | None, typer.Option(min=1, help="--plan: only so many rows of each dataset.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="--plan: print JSON, for programs.")] = False,
) -> None:
    """Validate CONFIG and its data; print token counts."""
    from mmrl import api

    if plan:
        raise typer.Exit(api.plan(config, *overrides or (), gpus=gpus, gpu_gb=gpu_mem, rows=rows, as_json=as_json))
    if as_json or any(value is not None for value in (gpus, gpu_mem, rows)):
        raise typer.BadParameter("--gpus, --gpu-mem, --rows and --json belong to --plan")
    raise typer.Exit(api.check(config, *overrides or (), media=media))


@app.command(
    epilog=example(
        "mmrl preprocess my.yaml --workers 16",
        "mmrl preprocess my.yaml --level features --model /models/Qwen2.5-VL-3B-Instruct",
        "mmrl preprocess my.yaml --shard 0/4 --max-gb 500",
    )
)
def preprocess(
    config: Config,
    overrides: Overrides = None,
    rehash: Annotated[bool, typer.Option("--rehash", help="Hash every source file again.")] = False,
    workers: Annotated[int | None, typer.Option(min=1, help="Decoder processes; default: data.decode_workers.")] = None,
    level: Annotated[
        Literal["pixels", "features"] | None,
        typer.Option(help="features: also what the model's frozen vision modules make of them; default: cache.level."),
    ] = None,
    model: Annotated[str | None, typer.Option(help="Model instead of the configuration's model.path.")] = None,
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="I/N|auto", help="This part of the media only, from 0; auto: as torchrun or Slurm number."
        ),
    ] = None,
    max_gb: Annotated[
        float | None, typer.Option("--max-gb", min=0.0, help="Refuse to fill the cache above this; see cache.max_gb.")
    ] = None,
    retry_quarantined: Annotated[
        bool, typer.Option("--retry-quarantined", help="Try again what failed or hung before.")
    ] = False,
    ray: Annotated[bool, typer.Option("--ray", help="Decode on a Ray cluster.")] = False,
) -> None:
    """Store the pixels of all pictures and clips in the cache, or also their features."""
    from mmrl import api

    changes = [*(overrides or ()), *([] if model is None else [f"model.path={model}"])]
    changes += [] if max_gb is None else [f"cache.max_gb={max_gb}"]
    more = {"level": level, "shard": shard, "retry_quarantined": retry_quarantined, "ray": ray}
    raise typer.Exit(api.preprocess(config, *changes, rehash=rehash, workers=workers, **more))


@app.command(
    epilog=example("mmrl train my.yaml rollout.group_size=4 stages.rl.steps=50", "mmrl train my.yaml --resume")
)
def train(
    config: Config,
    overrides: Overrides = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the newest checkpoint.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Delete a run of this name first.")] = False,
) -> None:
    """Fine-tune a model as CONFIG says."""
    if resume and overwrite:
        raise typer.BadParameter("--resume continues a run and --overwrite deletes it; give one of them")
    from mmrl import api

    raise typer.Exit(api.train(config, *overrides or (), resume=resume, overwrite=overwrite))


@app.command("train-reward", epilog=example("mmrl train-reward progress.yaml fit.steps=2000"))
def train_reward(config: Config, overrides: Overrides = None) -> None:
    """Train a reward model on frozen encoders, as CONFIG says."""
    from mmrl.commands.train_reward import train_reward_command

    raise typer.Exit(train_reward_command(config, overrides or ()))


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog=example(
        "mmrl launch --nproc 8 train my.yaml train.zero_stage=2",
        "mmrl launch --nproc 8 --hostfile hosts train my.yaml train.zero_stage=3 --resume",
    ),
)
def launch(
    command: Annotated[list[str], typer.Argument(metavar="train CONFIG [KEY=VALUE]...", help="The command to run")],
    nproc: Annotated[int, typer.Option(min=1, help="Processes on each machine: one a GPU.")],
    hostfile: Annotated[
        Path | None, typer.Option(help="Machines, one `NAME slots=N` a line; DeepSpeed's launcher reaches them by ssh.")
    ] = None,
) -> None:
    """Train in several processes, with one exit code."""
    from mmrl.commands.launch import launch_command

    raise typer.Exit(launch_command(command, processes=nproc, hosts=hostfile))


@app.command(
    "serve-rollouts",
    epilog=example(
        "mmrl serve-rollouts my.yaml --port 8765",
        "mmrl train my.yaml rollout.engine=vllm_server 'rollout.servers.urls=[http://127.0.0.1:8765]'",
    ),
)
def serve_rollouts(
    config: Config,
    overrides: Overrides = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; another than loopback lets other machines in.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: one that is free.")] = 8765,
) -> None:
    """Sample completions for trainings in other processes, with vLLM and the model of CONFIG."""
    from mmrl.commands.serve import serve_command

    raise typer.Exit(serve_command(config, overrides or (), host=host, port=port))


@app.command(
    epilog=example(
        "mmrl score completions.jsonl --config my.yaml --out scored.jsonl",
        "mmrl score --selftest all",
        "mmrl score --fuzz ./my_reward.py --seconds 60",
        "mmrl score --hack-report my.yaml --strict",
    )
)
def score(
    file: Annotated[
        Path | None, typer.Argument(help="JSONL with completion, answer, task and any other column")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="Take the rewards from this run's YAML.")] = None,
    out: Annotated[Path | None, typer.Option(help="Where to write the scored rows; default: standard output.")] = None,
    selftest: Annotated[str | None, typer.Option(metavar="NAME|all", help="Run a reward's golden cases.")] = None,
    fuzz: Annotated[
        str | None, typer.Option(metavar="NAME|all", help="Score malformed, deep and huge completions.")
    ] = None,
    seconds: Annotated[float | None, typer.Option(min=0.0, help="--fuzz: time for each reward; default: 10.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="--fuzz: of the first completion; default: 0.")] = None,
    hack_report: Annotated[
        str | None,
        typer.Option(
            metavar="DATASET|fixtures", help="Score answers given without looking on JSONL rows, or on a YAML's data."
        ),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="--hack-report: exit code 1 for a finding.")] = False,
) -> None:
    """Run the rewards on stored completions, or test the rewards themselves."""
    from mmrl.commands.score import ScoreRequest, score_command

    jobs = {"selftest": selftest, "fuzz": fuzz, "hack_report": hack_report}
    request = ScoreRequest(file, **jobs, config=config, out=out, seconds=seconds, seed=seed, strict=strict)
    raise typer.Exit(score_command(request))


@app.command(
    epilog=example(
        'mmrl generate --model runs/my-run/checkpoints/best/model --image street.jpg --prompt "Where is the dog?"',
        'mmrl generate --model /models/Qwen2.5-VL-3B-Instruct --adapter adapter --video a.mp4 --prompt "..." -n 4',
    )
)
def generate(
    model: Annotated[str, typer.Option(help="Model folder, checkpoint or hub id.")],
    prompt: Annotated[str, typer.Option(help="The question.")],
    image: Annotated[list[str] | None, typer.Option(help="A picture; may be given several times.")] = None,
    video: Annotated[list[str] | None, typer.Option(help="A clip; may be given several times.")] = None,
    adapter: Annotated[Path | None, typer.Option(help="Folder of a LoRA adapter of this model.")] = None,
    n: Annotated[int, typer.Option("-n", min=1, help="Answers; more than one are sampled.")] = 1,
    temperature: Annotated[
        float | None, typer.Option(min=0.0, help="Default: 0 (greedy) for one answer, else 1.")
    ] = None,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Longest answer.")] = 512,
    seed: Annotated[int, typer.Option(help="Of sampling.")] = 0,
    task: Annotated[str | None, typer.Option(help="Use the template this task was trained with.")] = None,
    system: Annotated[str | None, typer.Option(help="System prompt, instead of the trained one.")] = None,
    raw: Annotated[bool, typer.Option("--raw", help="No user template around the question.")] = False,
    draw: Annotated[Path, typer.Option(help="PNG of the media with boxes, points and times.")] = Path("answer.png"),
    dtype: Annotated[Literal["bfloat16", "float32"], typer.Option(help="Type of the weights.")] = "bfloat16",
    engine: Annotated[Literal["hf", "vllm"], typer.Option(help="What decodes (docs/rollout.md).")] = "hf",
    cache: Annotated[Path, typer.Option(help="Pixel cache to use.")] = DEFAULT_CACHE,
) -> None:
    """Ask a model about pictures and clips, under the settings it was trained with."""
    from mmrl.commands.generate import Question, Speaker, generate_command, question_sampling
    from mmrl.config.schema import ModelSection

    media: list[tuple[MediaKind, str]] = []
    media.extend(("image", path) for path in image or ())
    media.extend(("video", path) for path in video or ())
    raise typer.Exit(
        generate_command(
            Speaker.of(ModelSection(path=model, dtype=dtype), adapter, engine),
            Question(prompt, tuple(media), task=task, system=system, template=not raw),
            n=n,
            sampling=question_sampling(n, temperature=temperature, max_new_tokens=max_new_tokens),
            seed=seed,
            cache=cache,
            sheet=draw,
        )
    )


@app.command(epilog=example("mmrl export runs/my-run exported --step best --merge-lora"))
def export(
    run: Annotated[Path, typer.Argument(help="Run folder, or one checkpoint")],
    out: Annotated[Path, typer.Argument(help="Folder to write")],
    step: Annotated[str, typer.Option(help="best, latest or a step's number.")] = "best",
    merge_lora: Annotated[bool, typer.Option("--merge-lora", help="One model of a LoRA adapter and its base.")] = False,
    weights: Annotated[
        Literal["raw", "average"] | None,
        typer.Option(help="Of a run with train.ema_decay; default: average where there is one."),
    ] = None,
) -> None:
    """Write a checkpoint as a folder that transformers and vLLM load."""
    from mmrl.commands.export import export_command

    raise typer.Exit(export_command(run, out, step=step, merge=merge_lora, weights=weights))


app.command("search-weights", epilog=example(*SEARCH_WEIGHTS_EXAMPLES))(search_weights)
app.command("compare-weights", epilog=example(*COMPARE_WEIGHTS_EXAMPLES))(compare_weights)
app.command(epilog=example(*MERGE_EXAMPLES))(merge)
app.command("make-tasks", epilog=example(*MAKE_TASKS_EXAMPLES))(make_tasks)
app.command("make-questions", epilog=example(*MAKE_QUESTIONS_EXAMPLES))(make_questions)


@app.command(epilog=example("mmrl runs", "mmrl runs runs/my-run --json"))
def runs(
    folder: Annotated[Path, typer.Argument(help="Folder of runs, or one run")] = Path("runs"),
    as_json: AsJson = False,
) -> None:
    """List runs: state, steps, best score, the command that goes on."""
    from mmrl.commands.runs import runs_command

    raise typer.Exit(runs_command(folder, as_json=as_json))


@app.command("list", epilog=example("mmrl list rewards", "mmrl list configs --json"))
def list_(
    kind: Annotated[
        Literal["rewards", "methods", "families", "tasks", "datasets", "benchmarks", "readers", "configs", "sandbox"],
        typer.Argument(help="What to list"),
    ],
    as_json: AsJson = False,
) -> None:
    """List what a configuration can name, or what keeps executing rewards in."""
    from mmrl.commands.listing import list_command

    raise typer.Exit(list_command(kind, as_json=as_json))


@app.command(epilog=example("mmrl schema > mmrl.schema.json"))
def schema() -> None:
    """Print the JSON Schema of configuration files, for editors."""
    from mmrl.commands.schema import schema_command

    raise typer.Exit(schema_command())


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the `mmrl` script; always ends by SystemExit with the command's exit code."""
    with told_of_interrupt(sys.argv[1:] if arguments is None else arguments):
        _run(arguments)


def _run(arguments: Sequence[str] | None) -> None:
    try:
        require_platform()
        app(args=arguments, prog_name="mmrl")
    except EchoedError:
        sys.exit(2)
    except MmrlError as error:
        print_error(str(error))
        sys.exit(2)
    except OSError as error:  # a full disk, a folder that may not be written, a file where a folder should be
        print_error(os_problem(error))
        sys.exit(2)


def os_problem(error: OSError) -> str:
    """One line for what the operating system refused.

    >>> os_problem(FileExistsError(17, "File exists", "runs"))
    'runs: File exists'
    """
    if error.filename is None or error.strerror is None:
        return next(iter(str(error).splitlines()), type(error).__name__)
    return f"{error.filename}: {error.strerror}"


def require_platform(
    system: str = sys.platform, machine: str = platform.machine(), python: tuple[int, ...] = sys.version_info[:2]
) -> None:
    """Raise MmrlError, naming what is missing, unless this is Linux x86_64 with Python 3.11 or 3.12."""
    missing = []
    if system != "linux" or machine != "x86_64":
        missing.append(f"Linux on x86_64 (this is {system} on {machine})")
    if python[:2] not in ((3, 11), (3, 12)):
        missing.append(f"Python 3.11 or 3.12 (this is {'.'.join(map(str, python))})")
    if missing:
        raise MmrlError(f"mmrl needs {' and '.join(missing)}")


def print_error(message: str) -> None:
    """`error: ...` on standard error, red on a terminal; each further line is an error of its own."""
    for line in message.splitlines():
        typer.secho(f"error: {line}", fg=typer.colors.RED, err=True)
