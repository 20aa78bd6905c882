"""What several commands of the command line share: arguments, options and the form of help pages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

Config = Annotated[Path, typer.Argument(metavar="CONFIG", help="YAML file of the run")]
Overrides = Annotated[
    list[str] | None, typer.Argument(metavar="KEY=VALUE", help="e.g. rollout.group_size=4 stages.0.steps=10")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
DEFAULT_CACHE = Path(".mmrl_cache")

# Commands that have many questions answered.
Answering = Annotated[
    Literal["hf", "vllm", "openai"], typer.Option(help="What answers (docs/rollout.md); openai: --server.")
]
Servers = Annotated[list[str] | None, typer.Option(help="Server that answers, up to /v1; may be given several times.")]
ServerModel = Annotated[str | None, typer.Option(help="The model's name there; default: as given here.")]
TokenEnv = Annotated[str | None, typer.Option(help="Environment variable of the servers' token.")]
Seed = Annotated[int, typer.Option(help="Of sampling.")]
Batch = Annotated[int, typer.Option(min=1, help="Questions that an engine has at once.")]
Engines = Annotated[int, typer.Option(min=1, help="Engines on this machine: one a GPU.")]
Decoders = Annotated[int, typer.Option(min=0, help="Decoder processes; 0: one per core.")]
WeightType = Annotated[Literal["bfloat16", "float32"], typer.Option(help="Type of the weights.")]
SharedCache = Annotated[Path, typer.Option(help="Pixel cache, shared with training.")]
RetryFailed = Annotated[bool, typer.Option("--retry-failed", help="Ask again what failed before.")]


def example(*lines: str) -> str:
    """The end of a help page. The mark keeps the lines from being joined."""
    return "\b\nExample:\n" + "\n".join(f"  {line}" for line in lines)
