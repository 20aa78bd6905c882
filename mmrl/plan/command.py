"""The command `mmrl check --plan`."""

from __future__ import annotations

import json
import sys

from rich.console import Console

from mmrl.config.schema import RunConfig
from mmrl.plan.machine import planned_machine
from mmrl.plan.plan import make_plan
from mmrl.plan.report import plan_json
from mmrl.plan.tables import print_plan

_UNLIMITED = 10_000


def plan_command(
    config: RunConfig,
    *,
    gpus: int | None = None,
    gpu_gb: float | None = None,
    rows: int | None = None,
    as_json: bool = False,
) -> int:
    """Print the plan of a configuration. Returns 0 where it fits, 1 where it does not. Raises ConfigError for a model
    that is not there.
    """
    plan = make_plan(config, planned_machine(gpus, gpu_gb), rows=rows)
    if as_json:
        json.dump(plan_json(plan), sys.stdout, indent=1)
        print()
        return plan.exit_code
    console = Console(soft_wrap=True, highlight=False)
    if not console.is_terminal:
        console.width = _UNLIMITED  # a file or a pipe has no width: a row of a table is one line there
    print_plan(plan, console)
    return plan.exit_code
