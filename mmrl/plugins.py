"""Finding shipped files and plug-ins by name. One resolver each; no registration at import time.

A plug-in has three spellings: `name` (shipped), `./file.py:function` (relative to the file that says it) and
`package.module:function`. Worker processes are sent the spelling and resolve it themselves.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import sys
import traceback
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from mmrl.errors import ConfigError, PluginError, did_you_mean, known_names

PACKAGE_DIR = Path(__file__).resolve().parent


def shipped_dir(kind: str) -> Path:
    """Folder of `rewards`, `datasets` or `configs`: beside the package in a checkout, inside it when installed.

    The plug-ins of kind `algorithms` are part of the package: `mmrl/algorithms/plugins`.
    """
    if kind == "algorithms":
        return PACKAGE_DIR / "algorithms" / "plugins"
    for folder in (PACKAGE_DIR.parent / kind, PACKAGE_DIR / "_shipped" / kind):
        if folder.is_dir() and (
            folder.parent != PACKAGE_DIR.parent or (PACKAGE_DIR.parent / "pyproject.toml").exists()
        ):
            return folder
    raise PluginError(f"the shipped folder {kind!r} is missing from this installation; reinstall mmrl")


def shipped_names(kind: str) -> tuple[str, ...]:
    """Names of the shipped plug-ins of a kind: its .py files without suffix, sorted."""
    return tuple(sorted(p.stem for p in shipped_dir(kind).glob("*.py")))


@functools.cache
def load_module(path: Path) -> ModuleType:
    """Import one file by path, under a name that can collide with nothing. Cached by path.

    Raises PluginError, with the line of the file, for a syntax error and for whatever the file raises, SystemExit too.
    """
    spec = importlib.util.spec_from_file_location(f"mmrl_plugin_{path.stem}_{abs(hash(path)):x}", path)
    if spec is None or spec.loader is None:
        raise PluginError(f"{path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module  # dataclasses look their module up while it runs
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise PluginError(f"{error.filename or path}:{error.lineno or 1}: {error.msg}") from error
    except (Exception, SystemExit) as error:  # a plug-in may raise anything, and may even end the process
        raise PluginError(f"{path}:{_line_in(error, str(path))}: plug-in file {_why_not(error)}") from error
    return module


def _line_in(error: BaseException, file: str) -> int:
    """The last line of a file that was at work when an error arose; 1 where none was."""
    return max((f.lineno or 1 for f in traceback.extract_tb(error.__traceback__) if f.filename == file), default=1)


def _why_not(error: BaseException) -> str:
    if isinstance(error, ImportError):
        return f"cannot be imported: {error}"
    return f"raised {type(error).__name__}: {error}"


def find_plugin(spelling: str, *, kind: str, relative_to: Path | None = None, written: str | None = None) -> Path | str:
    """Where a spelling leads, without running it: the path of a file, or the name of an importable module.

    written: what a message shows instead of a spelling that was made absolute.
    Raises PluginError, with the known names, when there is no such plug-in.
    """
    target, _, function = spelling.partition(":")
    if target.endswith(".py"):
        path = Path(target) if Path(target).is_absolute() else (relative_to or Path.cwd()) / target
        if not path.is_file():
            raise PluginError(f"plug-in file {path} does not exist (written {(written or spelling)!r})")
        return path.resolve()
    if function:
        try:
            found = importlib.util.find_spec(target)
        except (ImportError, ValueError):
            found = None
        if found is None:
            raise PluginError(f"plug-in module {target!r} is not installed (written {spelling!r})")
        return target
    path = shipped_dir(kind) / f"{target}.py"
    if not path.is_file():
        known = shipped_names(kind)
        names = known_names(known, listed_by=f"mmrl list {'methods' if kind == 'algorithms' else kind}")
        what = f"reward {spelling!r}" if kind == "rewards" else f"plug-in {spelling!r} in {kind}/"
        raise PluginError(f"unknown {what}; known: {names}{did_you_mean(target, known)}")
    return path


def resolve_module(spelling: str, *, kind: str, relative_to: Path | None = None) -> tuple[ModuleType, str | None]:
    """Module and function name (None for a shipped name) of a plug-in spelling.

    Raises PluginError, with the known names, when there is no such plug-in or its module cannot be imported.
    """
    function = spelling.partition(":")[2] or None
    found = find_plugin(spelling, kind=kind, relative_to=relative_to)
    if isinstance(found, Path):
        return load_module(found), function
    try:
        return importlib.import_module(found), function
    except SyntaxError as error:
        raise PluginError(f"{error.filename or found}:{error.lineno or 1}: {error.msg}") from error
    except (Exception, SystemExit) as error:
        raise PluginError(f"plug-in module {found!r} {_why_not(error)}") from error


def resolve_function(spelling: str, *, kind: str, default: str, relative_to: Path | None = None) -> Callable[..., Any]:
    """The function a spelling names; a shipped name means the file's function called `default`."""
    module, function = resolve_module(spelling, kind=kind, relative_to=relative_to)
    found = getattr(module, function or default, None)
    if not callable(found):
        raise PluginError(f"plug-in {spelling!r}: no function {function or default!r} in {module.__file__}")
    return found


def check_options(function: Callable[..., Any], options: Mapping[str, Any], *, where: str, skip: int = 0) -> None:
    """ConfigError, naming `where`, for an option that a function does not have, lacks, or has with another type.

    skip: how many of its first parameters are no options.
    """
    parameters = dict(list(inspect.signature(function).parameters.items())[skip:])
    known = [n for n, p in parameters.items() if p.kind is not p.VAR_KEYWORD]
    accepts_any = len(known) < len(parameters)
    for name in options:
        if name not in known and not accepts_any:
            listed = ", ".join(known) or "none"
            raise ConfigError(f"{where}: unknown option {name!r}; it has: {listed}{did_you_mean(name, known)}")
    missing = [n for n in known if parameters[n].default is inspect.Parameter.empty and n not in options]
    if missing:
        raise ConfigError(f"{where}: the option {missing[0]!r} must be given")
    if options:  # a function without any may have annotations that cannot be read at run time
        _check_types(function, options, where=where)


def _check_types(function: Callable[..., Any], options: Mapping[str, Any], *, where: str) -> None:
    # Reward workers import this module too, and they need no validation: pydantic stays out of their start.
    from pydantic import TypeAdapter, ValidationError

    hints = typing.get_type_hints(function.__init__ if isinstance(function, type) else function, include_extras=True)
    for name, value in options.items():
        try:
            TypeAdapter(hints.get(name, Any)).validate_python(value, strict=True)
        except ValidationError as error:
            problem = error.errors()[0]["msg"]
            raise ConfigError(f"{where}: option {name!r} is {value!r}: {problem}") from error
