"""`make_tasks`: a folder of media becomes rows with exact answers, a card, and a configuration to start from.

Written to OUT: train.jsonl (and val.jsonl), media/, card.yaml, run.yaml, skipped.jsonl and made.json, which holds what
was asked for. The folder is built beside OUT and renamed, so a half-made one is never taken for a whole one.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from mmrl import __version__
from mmrl.data.make_tasks.kinds import Kind, find_kind, resolved
from mmrl.data.make_tasks.puzzle import (
    ROW_COLUMNS,
    Maker,
    Making,
    MediaFolder,
    Puzzle,
    Source,
    TaskOptions,
    Turns,
    UnusableError,
    generator,
)
from mmrl.errors import ConfigError, DataError, MediaError

MARK = "made.json"


@dataclass(frozen=True)
class Request:
    """What to make. epochs: versions of each source, each shuffled anew. val_share: of the sources, held out."""

    kind: str
    folder: Path
    out: Path
    options: TaskOptions = field(default_factory=TaskOptions)
    seed: int = 0
    epochs: int = 1
    val_share: float = 0.0
    overwrite: bool = False


@dataclass
class Made:
    """What came of it. rows: by split. skipped: (source, version, reason). failed: media that could not be opened."""

    sources: int = 0
    rows: Counter[str] = field(default_factory=Counter)
    skipped: list[dict[str, Any]] = field(default_factory=list)
    failed: int = 0

    def skip(self, name: str, reason: str, *, version: int | None = None) -> None:
        self.skipped.append({"source": name, "version": version, "reason": reason})


def make_tasks(request: Request) -> Made:
    """Make the rows of a request. ConfigError for what cannot be asked, DataError where no source makes a puzzle."""
    kind, options = find_kind(request.kind), resolved(request.kind, request.options)
    _check_places(request)
    made = Made()
    sources, passed_over = kind.find(request.folder, options)
    made.sources = len(sources) + len(passed_over)
    for name, reason in passed_over:
        made.skip(name, reason)
    building = request.out.with_name(f".building-{request.out.name}")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(parents=True)
    try:
        for split, part in _splits(sources, request).items():
            _write_split(building, split, part, kind=kind, options=options, request=request, made=made)
        if not made.rows["train"]:
            first = made.skipped[0] if made.skipped else {"source": request.folder, "reason": "no sources"}
            raise DataError(
                f"{request.folder}: none of {made.sources} sources makes a training row; the first: "
                f"{first['source']}: {first['reason']}"
            )
        _write_rest(building, kind, options=options, request=request, made=made)
        if request.out.exists():
            shutil.rmtree(request.out)
        building.rename(request.out)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return made


def _check_places(request: Request) -> None:
    folder, out = request.folder.absolute(), request.out.absolute()
    if not folder.exists():
        raise ConfigError(f"{request.folder}: no such file or folder")
    if folder.is_dir() and (out == folder or out.is_relative_to(folder)):
        raise ConfigError(f"{request.out} lies inside {request.folder}: its media would become sources; name another")
    if out.is_dir() and any(out.iterdir()):
        if not request.overwrite:
            raise ConfigError(f"{request.out} holds files already; name another folder, or give --overwrite")
        if not (out / MARK).is_file():
            raise ConfigError(f"{request.out} was not written by make-tasks (no {MARK}), so it is not overwritten")
    elif out.exists() and not out.is_dir():
        raise ConfigError(f"{request.out} is a file; name a folder")


def _splits(sources: Sequence[Source], request: Request) -> dict[str, list[Source]]:
    """Sources of `train` and `val`; no source is in both."""
    held_out = round(request.val_share * len(sources))
    if request.val_share and not 0 < held_out < len(sources):
        raise ConfigError(f"--val-share {request.val_share:g} of {len(sources)} sources leaves one side empty")
    order = np.random.default_rng(request.seed).permutation(len(sources))[:held_out].tolist()
    chosen = set(order)
    parts = {"train": [source for n, source in enumerate(sources) if n not in chosen]}
    return parts | ({"val": [sources[n] for n in sorted(chosen)]} if chosen else {})


def _write_split(
    out: Path, split: str, sources: Sequence[Source], *, kind: Kind, options: TaskOptions, request: Request, made: Made
) -> None:
    try:
        maker = kind.maker(sources, options)
    except UnusableError as error:
        raise DataError(f"{request.folder}, {split}: {error}") from error
    turns, media = Turns(generator(request.seed, 0, split)), MediaFolder(out)
    with ExitStack() as stack:
        file: TextIO = stack.enter_context((out / f"{split}.jsonl").open("w", encoding="utf-8"))
        for version in range(1, request.epochs + 1):
            for source in sources:
                making = Making(version, generator(request.seed, version, source.name), turns, media)
                for puzzle in _puzzles(maker, source, making, made):
                    row = _row(puzzle, source, version=version, request=request)
                    file.write(json.dumps(row, ensure_ascii=False) + "\n")
                    made.rows[split] += 1


def _puzzles(maker: Maker, source: Source, making: Making, made: Made) -> Iterator[Puzzle]:
    """The puzzles of one source; what makes none is counted with its reason."""
    try:
        for puzzle in maker(source, making):
            if isinstance(puzzle, Puzzle):
                yield puzzle
            else:
                made.skip(source.name, str(puzzle), version=making.version)
    except UnusableError as error:
        made.skip(source.name, str(error), version=making.version)
    except MediaError as error:
        made.failed += 1
        made.skip(source.name, str(error), version=making.version)


def _row(puzzle: Puzzle, source: Source, *, version: int, request: Request) -> dict[str, Any]:
    parts = (source.name, puzzle.name, f"v{version}" if request.epochs > 1 else "")
    own = {
        "id": ":".join(filter(None, parts)),
        "problem": puzzle.prompt,
        "answer": puzzle.answer,
        "images": list(puzzle.images),
        "videos": list(puzzle.videos),
        "task": request.kind,
        "version": version,
    }
    assert not own.keys() & puzzle.columns.keys() and own.keys() == set(ROW_COLUMNS)
    return own | dict(puzzle.columns)


def _write_rest(out: Path, kind: Kind, *, options: TaskOptions, request: Request, made: Made) -> None:
    import yaml

    def write(name: str, text: str) -> None:
        (out / name).write_text(text, encoding="utf-8")

    write("card.yaml", _card(kind, options, request))
    head = "# Set model.path, then: mmrl check run.yaml, mmrl preprocess run.yaml, mmrl train run.yaml\n"
    write("run.yaml", head + yaml.safe_dump(_configuration(kind, request, made), sort_keys=False, width=120))
    write("skipped.jsonl", "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in made.skipped))
    given = {name: value for name, value in asdict(options).items() if value is not None}
    record = {
        "kind": request.kind,
        "folder": str(request.folder.absolute()),
        "options": given,
        "seed": request.seed,
        "epochs": request.epochs,
        "val_share": request.val_share,
        "rows": dict(made.rows),
        "skipped": len(made.skipped),
        "mmrl": __version__,
    }
    write(MARK, json.dumps(record, indent=1) + "\n")


def _card(kind: Kind, options: TaskOptions, request: Request) -> str:
    shown = f", demonstration: {kind.demonstration}" if kind.demonstration else ""
    lines = [
        f"# Rows of `mmrl make-tasks {request.kind}`: {kind.summary}.",
        f"# Reward: {kind.reward}; blind guessing scores {kind.chance(options)}.",
        "columns:",
        f"  {{prompt: problem, answer: answer, images: images, videos: videos, task: task, id: id{shown}}}",
        'image_placeholder: "<image>"',
        'video_placeholder: "<video>"',
    ]
    if kind.modality:
        lines.append(f"modality: {kind.modality}")
    return "\n".join(lines) + "\n"


def _configuration(kind: Kind, request: Request, made: Made) -> dict[str, Any]:
    data: dict[str, Any] = {"train": [{"path": "train.jsonl", "card": "./card.yaml"}]}
    if made.rows["val"]:
        data["val"] = [{"path": "val.jsonl", "card": "./card.yaml", "name": "held_out"}]
    if kind.template is not None:
        data["user_template"] = kind.template
    prompts = min(8, made.rows["train"])
    return {
        "name": request.kind,
        "model": {"path": "FILL_IN"},
        "budgets": {name: dict(budget) for name, budget in kind.budgets.items()},
        "data": data,
        "rewards": {"tasks": {request.kind: [{"reward": kind.reward}]}},
        "rollout": {"group_size": 8, "max_new_tokens": kind.max_new_tokens},
        "stages": [{"name": "rl", "kind": "grpo", "steps": 100, "prompts_per_step": prompts, "lr": 1.0e-6}],
    }
