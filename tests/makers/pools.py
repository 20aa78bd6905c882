"""Pools of rows for `draw` hooks: rows with a pass rate and a task each, drawn through the training loader."""

from pathlib import Path

from makers.rows import read, text_rows, write_jsonl

from mmrl.data.loader import Draw, Loader
from mmrl.data.sample import Sample


def loader_of(folder: Path, rates: list[float | None], *, tasks: list[str] | None = None) -> Loader:
    """A loader over a row per rate (column `pass_rate`), of the task t unless they are given.

    A second call for the same folder reads the rows that are there.
    """
    rows = text_rows(len(rates))
    for row, rate, task in zip(rows, rates, tasks or ["t"] * len(rates), strict=True):
        row |= {"pass_rate": rate, "task": task}
    path = folder / "a.jsonl"
    samples = read(path if path.is_file() else write_jsonl(path, rows))
    return Loader([samples], weights=[1.0], mixture="concat", shuffle=True, seed="0/")


def drawing(loader: Loader, draw: Draw) -> Loader:
    loader.draw_by(draw)
    return loader


def numbers(samples: list[Sample]) -> list[int]:
    """The rows' numbers from 0."""
    return [int(sample.sample_id.partition(":")[2]) - 1 for sample in samples]
