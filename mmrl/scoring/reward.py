"""A reward plug-in, resolved from its spelling: its function, its form, and what it declares.

The form follows from the names of the first two parameters:

    one     (completion, sample)    one completion -> a number, or {"reward": number, other: number}
    batch   (completions, samples)  any completions, one sample each -> one result per completion
    group   (completions, sample)   all completions of one sample -> one result per completion
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args

from mmrl import plugins
from mmrl.data.sample import GeometryKind, Sample
from mmrl.errors import ConfigError, PluginError
from mmrl.plugins import resolve_module

Form = Literal["one", "batch", "group"]
Bounds = tuple[float | None, float | None]
Hack = Literal["constant", "echo", "options", "empty", "repeated"]
_FORMS: dict[tuple[str, str], Form] = {
    ("completion", "sample"): "one",
    ("completions", "samples"): "batch",
    ("completions", "sample"): "group",
}
_FUNCTIONS = ("score", "score_batch", "score_group")
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Reward:
    """function takes its form's two arguments and keyword options; file is the one that holds it.

    What its module declares:
    geometry: the kind of place the answer is (`GEOMETRY`), None where it is none.
    needs_media: whether the reward looks at `sample.media` (`NEEDS_MEDIA`).
    bounds: least and largest value for any completion under any options (`BOUNDS`); None for an open end.
    chance: expected score of blind guessing: a number (`CHANCE`), a function of the sample (`chance`), or None.
    is_measure: whether it pays for no answer (`MEASURE`): it measures for a plug-in, or scores what was recorded.
    known_hacks: why a trick scores above chance although nothing is wrong (`KNOWN_HACKS`), by the trick's name.
    preflight: raises ConfigError where this machine lacks what the reward needs (`preflight(options, timeout_s)`).
    vote: what a completion answers, as a text that equal answers share (`vote(completion, sample, **options)`, the same
        options as the function's); its value is None where it holds no answer, itself None where answers have no such
        text.
    """

    spelling: str
    function: Callable[..., Any]
    form: Form
    file: Path
    geometry: GeometryKind | None = None
    needs_media: bool = False
    bounds: Bounds = (None, None)
    chance: float | Callable[[Sample], float | None] | None = None
    is_measure: bool = False
    known_hacks: Mapping[Hack, str] = field(default_factory=dict)
    preflight: Callable[[Mapping[str, Any], float], None] | None = None
    vote: Callable[..., str | None] | None = None

    @property
    def asks_a_judge(self) -> bool:
        """Whether it sends completions to a model server, its option `endpoint`."""
        return "endpoint" in inspect.signature(self.function).parameters

    def sees_media(self, options: Mapping[str, Any]) -> bool:
        """Whether it looks at `sample.media` under these options: as it declares, or to show them to its judge."""
        endpoint = options.get("endpoint")
        return self.needs_media or (isinstance(endpoint, Mapping) and endpoint.get("show_media") is True)

    def is_within_bounds(self, value: float) -> bool:
        """Whether a value lies inside `bounds`, up to float rounding."""
        low, high = self.bounds
        return (low is None or value >= low - _ROUNDING) and (high is None or value <= high + _ROUNDING)


@functools.cache
def resolve_reward(spelling: str, relative_to: Path | None = None) -> Reward:
    """The reward a spelling names; PluginError when there is none or its parameters are of no known form."""
    module, name = resolve_module(spelling, kind="rewards", relative_to=relative_to)
    function = _function(module, name, spelling)
    if inspect.iscoroutinefunction(function):
        raise PluginError(f"reward {spelling!r} is an `async def`, which nothing would wait for; write a plain `def`")
    parameters = tuple(inspect.signature(function).parameters)
    first_two = parameters[:2]
    form = _FORMS.get((first_two[0], first_two[1])) if len(first_two) == 2 else None
    if form is None:
        forms = " or ".join(f"({a}, {b})" for a, b in _FORMS)
        has = f"({', '.join(parameters)})"
        raise PluginError(f"reward {spelling!r} must begin with the parameters {forms}; it has {has}")
    return Reward(spelling, function, form, Path(str(module.__file__)), **_declared(module, spelling))


def _declared(module: ModuleType, spelling: str) -> dict[str, Any]:
    """The fields of Reward that module constants give; PluginError for a constant of another form."""
    geometry = getattr(module, "GEOMETRY", None)
    bounds, chance = getattr(module, "BOUNDS", (None, None)), getattr(module, "CHANCE", None)
    hacks = getattr(module, "KNOWN_HACKS", {})
    problems = {
        f"GEOMETRY = {geometry!r} is none of {', '.join(get_args(GeometryKind))}": geometry is not None
        and geometry not in get_args(GeometryKind),
        f"BOUNDS = {bounds!r} is no tuple (least, largest) of numbers or None": not _is_pair(bounds),
        f"CHANCE = {chance!r} is no finite number; for one that depends on the row define chance(sample)": chance
        is not None
        and not _is_number(chance),
        f"KNOWN_HACKS = {hacks!r} maps none of {', '.join(get_args(Hack))} to a reason": not _are_hacks(hacks),
    }
    for problem in (text for text, wrong in problems.items() if wrong):
        raise PluginError(f"reward {spelling!r}: {problem}")
    return {
        "geometry": geometry,
        "needs_media": bool(getattr(module, "NEEDS_MEDIA", False)),
        "bounds": bounds,
        "chance": getattr(module, "chance", chance),
        "is_measure": bool(getattr(module, "MEASURE", False)),
        "known_hacks": hacks,
        "preflight": getattr(module, "preflight", None),
        "vote": getattr(module, "vote", None),
    }


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_pair(bounds: Any) -> bool:
    if not (isinstance(bounds, tuple) and len(bounds) == 2 and all(b is None or _is_number(b) for b in bounds)):
        return False
    return None in bounds or bounds[0] < bounds[1]


def _are_hacks(hacks: Any) -> bool:
    return isinstance(hacks, dict) and all(
        name in get_args(Hack) and isinstance(why, str) for name, why in hacks.items()
    )


def _function(module: ModuleType, name: str | None, spelling: str) -> Callable[..., Any]:
    if name is not None:
        if not callable(getattr(module, name, None)):
            raise PluginError(f"reward {spelling!r}: no function {name!r} in {module.__file__}")
        return getattr(module, name)
    found = [n for n in _FUNCTIONS if callable(getattr(module, n, None))]
    if len(found) != 1:
        raise PluginError(
            f"reward {spelling!r}: {module.__file__} must have exactly one of {', '.join(_FUNCTIONS)}; "
            f"it has {', '.join(found) or 'none'}; name a function of another name as {spelling}:FUNCTION"
        )
    return getattr(module, found[0])


def check_options(reward: Reward, options: Mapping[str, Any], *, where: str) -> None:
    """ConfigError, naming `where`, for an option the reward does not have, lacks, or has with another type."""
    plugins.check_options(reward.function, options, where=where, skip=2)


def check_machine(reward: Reward, options: Mapping[str, Any], *, timeout_s: float, where: str) -> None:
    """ConfigError, naming `where`, when this machine lacks a program, a package or a wall that the reward needs.

    timeout_s: `rewards.timeout_s`, which must leave the reward the time that its own limits promise.
    """
    if reward.preflight is None:
        return
    parameters = inspect.signature(reward.function).parameters
    defaults = {name: p.default for name, p in parameters.items() if p.kind is p.KEYWORD_ONLY}
    try:
        reward.preflight({**defaults, **options}, timeout_s)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error
