"""The Python that sandboxed programs get: this one's interpreter and standard library, and packages named one by one.

The folder of installed packages is hidden, so that a program finds neither this repository nor what the environment
happens to hold.
"""

from __future__ import annotations

import functools
import os
import re
import sys
import sysconfig
from importlib import metadata
from pathlib import Path

from mmrl.errors import ConfigError
from mmrl.scoring.sandbox.job import Tree

_PACKAGE_FOLDERS = ("site-packages", "dist-packages")


@functools.cache
def interpreter() -> str:
    """The real interpreter behind a virtual environment's link."""
    return os.path.realpath(sys.executable)


def python_command(code: str) -> tuple[str, ...]:
    """The argv that runs a program given as text. Long programs belong into a file: an argument holds 128 kB."""
    return (interpreter(), "-s", "-S", "-P", "-B", "-c", code)


def python_script(name: str, *arguments: str) -> tuple[str, ...]:
    """The argv that runs a file of the scratch folder."""
    return (interpreter(), "-s", "-S", "-P", "-B", name, *arguments)


@functools.cache
def python_trees() -> tuple[Tree, ...]:
    """Interpreter, shared library and standard library."""
    library = Path(sysconfig.get_path("stdlib")).resolve()
    shared = Path(sysconfig.get_config_var("LIBDIR") or library) / (sysconfig.get_config_var("INSTSONAME") or "")
    found = [Tree(Path(interpreter())), Tree(library, hidden=_PACKAGE_FOLDERS)]
    if shared.is_file():
        found.append(Tree(shared.resolve().parent / shared.name))
    return tuple(found)


@functools.cache
def package_trees(*distributions: str) -> tuple[tuple[Tree, ...], str]:
    """What the distributions and all they require have installed, and the folder to put on PYTHONPATH.

    Raises ConfigError for one that is not installed.
    """
    wanted, seen = list(distributions), set()
    trees: dict[Path, Tree] = {}
    while wanted:
        name = re.sub(r"[-_.]+", "-", wanted.pop()).lower()
        if name not in seen:
            seen.add(name)
            found = _distribution(name, required=name in distributions)
            if found is not None:
                trees |= {path: Tree(path) for path in _top_level(found)}
                wanted += [m[0] for r in found.requires or () if "extra ==" not in r and (m := re.match(r"[\w.-]+", r))]
    names = (Tree(_site_folder(), names_only=True),) if trees else ()
    return (*names, *trees.values()), str(_site_folder())


def _distribution(name: str, *, required: bool) -> metadata.Distribution | None:
    """None for a requirement of another platform or Python version, which is not installed."""
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError as error:
        if not required:
            return None
        raise ConfigError(f"the package {name!r} is not installed here; pip install {name}") from error


def _top_level(found: metadata.Distribution) -> set[Path]:
    folder = _site_folder()
    tops = {file.parts[0] for file in found.files or () if file.parts[0] not in ("..", "__pycache__")}
    return {folder / top for top in tops if (folder / top).exists()}


def _site_folder() -> Path:
    return Path(sysconfig.get_path("purelib"))
