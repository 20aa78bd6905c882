"""Formulas as KaTeX understands them: LaTeX becomes MathML, and formulas are compared by it.

KaTeX runs in an embedded JavaScript engine (QuickJS) that has no files, network or processes, within limits of time,
memory and expanded macros. Its script comes from the package sphinxcontrib-katex.
"""

from __future__ import annotations

import functools
import json
import re
import threading
from collections.abc import Callable
from importlib import metadata
from importlib.util import find_spec
from typing import Any

from mmrl.errors import ConfigError

_INSTALL = "pip install 'mmrl[latex]'"
_SCRIPT = "katex.min.js"
_SECONDS, _MEMORY_BYTES, _LONGEST = 2, 128_000_000, 20_000
OPTIONS = 'displayMode: true, strict: "ignore", trust: false, maxExpand: 1000, maxSize: 100'
"""KaTeX's, as JavaScript: no links, pictures or attributes from the formula, and an end to its macros."""

_CALL = """
(latex) => {
  try {
    return JSON.stringify(katex.renderToString(latex, {OPTIONS, output: "mathml"}));
  } catch (error) {
    if (error instanceof katex.ParseError) return "null";
    throw error;
  }
}
""".replace("OPTIONS", OPTIONS)
_ANNOTATION = re.compile(r"<annotation\b.*?</annotation>", re.DOTALL)
_MATH = re.compile(r"<math\b[^>]*>(.*)</math>", re.DOTALL)
_ALONE = re.compile(r"<mrow>(<(m[ino])\b[^<]*</\2>)</mrow>")
_engines = threading.local()


def require_katex(what: str) -> None:
    """ConfigError, with the line that installs it, where the engine or KaTeX is missing. what: who asks."""
    if find_spec("quickjs") is None:
        raise ConfigError(f"{what} needs the Python package 'quickjs-ng'; {_INSTALL}")
    try:
        katex_script()
    except metadata.PackageNotFoundError as error:
        raise ConfigError(f"{what} needs KaTeX from the Python package 'sphinxcontrib-katex'; {_INSTALL}") from error


@functools.lru_cache(4096)
def mathml(latex: str) -> str | None:
    r"""Content MathML of a formula, without its source and without white space; None for what KaTeX refuses.

    None too for what exceeds 2 seconds, 128 MB or 20,000 characters. Environments and macros are KaTeX's.

    >>> mathml("x^{2}") == mathml("x ^ 2"), mathml(r"\frac{1}{") is None
    (True, True)
    """
    import quickjs

    if len(latex) > _LONGEST or "\0" in latex:
        return None
    try:
        # As JSON, since the binding does not know the ropes that QuickJS keeps concatenated strings in.
        html = json.loads(_engine()(latex.encode("utf-8", "replace").decode()))
    except quickjs.JSException:
        _engines.__dict__.clear()  # an engine that ran out of memory or time may be in any state
        return None
    found = _MATH.search(_ANNOTATION.sub("", html)) if html else None
    return _ALONE.sub(r"\1", "".join(found[1].split())) if found else None


def same_formula(found: str, wanted: str, *, contains: bool = False) -> bool:
    r"""Whether two formulas render alike. contains: it suffices that the wanted one is a part of the found one.

    The `contains` form is olmOCR's first test of a formula. Formulas that KaTeX refuses are equal only as texts.

    >>> same_formula(r"\frac ab", r"\frac{a}{b}"), same_formula("x+y", "y"), same_formula("x+y", "y", contains=True)
    (True, False, True)
    """
    if found.strip() == wanted.strip():
        return True
    rendered, reference = mathml(found), mathml(wanted)
    if rendered is None or reference is None:
        return False
    return rendered == reference or (contains and _inner(reference) in rendered)


def _inner(rendered: str) -> str:
    """Without what wraps a formula as a whole."""
    inside = re.fullmatch(r"<semantics><mrow>(.*)</mrow></semantics>", rendered, re.DOTALL)
    return inside[1] if inside else rendered.removeprefix("<semantics>").removesuffix("</semantics>")


def _engine() -> Callable[[str], str]:
    """The thread's engine, with KaTeX loaded; QuickJS serves only the thread that made it."""
    if not hasattr(_engines, "call"):
        _engines.call = _new_engine()
    return _engines.call


def _new_engine() -> Any:
    import quickjs

    context = quickjs.Context()
    context.set_memory_limit(_MEMORY_BYTES)
    context.set_time_limit(_SECONDS)
    context.eval(katex_script())
    return context.eval(_CALL)


def katex_script() -> str:
    """KaTeX itself, as JavaScript that defines `katex`. metadata.PackageNotFoundError where it is missing."""
    for file in metadata.files("sphinxcontrib-katex") or ():
        if file.name == _SCRIPT:
            return file.read_text(encoding="utf-8")
    raise metadata.PackageNotFoundError("sphinxcontrib-katex")
