"""Contradictions between keys. Each check yields problems; all are collected, each names the keys and the remedy.

A key is located by its dotted name: the line that wrote it, else the nearest section above it that was written.
"""

from __future__ import annotations

import re
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from mmrl.algorithms.hooks import plugin_name
from mmrl.algorithms.registry import ADVANTAGES, POLICY_LOSSES, SEQUENCE_MODES
from mmrl.config.cache_checks import check_cache
from mmrl.config.model_checks import check_model, check_training_options
from mmrl.config.rollout_checks import (
    check_correction,
    check_logprob_gap,
    check_servers,
    check_steps_ahead,
    check_vllm,
)
from mmrl.config.schema import BudgetClass, DataSection, DatasetSection, RunConfig, StageSection
from mmrl.config.tree import Node, Origin
from mmrl.data.template_library import system_text, user_text
from mmrl.data.template_text import template_problem
from mmrl.errors import ConfigError, PluginError, did_you_mean
from mmrl.plugins import find_plugin

Problems = Iterator[str]
SCORED_KINDS = ("grpo", "sample")  # stages whose completions are scored
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


@dataclass(frozen=True, slots=True)
class Located:
    """A config and the tree it was read from."""

    config: RunConfig
    tree: Node

    def at(self, key: str, fact: str) -> str:
        """One message: where `key` was written, and the fact with its remedy; the fact alone where nobody wrote it."""
        loc = [int(part) if part.isdecimal() else part for part in key.split(".")]
        origin = self.tree.at(loc).origin
        return fact if origin == Origin() else f"{origin}: {fact}"

    def written(self, key: str) -> str | None:
        """The text of a path as it was written; None where nobody wrote it."""
        return self.tree.at([int(part) if part.isdecimal() else part for part in key.split(".")]).written

    def data_sections(self) -> Iterator[tuple[str, DataSection]]:
        yield "data", self.config.data
        for i, stage in enumerate(self.config.stages):
            if stage.data is not None:
                yield f"stages.{i}.data", stage.data

    @property
    def has_grpo(self) -> bool:
        return any(stage.kind == "grpo" for stage in self.config.stages)


_TREES: dict[int, Node] = {}  # of the configurations that are alive, by id: frozen sections hold nothing but keys


def remember(config: RunConfig, tree: Node) -> None:
    """Keep the tree that a configuration was read from for as long as the configuration lives."""
    _TREES[id(config)] = tree
    weakref.finalize(config, _TREES.pop, id(config), None)


def located(config: RunConfig) -> Located:
    """The configuration with what is known of where its keys were written: nothing for one made in Python."""
    return Located(config, _TREES.get(id(config), Node({}, Origin())))


def check_config(config: RunConfig, tree: Node) -> list[str]:
    """All contradictions of a valid config, in the order of CHECKS; empty when it can run."""
    located = Located(config, tree)
    return [problem for check in CHECKS for problem in check(located)]


def check_budgets(run: Located) -> Problems:
    yield from _budget_problems(run, "budgets", run.config.budgets)
    for prefix, data in run.data_sections():
        for split in ("train", "val"):
            for i, dataset in enumerate(getattr(data, split)):
                yield from _budget_problems(run, f"{prefix}.{split}.{i}.budgets", dataset.budgets)


def _budget_problems(run: Located, prefix: str, budgets: dict[str, BudgetClass]) -> Problems:
    for name, budget in budgets.items():
        if not _NAME.fullmatch(name):
            fact = f"'{prefix}' holds the key {name!r}, which is no name of a budget class"
            yield run.at(f"{prefix}.{name}", f"{fact}; use a letter, then letters, digits, '_' and '-'")
        pairs = [("min_pixels", "max_pixels"), ("min_frames", "max_frames"), ("min_pixels", "total_pixels")]
        for low, high in pairs:
            small, large = getattr(budget, low), getattr(budget, high)
            if large is not None and small > large:
                keys = f"'{prefix}.{name}.{low}' ({small}) is above '{prefix}.{name}.{high}' ({large})"
                yield run.at(f"{prefix}.{name}.{low}", f"{keys}; lower the first or raise the second")


