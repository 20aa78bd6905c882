"""The text of a template: its two forms, what can be wrong with it, and what it becomes for a row. Pure.

A text with `{prompt}` is plain: nothing else in it is special, so braces of JSON or LaTeX need no escape. A text with
`{{ prompt }}` is Jinja over the row's columns, in a sandbox: it may read columns, choose and loop over them, and no
more. What a row says is put in and never read as a template.
"""

from __future__ import annotations

import functools
import re
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mmrl.errors import DataError, did_you_mean

if TYPE_CHECKING:
    from jinja2 import Template

PROMPT = "{prompt}"
MAX_CHARACTERS = 200_000
"""The longest text a template may make around a prompt."""

# Names that stand for something made when the prompt is rendered: the row's prompt, and how the model writes places.
HOLES = {"prompt": "prompt", "box_space": "box", "point_space": "point", "time_space": "time"}
# A text of a row cannot hold these: they are drawn when the program starts.
_MARK = f"\ue000{secrets.token_hex(16)}:"
_MARKS = re.compile(f"{_MARK}({'|'.join(HOLES.values())})\ue001")

_JINJA_PROMPT = re.compile(r"\{\{-?\s*prompt\b")
_WHOLE_JINJA_PROMPT = re.compile(r"\{\{-?\s*prompt\s*-?\}\}")
_FILTERS = (
    *("capitalize", "default", "first", "float", "int", "items", "join", "last", "length", "list", "lower", "map"),
    *("reject", "rejectattr", "reverse", "round", "select", "selectattr", "sort", "string", "title", "tojson"),
    *("trim", "unique", "upper"),
)
_METHODS = frozenset(
    ("endswith", "get", "items", "keys", "lower", "lstrip", "rstrip", "split", "startswith", "strip", "upper", "values")
)
_UNDEFINED = re.compile(r"'(\w+)' is undefined")
_FAULTS = (TypeError, ValueError, ArithmeticError, LookupError, AttributeError)


def is_jinja(text: str) -> bool:
    """Whether the text is of the Jinja form.

    >>> is_jinja('{prompt} Reply with {"a": {{1}}}'), is_jinja("{{ prompt }} {% if hint %}{{ hint }}{% endif %}")
    (False, True)
    """
    if _JINJA_PROMPT.search(text):
        return True
    return PROMPT not in text and any(mark in text for mark in ("{{", "{%", "{#"))


def template_problem(text: str) -> str | None:
    """What is wrong with a template whatever the row, as the end of a sentence about it; None: nothing.

    >>> template_problem("{prompt} {prompt}")
    'holds {prompt} 2 times; it must say once where the prompt goes'
    """
    if not is_jinja(text):
        return _plain_problem(text.count(PROMPT))
    from jinja2 import meta

    if PROMPT in _WHOLE_JINJA_PROMPT.sub("", text):
        return f"holds {PROMPT} and {{{{ prompt }}}}; write one of them, once"
    if (problem := row_text_problem(text)) is not None:
        return problem
    if "prompt" not in meta.find_undeclared_variables(_environment().parse(text)):
        return "does not use {{ prompt }}; it must say once where the prompt goes"
    return None


def _plain_problem(count: int) -> str | None:
    if count == 0:
        lost = f"does not contain {PROMPT}, so every question would be lost"
        return f"{lost}; write {PROMPT} where the question belongs"
    return None if count == 1 else f"holds {PROMPT} {count} times; it must say once where the prompt goes"


def template_pieces(text: str, columns: Mapping[str, Any]) -> list[str]:
    """The template for a row: text, hole, text, ..., text. A hole is `prompt`, `box`, `point` or `time`.

    Raises DataError for a column the row lacks, for a template that then holds the prompt not once, and for one that
    grows beyond MAX_CHARACTERS.

    >>> template_pieces("{{ prompt }} Hint: {{ hint }}", {"hint": "look left"})
    ['', 'prompt', ' Hint: look left']
    """
    if not is_jinja(text):
        before, _, after = text.partition(PROMPT)
        return [before, "prompt", after]
    pieces = _MARKS.split(_rendered(text, columns, {name: f"{_MARK}{hole}\ue001" for name, hole in HOLES.items()}))
    count = pieces[1::2].count("prompt")
    if count != 1:
        raise DataError(
            f"the template {_short(text)} holds the prompt {count} times for this row; it must hold it once, as it is"
        )
    return pieces


def row_text(text: str, columns: Mapping[str, Any]) -> str:
    """The text of Jinja over the columns alone; `row["any name"]` is the column of that name. DataError as above.

    >>> row_text("{{ row['video ID'] }}.mp4", {"video ID": "a7"})
    'a7.mp4'
    """
    return _rendered(text, columns, {"row": columns})


def row_text_problem(text: str) -> str | None:
    """What is wrong with such a text whatever the row; None: nothing."""
    from jinja2 import TemplateSyntaxError

    try:
        _compiled(text)
    except TemplateSyntaxError as error:
        return f"is not valid Jinja (line {error.lineno}: {error.message})"
    return None


def _rendered(text: str, columns: Mapping[str, Any], more: Mapping[str, Any]) -> str:
    from jinja2 import TemplateError

    rendered: list[str] = []
    length = 0
    try:
        for piece in _compiled(text).generate({**columns, **more}):
            length += len(piece)
            if length > MAX_CHARACTERS:
                raise DataError(f"the template {_short(text)} makes more than {MAX_CHARACTERS} characters of this row")
            rendered.append(piece)
    except DataError:
        raise
    except (TemplateError, *_FAULTS) as error:
        present = ", ".join(columns) or "none"
        undefined = _UNDEFINED.fullmatch(str(error))
        name = undefined[1] if undefined else ""
        remedy = f'; write {{{{ {name} | default("") }}}} if rows may lack it' if undefined else ""
        near = did_you_mean(name, columns)
        raise DataError(f"the template {_short(text)}: {error}{remedy}; columns present: {present}{near}") from error
    return "".join(rendered)


@functools.lru_cache(maxsize=256)
def _compiled(text: str) -> Template:
    return _environment().from_string(text)


@functools.cache
def _environment() -> Any:
    """Jinja without what could run away: no ranges, macros, includes or multiplied texts, and few filters."""
    from jinja2 import StrictUndefined
    from jinja2.exceptions import SecurityError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Sandbox(ImmutableSandboxedEnvironment):
        intercepted_binops = frozenset(("*", "**", "%"))

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            raise SecurityError(f"the operator {operator} is not available in a template")

        def is_safe_callable(self, obj: Any) -> bool:
            if isinstance(obj, StrictUndefined):
                return True  # calling it says which name is undefined
            return getattr(obj, "__name__", None) in _METHODS and super().is_safe_callable(obj)

    environment = Sandbox(
        undefined=StrictUndefined, autoescape=False, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    environment.globals.clear()
    environment.filters = {name: environment.filters[name] for name in _FILTERS}
    return environment


def _short(text: str) -> str:
    first = " ".join(text.split())
    return repr(first if len(first) <= 50 else f"{first[:47]}...")
