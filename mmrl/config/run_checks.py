"""Contradictions that show once cards and reward plug-ins are read: found before a model or a row is.

`load_config` reads no plug-in; the commands that run something call `check_run` after it.
"""

from __future__ import annotations

import functools
import inspect
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mmrl.config.checks import SCORED_KINDS, Located, Problems
from mmrl.config.rollout_checks import check_engine_installed
from mmrl.config.schema import CardSection, RewardPart
from mmrl.errors import ConfigError, MmrlError


def check_run(run: Located, *, training: bool) -> None:
    """Raise ConfigError, one line per problem with file and line, unless the configuration can run.

    training: whether it must be able to train, or only to read its data.
    """
    checks = (*DATA_CHECKS, functools.partial(check_folders, training=training))
    checks += TRAINING_CHECKS if training else ()
    problems = list(dict.fromkeys(problem for check in checks for problem in check(run)))
    if problems:
        raise ConfigError("\n".join(problems))


def cards_of(run: Located) -> Iterator[tuple[str, CardSection]]:
    """Key and card of every dataset; cards that cannot be read are left to `check_cards`."""
    from mmrl.data.cards import resolve_card

    for key, card in _written_cards(run):
        try:
            yield key, resolve_card(card, relative_to=Path.cwd())
        except ConfigError:
            continue


def check_cards(run: Located) -> Problems:
    from mmrl.data.cards import resolve_card

    for key, card in _written_cards(run):
        try:
            resolve_card(card, relative_to=Path.cwd())
        except ConfigError as error:
            yield run.at(key, f"key {key!r}: {error}")


def _written_cards(run: Located) -> Iterator[tuple[str, str | CardSection]]:
    for prefix, data in run.data_sections():
        for split in ("train", "val"):
            for i, dataset in enumerate(getattr(data, split)):
                yield f"{prefix}.{split}.{i}.card", dataset.card


def check_stages_exist(run: Located) -> Problems:
    if not run.config.stages:
        fact = "nothing to train: 'stages' is empty; add at least one {name, kind, steps, prompts_per_step}"
        yield run.at("stages", fact)


def check_rewards(run: Located) -> Problems:
    """Reward plug-ins, their options and the sum of a task's weights, as the router checks them."""
    from mmrl.scoring.router import Router

    section = run.config.rewards
    for key, problem in section.name_problems():
        yield run.at(f"rewards.{key}", f"key 'rewards.{key}': {problem}")
    for task, parts in section.tasks.items():
        found = [problem for i, part in enumerate(parts) if (problem := _part_problem(run, f"{task}.{i}", part))]
        yield from found
        if not found:
            own = {"tasks": {task: parts}, "combine": section.combine_of(task), "workers": 0}
            alone = Router(section.model_copy(update=own))
            yield from _raised(run, f"rewards.tasks.{task}", alone.validate)


def _part_problem(run: Located, place: str, part: RewardPart) -> str | None:
    from mmrl.scoring.reward import check_options, resolve_reward

    key = f"rewards.tasks.{place}"
    try:
        check_options(resolve_reward(part.reward), part.options, where=f"key '{key}.options' ({part.reward})")
    except MmrlError as error:
        named = [f"{key}.options.{name}" for name in part.options if repr(name) in str(error)]
        return run.at(named[0] if named else f"{key}.reward", str(error))
    return None


def check_algorithm(run: Located) -> Problems:
    """Algorithm plug-ins have the hooks and signatures they should have."""
    from mmrl.algorithms.algorithm import build_algorithm

    config = run.config
    length = config.rollout.max_new_tokens
    try:
        algorithm = build_algorithm(config.algorithm, max_new_tokens=length)
    except MmrlError as error:
        for problem in str(error).splitlines():
            named = [key for key in type(config.algorithm).model_fields if f"'algorithm.{key}'" in problem]
            key = f"algorithm.{named[0]}" if named else "algorithm.plugins"
            yield run.at(key, problem if named else f"key {key!r}: {problem}")
        return
    if algorithm.has_value_head and config.train.zero_stage == 3:
        fact = "'train.zero_stage' is 3, under which the value head that the algorithm needs could not be saved"
        yield run.at("train.zero_stage", f"{fact}; use 2 or lower")


def check_makers(run: Located) -> Problems:
    """What makes the rows of sample stages exists, and has the options it is given."""
    from mmrl.plugins import check_options
    from mmrl.training.sample_stage import resolve_maker

    for i, stage in enumerate(run.config.stages):
        key, section = f"stages.{i}.sample", stage.sample
        if stage.kind != "sample":
            continue
        try:
            maker = resolve_maker(section.rows)
            check_options(maker, section.options, where=f"key '{key}.options' ({section.rows})", skip=2)
        except MmrlError as error:
            yield run.at(f"{key}.rows", str(error))
            continue
        yield from _unscored_task(run, i, maker)


def _unscored_task(run: Located, index: int, maker: Callable[..., object]) -> Problems:
    """A scored stage takes rows whose task, an option of what makes them, has no rewards."""
    source = run.config.stages[index]
    option = inspect.signature(maker).parameters.get("task")
    task = source.sample.options.get("task", option.default if option else None)
    takers = [s.name for s in run.config.stages if s.rows_from == source.name and s.kind in SCORED_KINDS]
    if option is not None and takers and task not in run.config.rewards.tasks:
        fact = f"stage {source.name!r} makes rows of the task {task!r} for stage {takers[0]!r}"
        yield run.at(f"stages.{index}.sample", f"{fact}, which 'rewards.tasks' lacks; list its reward parts there")


