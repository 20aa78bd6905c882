"""`mmrl compare`: two folders of results, question by question."""

from __future__ import annotations

import html
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from mmrl.config.judge_section import WITHOUT_JUDGE
from mmrl.errors import ConfigError, did_you_mean
from mmrl.evaluate.compare import (
    Comparison,
    compare,
    differences,
    file_differences,
    named_apart,
    only_in_one,
    setting_differences,
)
from mmrl.evaluate.result import RESULTS, SCORES, read_scores, uncut

_COLUMNS = ("benchmark", "A", "B", "B - A", "95% interval", "n", "only A", "only B", "p")
_ENDINGS = (".md", ".html")


@dataclass(frozen=True)
class CompareRequest:
    """tasks: of those in both folders; empty: all. anyway: compare also what was not asked alike."""

    a: Path
    b: Path
    tasks: tuple[str, ...] = ()
    out: Path | None = None
    anyway: bool = False


def compare_command(request: CompareRequest) -> int:
    """Print the table, write it to `out`. Returns 0, or 1 when a task of both folders has no numbers in one of them.

    Raises ConfigError, naming what differs, for results that were not made alike, unless told to compare them anyway.
    """
    if request.out is not None and request.out.suffix not in _ENDINGS:
        raise ConfigError(f"--out {request.out}: the table is written as {' or '.join(_ENDINGS)}")
    results = [_read(folder) for folder in (request.a, request.b)]
    tasks = _shared_tasks(request, *(result["benchmarks"] for result in results))
    console = Console(stderr=True, highlight=False, soft_wrap=True, markup=False, emoji=False)
    numberless = [name for name in tasks if any("problem" in result["benchmarks"][name] for result in results)]
    for name in numberless:
        console.print(f"{name}: not compared, for it could not run in one of the folders ({RESULTS} says why)")
    tasks = [name for name in tasks if name not in numberless]
    for name in tasks:
        if named_apart(*(result["benchmarks"][name] for result in results)):
            raise ConfigError(
                f"{name}: one of {request.a} and {request.b} has the judge's score, the other one {WITHOUT_JUDGE}:"
                " these are never compared; score both alike (mmrl evaluate --rescore, --judge-server or --no-judge)"
            )
    scores = {name: [_scores(folder, name) for folder in (request.a, request.b)] for name in tasks}
    found = list(_unequal(results, scores))
    if found and not request.anyway:
        listed = "\n".join(found)
        raise ConfigError(
            f"{listed}\n{request.a} and {request.b} were not made alike; --anyway compares them all the same"
        )
    for line in found:
        console.print(f"differs: {line}")
    rows = [(name, compare(*scores[name])) for name in tasks]
    Console(file=sys.stdout, highlight=False, markup=False, emoji=False).print(_table(rows), crop=False)
    if request.out is not None:
        heading = f"A: {_model(request.a, results[0])}", f"B: {_model(request.b, results[1])}"
        text = (_markdown if request.out.suffix == ".md" else _html)(heading, found, rows)
        request.out.write_text(text, encoding="utf-8")
    return 1 if numberless else 0


def _read(folder: Path) -> dict[str, Any]:
    path = folder / RESULTS
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(f"{folder} is no folder of results: it has no {RESULTS} (mmrl evaluate --out)") from error
    except ValueError as error:
        raise ConfigError(f"{path}: not JSON ({error})") from error
    if not isinstance(found, dict) or not isinstance(found.get("benchmarks"), dict):
        raise ConfigError(f"{path}: no results of mmrl evaluate")
    return found


def _shared_tasks(request: CompareRequest, a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    shared = [name for name in a if name in b]
    if not shared:
        raise ConfigError(f"{request.a} and {request.b} have no benchmark in common: {', '.join(a)}; {', '.join(b)}")
    for name in request.tasks:
        if name not in shared:
            raise ConfigError(f"--tasks: {name!r} is not in both folders{did_you_mean(name, shared)}")
    return list(request.tasks) or shared


def _scores(folder: Path, task: str) -> dict[str, Any]:
    if not (folder / task / SCORES).is_file():
        raise ConfigError(f"{folder / task / SCORES} is missing; mmrl evaluate --rescore writes it anew")
    return read_scores(folder / task)


def _unequal(results: Sequence[Mapping[str, Any]], scores: Mapping[str, Sequence[Any]]) -> Iterator[str]:
    yield from setting_differences(*results)
    for name, of_task in scores.items():
        rows = [result["benchmarks"][name] for result in results]
        lines = [*differences(*rows), *file_differences(*results, task=name), *only_in_one(*of_task)]
        yield from (f"{name}: {line}" for line in lines)


def _model(folder: Path, result: Mapping[str, Any]) -> str:
    model = result.get("model") or {}
    return f"{folder} (model {model.get('path')}, weights {model.get('weights')})"


def _cells(name: str, found: Comparison) -> tuple[str, ...]:
    of_test = ("", "", "") if found.p is None else (str(found.only_a), str(found.only_b), f"{found.p:.2g}")
    interval = f"{100 * found.low:+.1f} to {100 * found.high:+.1f}"
    scores = (f"{100 * found.a:.1f}", f"{100 * found.b:.1f}", f"{100 * found.difference:+.1f}")
    return (name, *scores, interval, str(found.n), *of_test)


def _table(rows: Sequence[tuple[str, Comparison]]) -> Table:
    shown = Table(box=None)
    for name in _COLUMNS:
        shown.add_column(name, justify="left" if name == _COLUMNS[0] else "right", no_wrap=True)
    for row in rows:
        shown.add_row(*_cells(*row))
    return uncut(shown)


def _markdown(heading: Sequence[str], differs: Sequence[str], rows: Sequence[tuple[str, Comparison]]) -> str:
    lines = [" | ".join(_COLUMNS), " | ".join(["---", *["---:"] * (len(_COLUMNS) - 1)])]
    lines += [" | ".join(_cells(*row)) for row in rows]
    notes = [*heading, *(f"differs: {line}" for line in differs)]
    return "\n".join(f"- {note}" for note in notes) + "\n\n" + "\n".join(f"| {line} |" for line in lines) + "\n"


def _html(heading: Sequence[str], differs: Sequence[str], rows: Sequence[tuple[str, Comparison]]) -> str:
    notes = "".join(f"<li>{html.escape(note)}</li>\n" for note in (*heading, *(f"differs: {line}" for line in differs)))
    head = "".join(f"<th>{html.escape(name)}</th>" for name in _COLUMNS)
    body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in _cells(*row))}</tr>\n" for row in rows)
    style = "<style>td{text-align:right} td:first-child{text-align:left} th,td{padding:0 .6em}</style>"
    page = f'<!doctype html>\n<meta charset="utf-8">\n<title>mmrl compare</title>\n{style}\n'
    return f"{page}<ul>\n{notes}</ul>\n<table>\n<tr>{head}</tr>\n{body}</table>\n"
