"""The shipped templates: shipped_templates.yaml, read once."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mmrl.errors import ConfigError, did_you_mean

FILE = Path(__file__).with_name("shipped_templates.yaml")
_NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, slots=True)
class ShippedTemplate:
    """One entry of the file; its keys are explained there."""

    name: str
    user: str
    answer: Literal["auto", "tag", "boxed", "plain"]
    example: Mapping[str, Any]
    system: str | None = None
    style: str | None = None
    geometry: Literal["box", "point", "time"] | None = None


@functools.cache
def shipped_templates() -> Mapping[str, ShippedTemplate]:
    """Name -> template, in the file's order."""
    import yaml

    entries = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return {name: ShippedTemplate(name, **entry) for name, entry in entries.items()}


def user_text(written: str) -> str:
    """The text of a user template: that of the shipped one it names, else itself.

    Raises ConfigError, as the end of a sentence, for a word that names none.
    """
    if not _NAME.fullmatch(written):
        return written
    known = shipped_templates()
    if written not in known:
        raise ConfigError(
            f"names no shipped template: {written!r}; known: {', '.join(known)}; a text of your own holds {{prompt}} "
            f"or {{{{ prompt }}}} where the question goes{did_you_mean(written, known)}"
        )
    return known[written].user


def system_text(written: str) -> str:
    """The text of a system prompt: that of the shipped template it names, else itself.

    Raises ConfigError, as the end of a sentence, for a template without a system turn and for a word that is nearly
    the name of one: it would be taken for the whole system prompt.
    """
    with_system = {name: template.system for name, template in shipped_templates().items() if template.system}
    if written in with_system:
        return with_system[written]
    near = did_you_mean(written, shipped_templates()) if _NAME.fullmatch(written) else ""
    if near or written in shipped_templates():
        hint = "" if written in shipped_templates() else near
        raise ConfigError(
            f"names no shipped template with a system turn: {written!r}; known: {', '.join(with_system)}{hint}"
        )
    return written
