"""From a YAML file, the files it is based on and overrides to a frozen RunConfig, or to errors with file and line.

    base: ../base/image.yaml        # a file or a list of files, relative to this one; later ones win
    rollout: {group_size: 8}

Mappings merge key by key, lists replace. Relative paths (model, data, cards, plug-in files) start from the file that
writes them, those of an override from the current folder; the loaded config holds them absolute. `out_dir` and
`cache.dir` are the two exceptions: they stay relative to the folder the command runs in.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError

from mmrl.config.checks import check_config, remember
from mmrl.config.schema import RunConfig
from mmrl.config.tree import CoreDumper, Key, Loc, Node, apply_override, as_node, dotted, merge, read_yaml, shown
from mmrl.config.wording import type_problem
from mmrl.errors import ConfigError, nearest
from mmrl.models.hub import is_hub_id

MAX_ERRORS = 20
_NOT_SET = object()

_DATA_PATHS = tuple((split, "*", key) for split in ("train", "val") for key in ("path", "root", "columns_from"))
_PATHS: tuple[Loc, ...] = (
    ("model", "path"),
    ("evaluate", "root"),
    *(("data", *tail) for tail in _DATA_PATHS),
    *(("stages", "*", "data", *tail) for tail in _DATA_PATHS),
)
_CARDS: tuple[Loc, ...] = tuple((*p[:-1], "card") for p in _PATHS if p[-1] == "path" and p[0] != "model")
_BENCHMARKS: Loc = ("evaluate", "tasks", "*")
_OF_REWARDS: tuple[Loc, ...] = tuple(
    ("rewards", "tasks", "*", "*", "options", *tail)
    for tail in (
        *((name, "weights") for name in ("encoder", "text_encoder", "image_encoder")),
        ("reward_model",),
        ("demonstrations", "*"),
        ("demonstrations", "*", "*"),
    )
)
_PLUGINS: tuple[Loc, ...] = (
    ("rewards", "tasks", "*", "*", "reward"),
    ("rewards", "tasks", "*", "*", "options", "world_model"),
    ("algorithm", "plugins", "*"),
    ("algorithm", "advantage"),
    ("algorithm", "policy_loss"),
    ("stages", "*", "sample", "rows"),
)

S = TypeVar("S", bound=BaseModel)


def load_config(path: Path, overrides: Sequence[str] = ()) -> RunConfig:
    """The checked configuration of a run. Imports and opens no model, no data and no plug-in.

    Raises ConfigError with one line per problem (at most 20): `file:line: key 'rollout.grup_size' is unknown; did you
    mean 'rollout.group_size'?`.
    """
    tree = read_tree(Path(path))
    for override in overrides:
        tree = apply_override(tree, override)
    tree = _without_idle_best(_with_default_budgets(_with_absolute_paths(tree)))
    config = validate(tree, RunConfig)
    _raise_all(check_config(config, tree))
    remember(config, tree)
    return config


def read_section(path: Path, section: type[S]) -> S:
    """One section (a dataset card, say) from a YAML file of its own, with the same errors and `base`."""
    return validate(read_tree(Path(path)), section)


def load_section(
    path: Path, section: type[S], overrides: Sequence[str] = (), *, paths: Sequence[Loc] = (), cards: Sequence[Loc] = ()
) -> S:
    """A configuration of another kind than a run's, with the same errors, `base`, overrides and relative paths.

    paths, cards: where its files and its dataset cards are named (`*` is any key).
    """
    tree = read_tree(Path(path))
    for override in overrides:
        tree = apply_override(tree, override)
    for change, patterns in ((_absolute, paths), (_absolute_card, cards)):
        for pattern in patterns:
            tree = _rewrite(tree, pattern, change)
    return validate(tree, section)


def write_resolved(config: RunConfig, path: Path) -> None:
    """Write every key, defaults too, as YAML that `load_config` reads back to an equal config."""
    data = config.model_dump(mode="json")
    text = yaml.dump(data, Dumper=CoreDumper, sort_keys=False, allow_unicode=True, width=120)
    Path(path).write_text(text, encoding="utf-8")


def config_differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Keys whose values differ, one line each. A list is one key, unless both sides hold as many sections in it.

    >>> config_differences({"seed": 0, "log": {"console": True}}, {"seed": 1, "log": {"console": True}})
    ['seed: 0 -> 1']
    """
    return list(_differences(old, new, key=""))


def _differences(old: Any, new: Any, *, key: str) -> Iterator[str]:
    left, right = _entries(old), _entries(new)
    is_list = isinstance(old, list | tuple) or isinstance(new, list | tuple)
    if left and right and (left.keys() == right.keys() or not is_list):
        for name in {**left, **right}:
            inner = f"{key}.{name}".lstrip(".")
            yield from _differences(left.get(name, _NOT_SET), right.get(name, _NOT_SET), key=inner)
        return
    before, after = ("(not set)" if side is _NOT_SET else json.dumps(side) for side in (old, new))
    if before != after:
        yield f"{key}: {before} -> {after}"


