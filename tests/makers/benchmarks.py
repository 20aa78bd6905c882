"""A few rows of every shipped benchmark in its published layout, with made pictures and clips.

The writers are in the modules benchmarks_*.py beside this one: each has `WRITERS`, a function by benchmark's name.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from makers.benchmark_files import ROWS as ROWS

from mmrl.evaluate.benchmark import shipped_benchmarks


def write_benchmarks(root: Path, names: Sequence[str] = ()) -> Path:
    """The files of these benchmarks, or of all shipped ones, in a folder as `--root` names it."""
    writers = _writers()
    for name in names or shipped_benchmarks():
        writers[name](root)
    return root


def _writers() -> dict[str, Callable[[Path], None]]:
    found: dict[str, Callable[[Path], None]] = {}
    for file in sorted(Path(__file__).parent.glob("benchmarks_*.py")):
        writers = import_module(f"makers.{file.stem}").WRITERS
        twice = found.keys() & writers.keys()
        assert not twice, f"{file.name}: {sorted(twice)} have a writer in another module, too"
        found |= writers
    return found
