"""YAML files read into trees in which every key remembers the file and line, or the override, that wrote it.

Scalars follow the YAML 1.2 core schema: `1e-6` is a float, `yes` and `2024-01-01` are text, `010` is ten.

>>> apply_override(Node({}, Origin()), "rollout.group_size=4").plain()
{'rollout': {'group_size': 4}}
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from mmrl.config.wording import yaml_problem
from mmrl.errors import ConfigError

Key = str | int
Loc = tuple[Key, ...]

_TAG = "tag:yaml.org,2002:"
_CORE_SCALARS = (
    ("bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), "tTfF"),
    ("int", re.compile(r"^(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$"), "-+0123456789"),
    (
        "float",
        re.compile(
            r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
        ),
        "-+.0123456789",
    ),
    ("null", re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""]),
    ("merge", re.compile(r"^(?:<<)$"), "<"),
)


# Values that a file may stand for by aliases. Without any it never has more values than characters.
_MOST_VALUES = 100_000


class _CoreLoader(yaml.SafeLoader):
    yaml_implicit_resolvers = {}  # noqa: RUF012 (PyYAML's own class attribute; replaced, not shared)

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.values_left = max(_MOST_VALUES, len(text))


class CoreDumper(yaml.SafeDumper):
    """Quotes text that either YAML 1.1 or the core schema would read as something else, so any reader agrees."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_str(self, data: str) -> yaml.ScalarNode:
        # Unquoted or single-quoted, a next-line character would be read back as a newline; here it is escaped.
        style = '"' if "\x85" in data else None
        return self.represent_scalar(_TAG + "str", data, style=style)


CoreDumper.add_representer(str, CoreDumper.represent_str)

for _name, _pattern, _first in _CORE_SCALARS:
    for _class in (_CoreLoader, CoreDumper):
        _class.add_implicit_resolver(_TAG + _name, _pattern, list(_first))


@dataclass(frozen=True, slots=True)
class Origin:
    """Who wrote a value: a line of a file, an override on the command line, or nobody (a default)."""

    file: Path | None = None
    line: int | None = None
    override: str | None = None

    @property
    def folder(self) -> Path:
        """What relative paths in the value start from: the file's folder; for an override, the current one."""
        return self.file.parent if self.file else Path.cwd()

    def __str__(self) -> str:
        if self.override is not None:
            return f"override {self.override!r}"
        return f"{shown(self.file)}:{self.line}" if self.file else "default"


@dataclass(frozen=True, slots=True)
class Node:
    """A value and its origin. `value` is a dict of Nodes, a list of Nodes or a scalar.

    written: the text as it was written, where `value` is a path that was made absolute.
    """

    value: Any
    origin: Origin
    written: str | None = None

    def plain(self) -> Any:
        """The value as ordinary Python data."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value

    def child(self, key: Key) -> Node | None:
        if isinstance(self.value, dict):
            return self.value.get(key)
        if isinstance(self.value, list) and isinstance(key, int) and key < len(self.value):
            return self.value[key]
        return None

    def at(self, loc: Sequence[Key]) -> Node:
        """The node at `loc`, or the deepest one on the way to it."""
        node = self
        for key in loc:
            found = node.child(key)
            if found is None:
                break
            node = found
        return node


def as_node(value: Any, origin: Origin) -> Node:
    """Plain data as a tree with one origin throughout."""
    if isinstance(value, dict):
        return Node({key: as_node(inner, origin) for key, inner in value.items()}, origin)
    if isinstance(value, list):
        return Node([as_node(inner, origin) for inner in value], origin)
    return Node(value, origin)


def shown(path: Path) -> str:
    """How messages name a file: relative to the current folder when it lies below it."""
    cwd = Path.cwd()
    return os.path.relpath(path, cwd) if path.is_relative_to(cwd) else str(path)


def dotted(loc: Sequence[Key]) -> str:
    return ".".join(map(str, loc))


def read_yaml(path: Path) -> Node:
    """The tree of one file, without its `base`. An empty file is an empty mapping.

    Raises ConfigError, with file and line, for a missing file, bad syntax, a duplicate key or a non-mapping.
    """
    path = Path.cwd() / os.path.normpath(path)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{shown(path)}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise ConfigError(f"{shown(path)}:{line}: not UTF-8 text; save the file as UTF-8") from error
    node = parse_yaml(text, Origin(file=path, line=1))
    if node.value is None:
        return Node({}, node.origin)
    if not isinstance(node.value, dict):
        raise ConfigError(f"{node.origin}: a configuration is a mapping of keys, not {kind_of(node.value)}")
    return node


def parse_yaml(text: str, origin: Origin) -> Node:
    """The tree of a YAML text; lines count from the origin's file, an override has no lines."""
    try:
        loader = _CoreLoader(text)
        root = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        mark, problem = yaml_problem(error)
        at = (
            f"{_origin_at(origin, mark)}: not valid YAML at column {mark.column + 1}" if mark else f"{origin}: not YAML"
        )
        raise ConfigError(f"{at}: {problem}") from error
    except RecursionError as error:
        raise ConfigError(f"{origin}: brackets are nested too deeply") from error
    except yaml.reader.ReaderError as error:
        at = Origin(origin.file, text[: error.position].count("\n") + 1) if origin.file else origin
        raise ConfigError(f"{at}: not valid YAML: character {error.character!r} is not allowed") from error
    return _convert(root, origin=origin, loader=loader, open_nodes=()) if root else Node(None, origin)


def _origin_at(origin: Origin, mark: Any) -> Origin:
    return Origin(file=origin.file, line=mark.line + 1) if origin.file else origin