def check_datasets(run: Located) -> Problems:
    for prefix, data in run.data_sections():
        if data.mixture != "concat" and not data.train:
            fact = f"'{prefix}.mixture' is {data.mixture!r} but '{prefix}.train' is empty"
            yield run.at(f"{prefix}.mixture", f"{fact}; add datasets or remove the mixture")
        for split in ("train", "val"):
            names = [d.name or Path(d.path).stem for d in getattr(data, split)]
            for name in _repeated(names):
                where = f"{prefix}.{split}.{len(names) - 1 - names[::-1].index(name)}"
                fact = f"two datasets of '{prefix}.{split}' are called {name!r}"
                yield run.at(where, f"{fact}; give one of them another '{where}.name'")


def check_templates(run: Located) -> Problems:
    for prefix, data in run.data_sections():
        yield from _template_problems(run, prefix, data)
        for split in ("train", "val"):
            for i, dataset in enumerate(getattr(data, split)):
                yield from _template_problems(run, f"{prefix}.{split}.{i}", dataset)


def _template_problems(run: Located, prefix: str, section: DataSection | DatasetSection) -> Problems:
    texts = {"user_template": section.user_template, "system_prompt": section.system_prompt}
    texts |= {f"task_templates.{task}": text for task, text in section.task_templates.items()}
    for key, text in texts.items():
        try:
            problem = None if text is None else _template_problem(key, text)
        except ConfigError as error:
            problem = str(error)
        if problem is not None:
            yield run.at(f"{prefix}.{key}", f"'{prefix}.{key}' {problem}")


def _template_problem(key: str, text: str) -> str | None:
    if key == "system_prompt":
        system_text(text)
        return None
    return template_problem(user_text(text))


def check_stages(run: Located) -> Problems:
    for name in _repeated([stage.name for stage in run.config.stages]):
        last = max(i for i, stage in enumerate(run.config.stages) if stage.name == name)
        yield run.at(f"stages.{last}.name", f"two stages of 'stages' are called {name!r}; rename 'stages.{last}.name'")
    for i, stage in enumerate(run.config.stages):
        key = f"stages.{i}"
        if stage.warmup_steps > stage.steps:
            fact = f"'{key}.warmup_steps' ({stage.warmup_steps}) is above '{key}.steps' ({stage.steps})"
            yield run.at(f"{key}.warmup_steps", f"{fact}; the rate would never be reached, lower warmup_steps")
        if not (stage.data or run.config.data).train:
            fact = f"stage {stage.name!r} has no data: neither '{key}.data.train' nor 'data.train' lists a dataset"
            yield run.at(key, f"{fact}; add one")
        yield from _unused_sections(run, key, stage)
        yield from _source_problems(run, i)


def _unused_sections(run: Located, key: str, stage: StageSection) -> Problems:
    """Sections of a stage that belong to another kind."""
    for name in ("sft", "dpo", "sample"):
        section = getattr(stage, name)
        if stage.kind != name and section != type(section).model_validate({}):
            fact = f"'{key}.{name}' is set but '{key}.kind' is {stage.kind!r}"
            yield run.at(f"{key}.{name}", f"{fact}; remove it, or set the kind to {name}")


def _source_problems(run: Located, index: int) -> Problems:
    """`rows_from` names an earlier stage that writes rows, and stands alone."""
    stage, key = run.config.stages[index], f"stages.{index}.rows_from"
    if stage.rows_from is None:
        return
    sources = [earlier.name for earlier in run.config.stages[:index] if earlier.kind == "sample"]
    if stage.rows_from not in sources:
        hint = did_you_mean(stage.rows_from, sources) or f"; there are: {', '.join(sources) or 'none'}"
        yield run.at(key, f"'{key}' is {stage.rows_from!r}, which is no earlier stage of the kind sample{hint}")
    if stage.data is not None:
        fact = f"'{key}' and 'stages.{index}.data' are both set; a stage takes its rows from one of them"
        yield run.at(key, f"{fact}, remove the other")


