"""What rewards that execute, compile or render check before a run starts."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from mmrl.errors import ConfigError
from mmrl.scoring.sandbox.walls import require_isolation

# Starting and ending a sandbox, and what the reward does around it.
MARGIN_S = 1.0


def require_sandbox(what: str, options: Mapping[str, Any], *, timeout_s: float) -> None:
    """ConfigError where the walls are too weak, or where `rewards.timeout_s` would cut the sandbox's own limit short.

    what: the reward, for the message. options: its own; `time_limit_s` is the most that all its runs for one
    completion may take, `allow_weak_sandbox` lets it run without some walls.
    """
    longest_s = options["time_limit_s"]
    if longest_s + MARGIN_S > timeout_s:
        raise ConfigError(
            f"{what} may take {longest_s:g} s for a completion, and rewards.timeout_s is {timeout_s:g} s; set "
            f"rewards.timeout_s to at least {longest_s + MARGIN_S:g} or lower the option time_limit_s"
        )
    require_isolation(allow_weak=options["allow_weak_sandbox"], what=what)


def require_program(names: Sequence[str], *, what: str, install: str) -> str:
    """Path of the first of the programs that is there; ConfigError, with how to install one, where none is."""
    for name in names:
        if (path := shutil.which(name)) is not None:
            return path
    raise ConfigError(f"{what} needs {' or '.join(names)}, and this machine has none of them; {install}")


def require_package(module: str, *, what: str, install: str) -> None:
    """ConfigError, with the line that installs it, where a Python package is missing."""
    if find_spec(module) is None:
        raise ConfigError(f"{what} needs the Python package {module!r}; {install}")
