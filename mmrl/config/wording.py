"""What a YAML parser and a type checker say, in the words of somebody who writes a configuration."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import yaml

_INDENT = "this line is not indented like its neighbours; entries of one mapping or list start in the same column"
_UNCLOSED = "a bracket or brace is not closed, or a comma is missing"
# What PyYAML reports -> what is likely wrong. The first match counts.
_YAML_HINTS = (
    (r"expected <block end>, but found '<block", _INDENT),
    (r"expected <block end>, but found '([}\]])'", r"`\1` closes nothing"),
    (r"expected <block end>, but found ','", "a `,` outside brackets"),
    (r"expected <block end>", "text after the end of a value; put the whole value in quotes"),
    (
        r"mapping values are not allowed",
        "a `:` too many, or a line indented under a value; put text with `: ` in quotes",
    ),
    (r"cannot start any token.*\\t|character '\\t'", "indent with spaces, not tabs"),
    (r"found character '(.)' that cannot start", r"put text that starts with `\1` in quotes"),
    (r"unexpected end of stream", "a quotation mark is opened and not closed"),
    (r"expected ',' or|expected the node content", _UNCLOSED),
    (
        r"undefined alias '(.*)'",
        r"`*\1` stands for something marked &\1, which is not there; put text with * in quotes",
    ),
    (r"could not find expected ':'", "a line without `key: value`"),
    (r"unknown escape character", "a backslash in double quotes starts an escape; use single quotes"),
    (r"found another document", "a second document (`---`) begins here; a file holds one"),
)
_KINDS: Mapping[str, str] = {
    "tuple_type": "a list, as in [a, b]",
    "list_type": "a list, as in [a, b]",
    "string_type": "text",
    "string_too_short": "a text that is not empty",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "finite_number": "a finite number",
    "dict_type": "a mapping of names, as in {name: ...}",
}
_LONGEST = 80


def yaml_problem(error: yaml.MarkedYAMLError) -> tuple[Any, str]:
    """The mark (line and column, from 0) where the syntax breaks, and what is likely wrong there."""
    said = f"{error.context or ''} {error.problem or ''}"
    mark = error.problem_mark or error.context_mark
    if "could not find expected ':'" in said or "unexpected end of stream" in said:
        mark = error.context_mark or mark  # where the line or the quotation began, not where the file ended
    for pattern, hint in _YAML_HINTS:
        match = re.search(pattern, said)
        if match:
            opened = (
                f" (opened on line {error.context_mark.line + 1})" if hint == _UNCLOSED and error.context_mark else ""
            )
            return mark, match.expand(hint) + opened
    return mark, error.problem or error.context or "unknown syntax"


def type_problem(error: Any, *, keys: list[str]) -> str:
    """The end of `key 'x' ...` for a value of the wrong type. keys: of the section that the value should be."""
    kind = error["type"]
    if kind in ("model_type", "model_attributes_type") or (kind == "dict_type" and keys):
        expected = f"a mapping with the keys {', '.join(keys)}"
    else:
        expected = _KINDS.get(kind) or error["msg"].removeprefix("Input ").removeprefix("should be ")
    return f"should be {expected}, not {_shown(error['input'])}"


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