def check_grpo_stages(run: Located) -> Problems:
    updates, tasks = run.config.algorithm.updates_per_batch, run.config.rewards.tasks
    for i, stage in enumerate(run.config.stages):
        key = f"stages.{i}"
        if stage.kind not in SCORED_KINDS:
            continue
        if not tasks:
            fact = f"'{key}.kind' is {stage.kind} but 'rewards.tasks' is empty"
            yield run.at(f"{key}.kind", f"{fact}; list the reward parts of each task")
        if updates > stage.prompts_per_step and stage.kind == "grpo":
            fact = f"'algorithm.updates_per_batch' ({updates}) is above '{key}.prompts_per_step'"
            remedy = "an update needs at least one whole group; lower the first or raise the second"
            yield run.at("algorithm.updates_per_batch", f"{fact} ({stage.prompts_per_step}); {remedy}")
        for task in stage.tasks if tasks else ():
            if task not in tasks:
                hint = did_you_mean(task, tasks) or f"; known: {', '.join(tasks)}"
                yield run.at(f"{key}.tasks", f"'{key}.tasks' names {task!r}, which 'rewards.tasks' lacks{hint}")


def check_rollout(run: Located) -> Problems:
    rollout, advantage = run.config.rollout, run.config.algorithm.advantage
    if rollout.top_p == 0:
        yield run.at("rollout.top_p", "'rollout.top_p' is 0, which keeps no token; 1 switches the filter off")
    if rollout.engine == "hf" and rollout.max_new_tokens >= rollout.max_batch_tokens:
        fact = f"'rollout.max_new_tokens' ({rollout.max_new_tokens}) does not fit 'rollout.max_batch_tokens'"
        remedy = "which counts prompt and completion together; raise it"
        yield run.at("rollout.max_new_tokens", f"{fact} ({rollout.max_batch_tokens}), {remedy}")
    is_relative = advantage in ADVANTAGES and ADVANTAGES[advantage].group_relative
    if run.has_grpo and rollout.group_size == 1 and is_relative and not _plugin_defines(run, "advantage"):
        fact = f"'rollout.group_size' is 1 but 'algorithm.advantage' {advantage!r} compares completions of a group"
        yield run.at("rollout.group_size", f"{fact}, so every advantage would be 0; set group_size to 2 or more")


def check_clipping(run: Located) -> Problems:
    algorithm = run.config.algorithm
    if algorithm.dual_clip is not None and algorithm.dual_clip <= 1:
        fact = f"'algorithm.dual_clip' is {algorithm.dual_clip}, which clips the ratio 1 of unchanged tokens"
        yield run.at("algorithm.dual_clip", f"{fact}; use a value above 1 (3 is usual) or null")
    if algorithm.clip_low == 0 and algorithm.clip_high == 0:
        fact = "'algorithm.clip_low' and 'algorithm.clip_high' are both 0, so no token could move"
        yield run.at("algorithm.clip_low", f"{fact}; 0.2 and 0.28 are usual")


def check_aggregation(run: Located) -> Problems:
    algorithm, limit = run.config.algorithm, run.config.rollout.max_new_tokens
    if algorithm.aggregation_length is not None and not algorithm.aggregation.endswith("-norm"):
        fact = f"'algorithm.aggregation_length' is set but 'algorithm.aggregation' is {algorithm.aggregation!r}"
        yield run.at(
            "algorithm.aggregation_length", f"{fact}; only the -norm modes use it, remove it or change the mode"
        )
    if algorithm.overlong_buffer > limit:
        fact = f"'algorithm.overlong_buffer' ({algorithm.overlong_buffer}) is above 'rollout.max_new_tokens' ({limit})"
        yield run.at("algorithm.overlong_buffer", f"{fact}; the buffer is the last part of a completion, lower it")
    loss = POLICY_LOSSES.get(algorithm.policy_loss)
    if loss and loss.sequence_level and algorithm.aggregation not in SEQUENCE_MODES:
        fact = f"'algorithm.policy_loss' {algorithm.policy_loss!r} has one ratio per sequence, but"
        fact += f" 'algorithm.aggregation' is {algorithm.aggregation!r}, which weights sequences by length"
        yield run.at("algorithm.aggregation", f"{fact}; set it to seq-mean-token-mean, or seq-mean-token-sum for LUSPO")


