"""`mmrl list KIND`: what can be named in a configuration, each with the line that says what it is.

Files are read, not run: the first line of a docstring, or the first sentence of a comment, is the description, so a
listing imports no plug-in.
"""

from __future__ import annotations

import ast
import itertools
import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from mmrl.plugins import PACKAGE_DIR, shipped_dir


@dataclass(frozen=True, slots=True)
class Listed:
    """One name: how a configuration spells it, what it is, and the file that holds it."""

    name: str
    about: str
    file: str


def list_command(kind: str, *, as_json: bool) -> int:
    """Print the entries of a kind as a table or, for programs, as a JSON list. Returns 0."""
    entries = sorted(KINDS[kind](), key=lambda entry: entry.name)
    if as_json:
        json.dump([asdict(entry) for entry in entries], sys.stdout, indent=1, ensure_ascii=False)
        print()
        return 0
    width = max((len(entry.name) for entry in entries), default=0)
    for entry in entries:
        print(f"{entry.name:<{width}}  {entry.about}".rstrip())
    return 0


def _rewards() -> Iterator[Listed]:
    for path in shipped_dir("rewards").glob("*.py"):
        yield Listed(path.stem, _summary(path), _shown(path))


def _methods() -> Iterator[Listed]:
    """Advantages, policy losses and plug-ins, each with the key that takes it in front."""
    from mmrl.algorithms.registry import ADVANTAGES, POLICY_LOSSES

    for key, table in (("advantage", ADVANTAGES), ("policy_loss", POLICY_LOSSES)):
        for name, entry in table.items():
            module, function = entry.function.split(":")
            path = PACKAGE_DIR.parent / Path(*module.split(".")).with_suffix(".py")
            yield Listed(f"{key}: {name}", _summary(path, function), _shown(path))
    for path in shipped_dir("algorithms").glob("*.py"):
        yield Listed(f"plugins: {path.stem}", _summary(path), _shown(path))


def _families() -> Iterator[Listed]:
    from mmrl.models.families import FAMILIES

    for family in FAMILIES.values():
        boxes = family.box_space or "no known space"
        about = f"{', '.join(family.architectures)}; boxes in {boxes}, times in {family.time_space}"
        yield Listed(family.name, about, "mmrl/models/families.py")


def _tasks() -> Iterator[Listed]:
    """Task names that shipped recipes route to rewards."""
    for name, tree in _recipes():
        for task, parts in (tree.get("rewards") or {}).get("tasks", {}).items():
            yield Listed(task, ", ".join(part["reward"] for part in parts), f"configs/{name}")


def _datasets() -> Iterator[Listed]:
    for path in shipped_dir("datasets").glob("*/card.yaml"):
        yield Listed(path.parent.name, _first_comment(path), _shown(path))


def _benchmarks() -> Iterator[Listed]:
    for path in (shipped_dir("datasets") / "benchmarks").glob("*.yaml"):
        yield Listed(path.stem, _first_comment(path), _shown(path))


def _readers() -> Iterator[Listed]:
    from mmrl.data.video import READERS

    for name, module in READERS.items():
        path = PACKAGE_DIR.parent / Path(*module.split(".")).with_suffix(".py")
        yield Listed(name, _summary(path), _shown(path))


def _configs() -> Iterator[Listed]:
    for path in shipped_dir("configs").rglob("*.yaml"):
        yield Listed(str(path.relative_to(shipped_dir("configs"))), _first_comment(path), _shown(path))


def _sandbox() -> Iterator[Listed]:
    """The layers this machine has around what rewards execute, and what they close, as tried."""
    from mmrl.scoring.sandbox.walls import LAYERS, bubblewrap_problem, isolation

    found = isolation()
    folder = "mmrl/scoring/sandbox"
    for name, about in LAYERS.items():
        why = bubblewrap_problem() if name == "bubblewrap" else None
        missing = f"not here: {why or about}"
        yield Listed(f"layer: {name}", f"in use: {about}" if name in found.layers else missing, folder)
    for name in ("files", "network", "processes"):
        state = "open: rewards that execute do not start" if name in found.missing else "closed, as tried"
        yield Listed(f"outside {name}", state, folder)


def _recipes() -> Iterator[tuple[str, dict]]:
    import yaml

    for path in sorted(shipped_dir("configs").rglob("*.yaml")):
        yield str(path.relative_to(shipped_dir("configs"))), yaml.safe_load(path.read_text(encoding="utf-8"))


KINDS: dict[str, Callable[[], Iterator[Listed]]] = {
    "rewards": _rewards,
    "methods": _methods,
    "families": _families,
    "tasks": _tasks,
    "datasets": _datasets,
    "benchmarks": _benchmarks,
    "readers": _readers,
    "configs": _configs,
    "sandbox": _sandbox,
}


def _summary(path: Path, function: str | None = None) -> str:
    """First sentence of a module's docstring, or of one of its functions."""
    node: ast.Module | ast.FunctionDef = ast.parse(path.read_text(encoding="utf-8"))
    if function is not None:
        node = next(n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == function)
    return (ast.get_docstring(node) or "").partition("\n")[0].rstrip(".")


def _first_comment(path: Path) -> str:
    """First sentence of the comment that a file begins with; it may run over several lines, up to an indented one."""
    lines = path.read_text(encoding="utf-8").split("\n")
    prose = itertools.takewhile(lambda line: re.match(r"# \S", line), lines)
    return re.split(r"\.(?:\s|$)", " ".join(line[2:] for line in prose), maxsplit=1)[0].rstrip(":")


def _shown(path: Path) -> str:
    """Relative to the checkout or the installed package."""
    for root in (PACKAGE_DIR.parent, PACKAGE_DIR):
        if path.is_relative_to(root):
            return str(path.relative_to(root))
    return str(path)
