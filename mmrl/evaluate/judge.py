"""Benchmarks whose answers a judge model scores: what their task files must say, and the server given with the command.

A judged part is one whose reward asks a judge. It gets the option `endpoint` here, and only here: a task file names the
judge, never where it answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mmrl.config.judge_section import WITHOUT_JUDGE, JudgeSection, JudgeServerSection
from mmrl.config.reward_sections import RewardPart
from mmrl.errors import ConfigError, PluginError
from mmrl.scoring.reward import resolve_reward

VERDICTS = "judge"  # folder of the cache
Parts = Mapping[str, Sequence[RewardPart]]
REMEDIES = "give --judge-server URL (with --judge-token-env, where it needs a token), or --no-judge"
TRAINING_REMEDIES = "set evaluate.judge.url, or evaluate.no_judge: true"
_TRIES = 2  # an answer that is no verdict is asked for once more
_WAIT_S = 30.0  # longest wait before a request is sent again


def check_judge(name: str, judge: JudgeSection | None, parts: Parts, *, relative_to: Path) -> None:
    """ConfigError where a task file has a judged part and names no judge, or the other way round."""
    try:
        judged = [part for of_task in parts.values() for part in of_task if _is_judged(part, relative_to)]
    except PluginError as error:
        raise PluginError(f"{name}: {error}") from error
    if judge is None and judged:
        raise ConfigError(
            f"{name}: its reward {judged[0].reward!r} asks a judge, which the task file does not name: give it"
            " judge: {model: NAME, version: 1, without: [rules for --no-judge]}"
        )
    if judge is not None and not judged:
        raise ConfigError(f"{name}: the task file names the judge {judge.model!r}, but no part of `score` asks one")
    for part in judged:
        if "endpoint" in part.options:
            raise ConfigError(
                f"{name}: the option 'endpoint' of {part.reward!r} has no place in a task file: `judge` names the"
                " model, and its server is given with the command (--judge-server)"
            )


def no_server(name: str, judge: JudgeSection, *, remedies: str) -> ConfigError:
    return ConfigError(
        f"{name}: its answers are judged by {judge.model} (version {judge.version}), and no server of a judge is given:"
        f" {remedies}, which gives a score by rule that is called {WITHOUT_JUDGE}"
    )


def no_rules(name: str, judge: JudgeSection) -> ConfigError:
    return ConfigError(
        f"{name}: no rule can take the place of its judge {judge.model} (`judge.without` is null): leave {name} out, or"
        " give the server of a judge"
    )


def endpoint_options(judge: JudgeSection, server: JudgeServerSection, *, store: Path) -> dict[str, Any]:
    """The option `endpoint` of judged parts."""
    asked = judge.model_dump(include={"model", "version", "temperature", "max_tokens", "extra", "show_media"})
    return {**asked, **server.model_dump(exclude={"model"}), "store": str(store)}


def with_endpoint(parts: Parts, endpoint: Mapping[str, Any], *, relative_to: Path) -> dict[str, tuple[RewardPart, ...]]:
    """The parts, of which judged ones know whom to ask."""
    return {
        task: tuple(
            part.model_copy(update={"options": {**part.options, "endpoint": dict(endpoint)}})
            if _is_judged(part, relative_to)
            else part
            for part in of_task
        )
        for task, of_task in parts.items()
    }


def longest_s(server: Mapping[str, Any]) -> float:
    """Time for one completion in which every try of every request can come to its end. server: its endpoint."""
    return _TRIES * (server["retries"] + 1) * (server["timeout_s"] + _WAIT_S)


def told(judge: JudgeSection, parts: Parts, *, named: str, relative_to: Path) -> dict[str, Any]:
    """What results.json says of a judge: all that verdicts depend on. parts: as the task file has them. named: the
    judge of the task file.
    """
    asked = {
        part.name or part.reward if len(parts) == 1 else f"{task}: {part.name or part.reward}": part.options
        for task, of_task in parts.items()
        for part in of_task
        if _is_judged(part, relative_to)
    }
    other = {} if named == judge.model else {"in_place_of": named}
    return {**judge.model_dump(mode="json", exclude={"without"}), **other, "asked": asked}


def _is_judged(part: RewardPart, relative_to: Path) -> bool:
    return resolve_reward(part.reward, relative_to).asks_a_judge