def check_row_weights(run: Located) -> Problems:
    """`by_task` and `by_dataset` name tasks and datasets of the run."""
    sections = [data for _, data in run.data_sections()]
    known = {
        "by_task": tuple(run.config.rewards.tasks),
        "by_dataset": tuple(dataset.name or Path(dataset.path).stem for data in sections for dataset in data.train),
    }
    for key, names in known.items():
        for name in getattr(run.config.algorithm, key):
            if name not in names:
                hint = did_you_mean(name, names) or f"; known: {', '.join(names) or 'none'}"
                yield run.at(f"algorithm.{key}.{name}", f"'algorithm.{key}' names {name!r}, which no row has{hint}")


def check_plugins(run: Located) -> Problems:
    algorithm = run.config.algorithm
    yield from _builtin_problems(run, "algorithm.advantage", algorithm.advantage, ADVANTAGES)
    yield from _builtin_problems(run, "algorithm.policy_loss", algorithm.policy_loss, POLICY_LOSSES)
    for i, spelling in enumerate(algorithm.plugins):
        yield from _plugin_problems(run, f"algorithm.plugins.{i}", spelling, kind="algorithms")
    names = [plugin_name(spelling) for spelling in algorithm.plugins]
    for name in algorithm.plugin_options:
        if name not in names:
            hint = did_you_mean(name, names) or f"; plug-ins: {', '.join(names) or 'none'}"
            key = f"algorithm.plugin_options.{name}"
            yield run.at(key, f"key {key!r}: 'algorithm.plugins' lists no plug-in {name!r}{hint}")
    for task, parts in run.config.rewards.tasks.items():
        for i, part in enumerate(parts):
            yield from _plugin_problems(run, f"rewards.tasks.{task}.{i}.reward", part.reward, kind="rewards")


def _builtin_problems(run: Located, key: str, name: str, table: object) -> Problems:
    if isinstance(table, dict) and name not in table:
        if ":" in name or name.endswith(".py"):
            yield from _plugin_problems(run, key, name, kind="algorithms")
        else:
            hint = did_you_mean(name, table) or "; use one of these or ./file.py:function"
            yield run.at(key, f"key {key!r}: {name!r} is unknown (known: {', '.join(table)}){hint}")


def _plugin_problems(run: Located, key: str, spelling: str, *, kind: str) -> Problems:
    try:
        find_plugin(spelling, kind=kind, written=run.written(key))
    except PluginError as error:
        yield run.at(key, f"key {key!r}: {error}")


def _plugin_defines(run: Located, hook: str) -> bool:
    """Whether a plug-in file has a function of that name; told by its text, since to import one takes torch."""
    return any(
        isinstance(path, Path) and re.search(rf"^ *def {hook}\(", path.read_text(encoding="utf-8"), re.MULTILINE)
        for path in map(_plugin_file, run.config.algorithm.plugins)
    )


def _plugin_file(spelling: str) -> Path | str | None:
    try:
        return find_plugin(spelling, kind="algorithms")
    except PluginError:
        return None  # check_plugins says it


def check_best(run: Located) -> Problems:
    best = run.config.checkpoint.best
    is_benchmark = best in run.config.evaluate.scores
    if best is not None and not is_benchmark and not any(data.val for _, data in run.data_sections()):
        fact = f"'checkpoint.best' is {best!r} but 'data.val' is empty, so there is no score to rank checkpoints by"
        yield run.at("checkpoint.best", f"{fact}; add validation data or set checkpoint.best to null")


def check_trackers(run: Located) -> Problems:
    for name in run.config.log.trackers:
        if find_spec(name) is None:
            fact = f"'log.trackers' names {name!r}, which is not installed"
            yield run.at("log.trackers", f"{fact}; pip install 'mmrl[{name}]', or leave it out")


def _repeated(names: list[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


CHECKS: tuple[Callable[[Located], Problems], ...] = (
    check_model,
    check_training_options,
    check_cache,
    check_budgets,
    check_datasets,
    check_templates,
    check_stages,
    check_grpo_stages,
    check_rollout,
    check_vllm,
    check_servers,
    check_logprob_gap,
    check_correction,
    check_steps_ahead,
    check_clipping,
    check_aggregation,
    check_row_weights,
    check_plugins,
    check_best,
    check_trackers,
)
