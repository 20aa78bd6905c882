"""What several commands of the command line share: arguments, options and the form of help pages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Config = Annotated[Path, typer.Argument(metavar="CONFIG", help="YAML file of the run")]
Overrides = Annotated[
    list[str] | None, typer.Argument(metavar="KEY=VALUE", help="e.g. rollout.group_size=4 stages.0.steps=10")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
DEFAULT_CACHE = Path(".mmrl_cache")


def example(*lines: str) -> str:
    """The end of a help page. The mark keeps the lines from being joined."""
    return "\b\nExample:\n" + "\n".join(f"  {line}" for line in lines)
