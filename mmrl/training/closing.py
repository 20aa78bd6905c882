"""What a run says at its end: finished, asked to stop, or interrupted. Pure."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Closing:
    """What the closing lines tell of.

    latest, best: checkpoints, each with its score of `watched` (`checkpoint.best`); None where there is none.
    cache: its counts. seconds: per part of the run.
    model: folder of a checkpoint with the model that validations scored.
    unscored: share of the completions of training that no reward could score.
    has_rollouts: whether rollouts.jsonl holds a completion. tensorboard: whether there is a record for it.
    """

    folder: Path
    latest: tuple[Path, float | None]
    best: tuple[Path, float] | None
    watched: str | None
    cache: Mapping[str, float]
    seconds: Mapping[str, float]
    model: str = "model"
    unscored: float = 0.0
    has_rollouts: bool = True
    tensorboard: bool = True


def closing_lines(closing: Closing) -> str:
    """Cache, time, which checkpoints there are and what to try next."""
    return "\n".join([*_counts(closing), *_checkpoints(closing), "try next:", *_next_commands(closing)])


def stopped_line(step: int, checkpoint: Path, *, command: str) -> str:
    """Of a run that was asked to stop, and did."""
    return f"stopped at step {step} on request (SIGTERM); checkpoint: {checkpoint}; go on with `{command}`"


def interrupted_line(step: int, *, saved_step: int, checkpoint: Path | None, command: str) -> str:
    """Of a run that was interrupted after `step` whole steps, of which `saved_step` are in its newest checkpoint.

    >>> interrupted_line(5, saved_step=4, checkpoint=Path("runs/x/checkpoints/step-000004"), command="mmrl train ...")
    'interrupted: step 5 is lost, runs/x/checkpoints/step-000004 is the newest checkpoint; go on with `mmrl train ...`'
    """
    first = saved_step + 1
    lost = f"step {first} is lost" if first == step else f"steps {first} to {step} are lost"
    if step == saved_step:
        lost = "no finished step is lost"
    if checkpoint is None:
        return f"interrupted: {lost}, there is no checkpoint yet (checkpoint.every); begin again with `{command}`"
    return f"interrupted: {lost}, {checkpoint} is the newest checkpoint; go on with `{command}`"


def _counts(closing: Closing) -> Iterator[str]:
    parts = sorted(((s, name) for name, s in closing.seconds.items() if name != "step"), reverse=True)
    yield f"cache: {closing.cache.get('hits', 0):.0f} hits, {closing.cache.get('misses', 0):.0f} misses"
    yield f"seconds: {', '.join(f'{name} {s:.0f}' for s, name in parts)}"
    if closing.unscored:
        yield f"unscored: {percent(closing.unscored)} of the completions got no reward (reward/unscored per step)"
    yield f"run folder: {closing.folder}"


def percent(share: float) -> str:
    """A share as whole per cent; what is neither none nor all does not look so.

    >>> [percent(share) for share in (0.001, 0.456, 0.9999, 1.0)]
    ['under 1 %', '46 %', 'over 99 %', '100 %']
    """
    if 0 < share < 0.01:
        return "under 1 %"
    return "over 99 %" if 0.99 < share < 1 else f"{share:.0%}".replace("%", " %")


def _checkpoints(closing: Closing) -> Iterator[str]:
    latest, score = closing.latest
    if closing.best is not None:
        path, highest = closing.best
        why = "the highest; of equal scores the earliest wins"
        yield f"best checkpoint: {path} ({closing.watched} {highest:.3f}, {why})"
    is_measured = score is not None and math.isfinite(score)
    yield f"latest checkpoint: {latest}" + (f" ({closing.watched} {score:.3f})" if is_measured else "")
    yield (
        f"their {closing.model}/ loads with transformers' from_pretrained; its processor files have the base model's "
        "pixel limits, mmrl export writes a folder whose processor has the training's budgets"
    )


def _next_commands(closing: Closing) -> Iterator[str]:
    folder, (best, _) = str(closing.folder), closing.best or closing.latest
    step = [] if closing.best else ["--step", "latest"]
    yield f'  mmrl generate --model {shlex.quote(str(best / closing.model))} --image PICTURE --prompt "..."'
    yield f"  {shlex.join(['mmrl', 'export', folder, 'exported', *step])}"
    if closing.tensorboard:
        yield f"  {shlex.join(['tensorboard', '--logdir', folder])}"
    if closing.has_rollouts:
        files = [str(closing.folder / name) for name in ("rollouts.jsonl", "resolved.yaml")]
        yield f"  {shlex.join(['mmrl', 'score', files[0], '--config', files[1]])}"