def _convert(node: yaml.Node, *, origin: Origin, loader: _CoreLoader, open_nodes: tuple[yaml.Node, ...]) -> Node:
    at = _origin_at(origin, node.start_mark)
    if node in open_nodes:
        raise ConfigError(f"{at}: an alias contains itself")
    loader.values_left -= 1
    if loader.values_left < 0:
        raise ConfigError(f"{at}: aliases (*name) of aliases stand for too many values; write out what is meant")
    inner = (*open_nodes, node)
    if isinstance(node, yaml.SequenceNode):
        return Node([_convert(n, origin=origin, loader=loader, open_nodes=inner) for n in node.value], at)
    if isinstance(node, yaml.MappingNode):
        return Node(_convert_mapping(node, origin=origin, loader=loader, open_nodes=inner), at)
    assert isinstance(node, yaml.ScalarNode)
    return Node(_scalar(node, at), at)


def _convert_mapping(
    mapping: yaml.MappingNode, *, origin: Origin, loader: _CoreLoader, open_nodes: tuple[yaml.Node, ...]
) -> dict[str, Node]:
    _refuse_duplicates(mapping, origin)
    loader.flatten_mapping(mapping)  # `<<: *defaults`; the mapping's own keys come last and win
    result: dict[str, Node] = {}
    for key_node, value_node in mapping.value:
        child = _convert(value_node, origin=origin, loader=loader, open_nodes=open_nodes)
        # A key is what a message points at, so its line is kept, not that of a value starting further down.
        result[key_node.value] = Node(child.value, _origin_at(origin, key_node.start_mark))
    return result


def _refuse_duplicates(mapping: yaml.MappingNode, origin: Origin) -> None:
    first: dict[str, int] = {}
    for key, _ in mapping.value:
        at = _origin_at(origin, key.start_mark)
        if not isinstance(key, yaml.ScalarNode):
            raise ConfigError(f"{at}: a key is a plain word, not a list or mapping")
        if key.value in first:
            raise ConfigError(f"{at}: key {key.value!r} is written twice (first on line {first[key.value]})")
        first[key.value] = key.start_mark.line + 1


def _scalar(node: yaml.ScalarNode, at: Origin) -> Any:
    text, tag = node.value, node.tag.removeprefix(_TAG)
    if tag == "str":
        return text
    if tag == "null":
        return None
    if tag == "bool":
        return text.lower() == "true"
    if tag == "int":
        return _whole_number(text, at)
    if tag == "float":
        return float(text.replace(".inf", "inf").replace(".nan", "nan")) if text[-1].isalpha() else float(text)
    raise ConfigError(f"{at}: tag {node.tag!r} is not supported; write plain text, numbers, lists and mappings")


def _whole_number(text: str, at: Origin) -> int:
    try:
        return int(text, {"0x": 16, "0o": 8}.get(text[:2], 10))
    except ValueError as error:  # Python reads no number of more than 4300 digits
        raise ConfigError(f"{at}: a number of {len(text)} digits; put text in quotes") from error


def merge(base: Node, top: Node) -> Node:
    """`top` over `base`: mappings merge key by key, everything else (lists too) is replaced."""
    if not (isinstance(base.value, dict) and isinstance(top.value, dict)):
        return top
    merged = dict(base.value)
    for key, node in top.value.items():
        merged[key] = merge(merged[key], node) if key in merged else node
    return Node(merged, top.origin)


def apply_override(tree: Node, override: str) -> Node:
    """`tree` with one `key.sub=value` applied; the value is parsed as YAML.

    A list entry is addressed by its index or, where it is a mapping with a `name`, by that name:
    `stages.0.steps=3`, `stages.warmup.steps=3`.
    """
    key, equals, text = override.partition("=")
    if not equals or not all(key.split(".")):
        raise ConfigError(f"override {override!r}: expected key.sub=value")
    origin = Origin(override=override)
    return _replaced(tree, key.split("."), value=parse_yaml(text, origin), done="")


def _replaced(node: Node, keys: Sequence[str], *, value: Node, done: str) -> Node:
    if not keys:
        return value
    key, rest = keys[0], keys[1:]
    path = f"{done}.{key}".lstrip(".")
    if isinstance(node.value, list):
        index = _list_index(node.value, key, origin=value.origin, done=done)
        entries = list(node.value)
        entries[index] = _replaced(entries[index], rest, value=value, done=path)
        return Node(entries, node.origin)
    if node.value is not None and not isinstance(node.value, dict):
        raise ConfigError(
            f"{value.origin}: key {done!r} is {kind_of(node.value)} ({node.origin}), it has no keys inside"
        )
    entries = dict(node.value or {})
    entries[key] = _replaced(entries.get(key, Node(None, value.origin)), rest, value=value, done=path)
    return Node(entries, node.origin)


def _list_index(entries: Sequence[Node], key: str, *, origin: Origin, done: str) -> int:
    names = [e.value["name"].value for e in entries if isinstance(e.value, dict) and "name" in e.value]
    for index, entry in enumerate(entries):
        if isinstance(entry.value, dict) and "name" in entry.value and entry.value["name"].value == key:
            return index
    if key.isdecimal() and int(key) < len(entries):
        return int(key)
    known = f"; names: {', '.join(map(str, names))}" if names else ""
    raise ConfigError(f"{origin}: key {done!r} is a list of {len(entries)}; it has no entry {key!r}{known}")


def kind_of(value: Any) -> str:
    """A value's type in a YAML writer's words."""
    kinds: Mapping[type, str] = {dict: "a mapping", list: "a list", str: "text", type(None): "empty"}
    return kinds.get(type(value), f"the value {value!r}")
