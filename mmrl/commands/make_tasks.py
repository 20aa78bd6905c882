"""`mmrl make-tasks KIND FOLDER OUT`: what it prints; the work is `mmrl.data.make_tasks`."""

from __future__ import annotations

import re
from collections import Counter

from mmrl.data.make_tasks.kinds import find_kind, resolved
from mmrl.data.make_tasks.make import Made, Request, make_tasks
from mmrl.errors import ConfigError

_REASONS_SHOWN = 5


def make_tasks_command(request: Request) -> int:
    """Make the rows and say what was made. Returns 0; 1 where media could not be opened."""
    made = make_tasks(request)
    for line in report(request, made):
        print(line)
    return 1 if made.failed else 0


def report(request: Request, made: Made) -> list[str]:
    """Rows, skips by reason, and what to do next."""
    kind = find_kind(request.kind)
    counts = ", ".join(f"{split}.jsonl {count} rows" for split, count in made.rows.items())
    lines = [f"{request.out}: {counts}, of {made.sources} sources ({kind.summary})"]
    chance = kind.chance(resolved(request.kind, request.options))
    lines.append(f"reward: {kind.reward}; blind guessing scores {chance}")
    if made.skipped:
        lines.append(f"{len(made.skipped)} skipped, see {request.out / 'skipped.jsonl'}:")
        reasons = Counter(re.sub(r"\d+(\.\d+)?", "N", skip["reason"]) for skip in made.skipped)
        first = {re.sub(r"\d+(\.\d+)?", "N", skip["reason"]): skip for skip in reversed(made.skipped)}
        for reason, count in reasons.most_common(_REASONS_SHOWN):
            lines.append(f"  {count} like {first[reason]['source']}: {first[reason]['reason']}")
    lines.append(f"next: set model.path in {request.out / 'run.yaml'}, then mmrl check {request.out / 'run.yaml'}")
    return lines


def parse_grid(text: str | None) -> tuple[int, int] | None:
    """`3x3` as rows and columns.

    >>> parse_grid("2x4")
    (2, 4)
    """
    if text is None:
        return None
    match = re.fullmatch(r"(\d{1,3})x(\d{1,3})", text.strip().lower())
    if match is None:
        raise ConfigError(f"--grid {text!r} is not ROWSxCOLUMNS, such as 3x3")
    return int(match[1]), int(match[2])