def _entries(value: Any) -> dict[Key, Any]:
    """What a mapping, or a list of mappings, holds; nothing for any other value."""
    if isinstance(value, list | tuple) and all(isinstance(entry, dict) for entry in value):
        return dict(enumerate(value))
    return value if isinstance(value, dict) else {}


def read_tree(path: Path, *, open_files: tuple[Path, ...] = ()) -> Node:
    """The tree of a file merged over its bases. A file that is its own base, over any detour, is an error."""
    path = Path.cwd() / os.path.normpath(path)  # not resolve(): relative paths start beside a link, not its target
    if path in open_files:
        raise ConfigError(" -> ".join(shown(p) for p in (*open_files, path)) + ": 'base' goes in a circle")
    tree = read_yaml(path)
    top = Node({k: v for k, v in tree.value.items() if k != "base"}, tree.origin)
    merged = Node({}, tree.origin)
    for base in _bases(tree):
        folder = base.origin.folder
        merged = merge(merged, read_tree(folder / Path(base.value).expanduser(), open_files=(*open_files, path)))
    return merge(merged, top)


def _bases(tree: Node) -> list[Node]:
    base = tree.child("base")
    if base is None or base.value is None:
        return []
    entries = base.value if isinstance(base.value, list) else [base]
    for entry in entries:
        if not isinstance(entry.value, str):
            raise ConfigError(f"{entry.origin}: key 'base' is a path or a list of paths")
        target = entry.origin.folder / Path(entry.value).expanduser()
        if not target.is_file():
            raise ConfigError(f"{entry.origin}: key 'base': there is no file {shown(Path(os.path.normpath(target)))}")
    return entries


def validate(tree: Node, section: type[S]) -> S:
    """The tree as a section; every pydantic error becomes one line with the file and line of its key.

    JSON is validated strictly: lists may become tuples and integers floats, but no text becomes a number.
    """
    try:
        return section.model_validate_json(json.dumps(tree.plain()), strict=True)
    except ValidationError as error:
        lines = [_translate(e, tree=tree, section=section) for e in error.errors(include_url=False)]
        _raise_all([line for line in lines if line])
        raise AssertionError("a validation error without a message") from error


def _raise_all(lines: Sequence[str]) -> None:
    if not lines:
        return
    unique = list(dict.fromkeys(lines))
    more = [f"... and {len(unique) - MAX_ERRORS} more"] if len(unique) > MAX_ERRORS else []
    raise ConfigError("\n".join([*unique[:MAX_ERRORS], *more]))


def _translate(error: Any, *, tree: Node, section: type[BaseModel]) -> str | None:
    loc = _key_path(error["loc"], tree)
    if loc is None:
        return None
    origin, key = tree.at(loc).origin, dotted(loc)
    if error["type"] == "extra_forbidden":
        return f"{origin}: key {key!r} is unknown{_did_you_mean(loc, section)}"
    if error["type"] == "missing":
        return f"{origin}: key {key!r} is missing; it has no default"
    if error["type"] == "string_pattern_mismatch":
        allowed = "letters, digits, '.', '_' and '-', starting with a letter or digit"
        return f"{origin}: key {key!r} may hold only {allowed}, not {json.dumps(error['input'])}"
    return f"{origin}: key {key!r} {type_problem(error, keys=_keys_inside(loc, section))}"


def _key_path(loc: Sequence[Key], tree: Node) -> Loc | None:
    """A pydantic location without the branch names of unions (`card.CardSection.preset`).

    None for the error of a branch that does not apply: `card` as text when the file holds a mapping.
    """
    path: list[Key] = []
    for key in loc:
        here = tree.at(path)
        of_scalar = str(key) in ("str", "bool") or str(key).startswith("literal[")
        of_list = str(key).startswith(("tuple[", "list["))
        of_mapping = str(key).startswith("dict[") or str(key).rstrip("]").endswith("Section")  # function-after[.., X]
        if here.child(key) is not None or not (of_scalar or of_list or of_mapping):
            path.append(key)
        elif not of_list and isinstance(here.value, dict) == of_scalar:
            return None
    return tuple(path)


def _did_you_mean(loc: Loc, section: type[BaseModel]) -> str:
    """The nearest valid key beside the wrong one, else a section that does have a key of this name."""
    known = _keys_beside(loc, section)
    near = nearest(str(loc[-1]), known)
    if near:
        return f"; did you mean {dotted((*loc[:-1], near))!r}?"
    elsewhere = [path for path in _all_keys(section) if path[-1] == loc[-1]]
    if elsewhere:
        return f"; did you mean {dotted(elsewhere[0])!r}?"
    return f"; known here: {', '.join(known)}" if known else ""


