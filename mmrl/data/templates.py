"""System prompts and user templates: which one a row gets, how it is applied, what a run records of them.

A user template is text with `{prompt}` in it exactly once. Nothing else in it is special, so braces of JSON or LaTeX
need no escape. The row's parts, media included, go where `{prompt}` stands; everything around is plain text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmrl.config.schema import DataSection, DatasetSection, RunConfig
from mmrl.data.sample import Message, Part, TextPart
from mmrl.errors import ConfigError

PROMPT = "{prompt}"


@dataclass(frozen=True, slots=True)
class Templates:
    """What rows of one dataset get. The most specific wins, in this order:

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
    """The templates of a dataset; ConfigError names a template without exactly one `{prompt}`."""
    own = f"dataset {dataset_name(section)!r}: "
    for owner, part in ((own, section), ("data.", data)):
        _check(part.user_template, f"{owner}user_template")
        for task, template in part.task_templates.items():
            _check(template, f"{owner}task_templates.{task}")
    return Templates(
        system=section.system_prompt if section.system_prompt is not None else data.system_prompt,
        dataset_user=section.user_template,
        dataset_tasks=section.task_templates,
        data_user=data.user_template,
        data_tasks=data.task_templates,
    )


def dataset_name(section: DatasetSection) -> str:
    """The name of a dataset in metrics and errors: `name`, else the stem of its file."""
    return section.name or Path(section.path).stem


def _check(template: str | None, key: str) -> None:
    count = 1 if template is None else template.count(PROMPT)
    if count != 1:
        raise ConfigError(f"{key} holds {PROMPT} {count} times; it must say once where the row's prompt goes")


def apply_templates(messages: Sequence[Message], templates: Templates, *, task: str) -> tuple[Message, ...]:
    """The conversation with its system prompt in front (a row's own stays) and its last user message in the template.

    >>> t = Templates(None, "Think first. {prompt} Answer in <answer>.", {}, None, {})
    >>> apply_templates([Message("user", (TextPart("2 + 2?"),))], t, task="math")[0].parts
    (TextPart(text='Think first. 2 + 2? Answer in <answer>.'),)
    """
    done = list(messages)
    template = templates.user(task)
    if template is not None:
        last = max(n for n, message in enumerate(done) if message.role == "user")
        before, after = template.split(PROMPT)
        done[last] = Message("user", join_text((TextPart(before), *done[last].parts, TextPart(after))))
    if templates.system is not None and done[0].role != "system":
        done.insert(0, Message("system", (TextPart(templates.system),)))
    return tuple(done)


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
    """Text and sha256 of every system prompt and user template of a run, for run folder and checkpoint.

    Keys are where they are written: `data.user_template`, `data.train.dogs.task_templates.count`,
    `stages.warmup.data.system_prompt`; equal records mean equal prompts.
    """
    sections = {"data": config.data}
    sections |= {f"stages.{stage.name}.data": stage.data for stage in config.stages if stage.data is not None}
    texts = {key: text for name, data in sections.items() for key, text in _texts(name, data)}
    return {key: {"text": text, "sha256": hashlib.sha256(text.encode()).hexdigest()} for key, text in texts.items()}


def _texts(name: str, data: DataSection) -> Iterator[tuple[str, str]]:
    owners: list[tuple[str, DataSection | DatasetSection]] = [(name, data)]
    for split in ("train", "val"):
        owners += [(f"{name}.{split}.{dataset_name(section)}", section) for section in getattr(data, split)]
    for key, owner in owners:
        if owner.system_prompt is not None:
            yield f"{key}.system_prompt", owner.system_prompt
        if owner.user_template is not None:
            yield f"{key}.user_template", owner.user_template
        for task, template in owner.task_templates.items():
            yield f"{key}.task_templates.{task}", template