def check_spaces(run: Located) -> Problems:
    """Names of coordinate spaces, and the answer space of cards whose task answers with a place."""
    from mmrl.scoring.geometry import check_space, parse_spaces

    box_space, time_space = run.config.model.box_space, run.config.model.time_space
    if box_space is not None:
        yield from _raised(run, "model.box_space", lambda: check_space(box_space, kind="box"))
    if time_space is not None:
        yield from _raised(run, "model.time_space", lambda: check_space(time_space, kind="time"))
    for key, card in cards_of(run):
        if card.answer_space is not None:
            yield from _raised(run, f"{key}.answer_space", lambda s=card.answer_space: parse_spaces(s))


def check_adapter_names(run: Located) -> Problems:
    """`model.lora` names layers that the model has. What is wrong with the model itself is said with its processor."""
    from mmrl.config.model_checks import GROUPS

    lora = run.config.model.lora
    if lora is None or (not lora.modules_to_save and set(lora.targets) <= {*GROUPS}):
        return
    from mmrl.models.load import processor_of, skeleton
    from mmrl.models.lora import check_names

    try:
        model, family = skeleton(run.config.model), processor_of(run.config.model).family
    except ConfigError:
        return
    for key in ("targets", "modules_to_save"):
        alone = lora.model_copy(update={"targets" if key == "modules_to_save" else "modules_to_save": ()})
        yield from _raised(run, f"model.lora.{key}", lambda lora=alone: check_names(model, lora, family=family))
    yield from _vision_adapters(run, model, family)


def _vision_adapters(run: Located, model: Any, family: Any) -> Problems:
    """Names of layers may mean some of the vision modules too, which features must not."""
    from mmrl.models.features import VISION_GROUPS
    from mmrl.models.freeze import module_group
    from mmrl.models.lora import target_layers

    lora = run.config.model.lora
    if run.config.cache.level != "features" or lora is None:
        return
    try:
        layers = target_layers(model, lora.targets, family=family)
    except ConfigError:  # it has been said
        return
    found = [layer for layer in layers if module_group(f"{layer}.weight", family) in VISION_GROUPS]
    if found:
        fact = f"'cache.level' is features but 'model.lora.targets' mean {len(found)} layers between pixels and"
        remedy = "name the group language_model instead, or set 'cache.level' to auto or pixels"
        yield run.at("model.lora.targets", f"{fact} language model ({found[0]}, ...); {remedy}")


def check_logins(run: Located) -> Problems:
    """Trackers have what they need to log in: they start only once the model is loaded."""
    from mmrl.training.trackers import login_problem

    for name in run.config.log.trackers:
        if (problem := login_problem(name)) is not None:
            yield run.at("log.trackers", f"'log.trackers': {problem}")


def check_folders(run: Located, *, training: bool) -> Problems:
    """`cache.dir`, and of a training the run folder, are folders that can be written to, or can be made."""
    folders = {"cache.dir": Path(run.config.cache.dir)}
    if training:
        folders["out_dir"] = Path(run.config.out_dir) / run.config.name
    for key, folder in folders.items():
        try:
            _try_to_write(folder)
        except OSError as error:
            fact = f"'{key}' is {getattr(run.config, key) if key == 'out_dir' else run.config.cache.dir}, but"
            reason = f"{error.filename or folder}: {error.strerror}"
            yield run.at(key, f"{fact} nothing can be written there ({reason}); name a folder that can be made")


def _try_to_write(folder: Path) -> None:
    """Make and remove a folder where this one is, or where the first part of its path that is missing would be."""
    while not (folder.exists() or folder.is_symlink()):
        folder = folder.parent
    tempfile.TemporaryDirectory(prefix=".mmrl-", dir=folder).cleanup()


def _raised(run: Located, key: str, check: Callable[[], object]) -> Problems:
    """The problem that a check raises, with the place of its key."""
    try:
        check()
    except MmrlError as error:
        message = str(error)
        yield run.at(key, message if key in message else f"key {key!r}: {message}")


def check_benchmarks(run: Located) -> Problems:
    from mmrl.evaluate.benchmark import load_benchmark
    from mmrl.evaluate.judge import TRAINING_REMEDIES, no_server

    section = run.config.evaluate
    for index, task in enumerate(section.tasks):
        key = f"evaluate.tasks.{index}"
        if section.names.index(section.names[index]) != index:
            yield run.at(key, f"'{key}': a benchmark {section.names[index]!r} is named twice; scores go by the name")
        try:
            benchmark = load_benchmark(task)
        except ConfigError as error:
            yield run.at(key, f"'{key}': {error}")
            continue
        if benchmark.section.judge is not None and section.judge is None and not section.no_judge:
            error = no_server(benchmark.name, benchmark.section.judge, remedies=TRAINING_REMEDIES)
            yield run.at(key, f"'{key}': {error}")
        if benchmark.section.answers.repeats > 1 and benchmark.section.answers.temperature == 0:
            yield run.at(key, f"'{key}': several answers at temperature 0 would be equal; set its answers.temperature")
    if section.tasks and section.root is None:
        yield run.at("evaluate.tasks", "'evaluate.tasks' needs 'evaluate.root', the folder of the benchmarks' files")


DATA_CHECKS: tuple[Callable[[Located], Problems], ...] = (check_cards,)
TRAINING_CHECKS: tuple[Callable[[Located], Problems], ...] = (
    check_stages_exist,
    check_engine_installed,
    check_rewards,
    check_algorithm,
    check_makers,
    check_spaces,
    check_adapter_names,
    check_logins,
    check_benchmarks,
)