def _keys_beside(loc: Loc, section: type[BaseModel]) -> list[str]:
    for key in loc[:-1]:
        field = section.model_fields.get(str(key))
        inner = _section_of(field.annotation) if field else None
        section = inner or section
    return list(section.model_fields)


def _keys_inside(loc: Loc, section: type[BaseModel]) -> list[str]:
    """Keys of the section that belongs at `loc`; none where a mapping of free names, a list or a scalar belongs."""
    for key in loc[:-1]:
        field = section.model_fields.get(str(key))
        section = (_section_of(field.annotation) if field else None) or section
    field = section.model_fields.get(str(loc[-1]))
    inner = field.annotation if field else section  # a free name or a number stands for the section itself
    return list(inner.model_fields) if isinstance(inner, type) and issubclass(inner, BaseModel) else []


def _all_keys(section: type[BaseModel], prefix: Loc = ()) -> Iterator[Loc]:
    for name, field in section.model_fields.items():
        yield (*prefix, name)
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from _all_keys(inner, (*prefix, name))


def _section_of(annotation: Any) -> type[BaseModel] | None:
    """The section class inside `tuple[X, ...]`, `dict[str, X]`, `str | X`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for arg in get_args(annotation) if (found := _section_of(arg))), None)


def _with_absolute_paths(tree: Node) -> Node:
    for pattern in _PATHS:
        tree = _rewrite(tree, pattern, _absolute_model if pattern[0] == "model" else _absolute)
    tree = _rewrite(tree, ("model", "chat_template"), _absolute_template)
    for pattern in _OF_REWARDS:
        tree = _rewrite(tree, pattern, _absolute)
    for pattern in (*_CARDS, _BENCHMARKS):
        tree = _rewrite(tree, pattern, _absolute_card)
    for pattern in _PLUGINS:
        tree = _rewrite(tree, pattern, _absolute_plugin)
    return tree


def _rewrite(node: Node, pattern: Loc, change: Any) -> Node:
    """The tree with `change` applied to the text at every place the pattern matches (`*` is any key)."""
    if not pattern:
        return Node(change(node), node.origin, written=node.value) if isinstance(node.value, str) else node
    if isinstance(node.value, dict):
        matches = list(node.value) if pattern[0] == "*" else [k for k in (pattern[0],) if k in node.value]
        return Node(node.value | {k: _rewrite(node.value[k], pattern[1:], change) for k in matches}, node.origin)
    if isinstance(node.value, list) and pattern[0] == "*":
        return Node([_rewrite(entry, pattern[1:], change) for entry in node.value], node.origin)
    return node


def _absolute(node: Node) -> str:
    return os.path.normpath(node.origin.folder / Path(node.value).expanduser())


def _absolute_model(node: Node) -> str:
    """ORG/NAME is a hub id unless a folder of that name lies beside the file; everything else is a folder."""
    path = _absolute(node)
    return node.value if is_hub_id(node.value) and not Path(path).exists() else path


def _absolute_template(node: Node) -> str:
    """A chat template with a suffix or a slash is a file; a bare word is a name."""
    return _absolute(node) if "/" in node.value or node.value.endswith(".jinja") else node.value


def _absolute_card(node: Node) -> str:
    """A card with a suffix or a slash is a file; a bare word is a shipped card."""
    return _absolute(node) if "/" in node.value or node.value.endswith((".yaml", ".yml")) else node.value


def _absolute_plugin(node: Node) -> str:
    """`./file.py:function` becomes absolute; shipped names and `package.module:function` stay."""
    file, colon, function = node.value.partition(":")
    if not file.endswith(".py"):
        return node.value
    return _absolute(Node(file, node.origin)) + colon + function


def _with_default_budgets(tree: Node) -> Node:
    """The default budget classes below the written ones, so that naming `gui` does not take `image` away."""
    defaults = RunConfig.model_fields["budgets"].get_default(call_default_factory=True)
    values = {name: budget.model_dump(exclude_unset=True) for name, budget in defaults.items()}
    return merge(as_node({"budgets": values}, tree.origin), tree)


def _without_idle_best(tree: Node) -> Node:
    """Without validation data the default `checkpoint.best` has nothing to rank by: it becomes null, visibly."""
    stages = _value_at(tree, "stages")
    sections = [tree, *(stages if isinstance(stages, list) else ())]
    has_val = any(_value_at(section, "data", "val") for section in sections)
    is_written = _value_at(tree, "checkpoint", "best") is not None
    if has_val or is_written or not isinstance(_value_at(tree, "checkpoint") or {}, dict):
        return tree
    return merge(tree, as_node({"checkpoint": {"best": None}}, tree.origin))


def _value_at(node: Node | None, *loc: Key) -> Any:
    """The value at exactly `loc`; None when something on the way is missing."""
    for key in loc:
        node = node.child(key) if node else None
    return node.value if node else None
