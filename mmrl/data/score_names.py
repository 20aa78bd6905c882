"""Which held-out scores a run will measure, for the keys that name one; and reward tasks that no row has."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from mmrl.config.checks import Located
from mmrl.config.schema import RewardsSection, StageSection
from mmrl.errors import did_you_mean
from mmrl.scoring.parts import part_name

# Name and tasks of each held-out dataset of a stage.
HeldOut = Sequence[tuple[str, Collection[str]]]


def measured_scores(stage: StageSection, held_out: HeldOut, rewards: RewardsSection) -> list[str]:
    """The metrics that validations of a stage give, beside the other numbers of rewards that return a dict.

    >>> stage = StageSection(name="rl", kind="grpo", steps=1, prompts_per_step=1)
    >>> rewards = RewardsSection.model_validate({"tasks": {"t": [{"reward": "choice"}]}})
    >>> measured_scores(stage, [("photos", ["t"])], rewards)
    ['val/mean', 'val/unscored', 'val/task/t', 'val/dataset/photos', 'val/part/t/choice']
    """
    shown = [(name, [task for task in tasks if not stage.tasks or task in stage.tasks]) for name, tasks in held_out]
    tasks = dict.fromkeys(task for _, of_dataset in shown for task in of_dataset)
    names = ["val/mean", "val/unscored"] if tasks else []
    names += [f"val/task/{task}" for task in tasks]
    names += [f"val/dataset/{name}" for name, of_dataset in shown if of_dataset]
    return names + [f"val/part/{task}/{part_name(part)}" for task in tasks for part in rewards.tasks.get(task, ())]


def score_problems(run: Located, held_out: Sequence[HeldOut]) -> Iterator[str]:
    """Keys that name a score which is never measured. held_out: per stage."""
    stages, best = run.config.stages, run.config.checkpoint.best
    measured = [measured_scores(s, shown, run.config.rewards) for s, shown in zip(stages, held_out, strict=True)]
    for index, (stage, names) in enumerate(zip(stages, measured, strict=True)):
        if stage.early_stop is not None:
            yield from _problem(run, f"stages.{index}.early_stop.score", stage.early_stop.score, names)
    if best is not None:
        names = list(dict.fromkeys(name for names in measured for name in names))
        yield from _problem(run, "checkpoint.best", best, [*names, *run.config.evaluate.scores])


def _problem(run: Located, key: str, score: str, names: Sequence[str]) -> Iterator[str]:
    is_extra = any(name.startswith("val/part/") and score.startswith(f"{name}.") for name in names)
    if names and score not in names and not is_extra:
        fact = f"'{key}' is {score!r}, which is not measured; known: {', '.join(names)}"
        yield run.at(key, fact + did_you_mean(score, names))


def idle_tasks(run: Located, tasks: Collection[str]) -> list[str]:
    """Notes on entries of `rewards.tasks` that are of none of these tasks, which are those of all rows."""
    return [
        run.at(f"rewards.tasks.{task}", f"no row has the task {task!r} of 'rewards.tasks'{did_you_mean(task, tasks)}")
        for task in run.config.rewards.tasks
        if task not in tasks
    ]
