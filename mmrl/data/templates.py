"""System prompts and user templates: which one a row gets, how it is applied, what a run records of them.

A user template is the name of a shipped one, text with `{prompt}`, or Jinja with `{{ prompt }}` over the row's columns
(see mmrl.data.template_text). The row's parts, media included, go where the prompt stands; everything around is text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mmrl.config.schema import DataSection, DatasetSection, RunConfig
from mmrl.data.sample import GeometryKind, Message, Part, SpacePart, TextPart
from mmrl.data.template_library import shipped_templates, system_text, user_text
from mmrl.data.template_text import template_pieces, template_problem
from mmrl.errors import ConfigError

_SPACES: dict[str, GeometryKind] = {"box": "box", "point": "point", "time": "time"}


@dataclass(frozen=True, slots=True)
class Templates:
    """What rows of one dataset get, names replaced by texts. The most specific wins, in this order:

    dataset.task_templates, dataset.user_template, data.task_templates, data.user_template; and for the system prompt:
    the row's own, dataset.system_prompt, data.system_prompt.
    """

    system: str | None
    dataset_user: str | None
    dataset_tasks: Mapping[str, str]
    data_user: str | None
    data_tasks: Mapping[str, str]

    def user(self, task: str) -> str | None:
        """The user template of a task; None leaves the prompt as it is."""
        if task in self.dataset_tasks:
            return self.dataset_tasks[task]
        if self.dataset_user is not None:
            return self.dataset_user
        return self.data_tasks.get(task, self.data_user)


def resolve_templates(section: DatasetSection, *, data: DataSection) -> Templates:
    """The templates of a dataset; ConfigError names a template that is none and a name that is unknown."""
    own = f"dataset {dataset_name(section)!r}: "
    system = section if section.system_prompt is not None else data
    owner = own if system is section else "data."
    return Templates(
        system=_named(system_text, system.system_prompt, f"{owner}system_prompt"),
        dataset_user=_user(section.user_template, f"{own}user_template"),
        dataset_tasks=_tasks(section.task_templates, f"{own}task_templates"),
        data_user=_user(data.user_template, "data.user_template"),
        data_tasks=_tasks(data.task_templates, "data.task_templates"),
    )


def dataset_name(section: DatasetSection) -> str:
    """The name of a dataset in metrics and errors: `name`, else the stem of its file."""
    return section.name or Path(section.path).stem


def _named(text_of: Callable[[str], str], written: str | None, key: str) -> str | None:
    """What is written under a key, a shipped name replaced by its text."""
    try:
        return None if written is None else text_of(written)
    except ConfigError as error:
        raise ConfigError(f"{key} {error}") from error


def _user(written: str | None, key: str) -> str | None:
    text = _named(user_text, written, key)
    problem = None if text is None else template_problem(text)
    if problem is not None:
        raise ConfigError(f"{key} {problem}")
    return text


def _tasks(written: Mapping[str, str], key: str) -> dict[str, str]:
    found = {task: _user(template, f"{key}.{task}") for task, template in written.items()}
    return {task: text for task, text in found.items() if text is not None}


def apply_templates(
    messages: Sequence[Message], templates: Templates, *, task: str, columns: Mapping[str, Any] = MappingProxyType({})
) -> tuple[Message, ...]:
    """The conversation with its system prompt in front (a row's own stays) and its last user message in the template.

    columns: of the row, for Jinja. Raises DataError for a column that the template needs and the row lacks.

    >>> t = Templates(None, "Think first. {prompt} Answer in <answer>.", {}, None, {})
    >>> apply_templates([Message("user", (TextPart("2 + 2?"),))], t, task="math")[0].parts
    (TextPart(text='Think first. 2 + 2? Answer in <answer>.'),)
    """
    done = list(messages)
    template = templates.user(task)
    if template is not None:
        last = max(n for n, message in enumerate(done) if message.role == "user")
        done[last] = Message("user", _filled(template, done[last].parts, columns))
    if templates.system is not None and done[0].role != "system":
        done.insert(0, Message("system", (TextPart(templates.system),)))
    return tuple(done)


def _filled(template: str, prompt: Sequence[Part], columns: Mapping[str, Any]) -> tuple[Part, ...]:
    parts: list[Part] = []
    for index, piece in enumerate(template_pieces(template, columns)):
        if index % 2 == 0:
            parts.append(TextPart(piece))
        else:
            parts += prompt if piece == "prompt" else (SpacePart(_SPACES[piece]),)
    return join_text(parts)


def join_text(parts: Sequence[Part]) -> tuple[Part, ...]:
    """The same parts with neighbouring texts joined and empty ones dropped: one text is one run of tokens."""
    joined: list[Part] = []
    for part in parts:
        last = joined[-1] if joined else None
        if isinstance(part, TextPart) and isinstance(last, TextPart):
            joined[-1] = TextPart(last.text + part.text)
        elif part != TextPart(""):
            joined.append(part)
    return tuple(joined)


def template_record(config: RunConfig) -> dict[str, Any]:
    """Text, sha256 and, of shipped ones, name of every system prompt and user template of a run.

    Keys are where they are written: `data.user_template`, `data.train.dogs.task_templates.count`,
    `stages.warmup.data.system_prompt`; equal records mean equal prompts.
    """
    sections = {"data": config.data}
    sections |= {f"stages.{stage.name}.data": stage.data for stage in config.stages if stage.data is not None}
    return {key: record for name, data in sections.items() for key, record in _records(name, data)}


def _records(name: str, data: DataSection) -> Iterator[tuple[str, dict[str, str]]]:
    owners: list[tuple[str, DataSection | DatasetSection]] = [(name, data)]
    for split in ("train", "val"):
        owners += [(f"{name}.{split}.{dataset_name(section)}", section) for section in getattr(data, split)]
    for key, owner in owners:
        if owner.system_prompt is not None:
            yield f"{key}.system_prompt", _record(owner.system_prompt, system_text)
        if owner.user_template is not None:
            yield f"{key}.user_template", _record(owner.user_template, user_text)
        for task, template in owner.task_templates.items():
            yield f"{key}.task_templates.{task}", _record(template, user_text)


def _record(written: str, text_of: Callable[[str], str]) -> dict[str, str]:
    text = text_of(written)
    record = {"text": text, "sha256": hashlib.sha256(text.encode()).hexdigest()}
    return {**record, "name": written} if written in shipped_templates() else record
