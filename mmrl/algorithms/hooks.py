"""The hooks of an algorithm, their order, and the plug-in files that fill them.

A step runs the hooks in this order; each has an identity default, so without plug-ins the algorithm is GRPO.

    draw(pool, count, chance) -> row numbers           which rows of the dataset come next           the loader's order
    sampler(prompt_ids, generator) -> index_P          which of the loader's prompts to use          all, in order
    frames(sample, entry, progress) -> frames or None  other pixels of a prompt's medium             its own
    budget(prompt_ids, group_size) -> n_P              completions per prompt                        group_size
    prefixes(drawn, n_P) -> ids per completion, or ()  forced first tokens of the first round        none
    second_round(batch, generate) -> batch             rows added or replaced by more generation     the batch
    shape_rewards(batch, rewards_N) -> (rewards_N, token_rewards_NC | None)                          unchanged
    keep(batch, rewards_N) -> keep_N                   rows to train on                              all
    replay(batch, rewards_N) -> (batch, rewards_N)     rows merged in from earlier steps             none
    advantage(rewards_N, batch, settings) -> advantage_NC                                            as configured
    token_weight(advantage_NC, batch) -> weight_NC     multiplies the policy term, not the count     ones
    columns(rewards_N, advantage_NC, batch) -> {name: column}    for batch.meta of the loss hooks    none
    policy_loss(inputs) -> (loss_NC, stats)            inputs: a LossInput                           as configured
    regulariser(inputs) -> (loss_NC, stats)            added, coefficient included                   nothing
    aggregate(loss_NC, mask_NC, denom) -> scalar                                                     as configured
    model_loss(name, logprobs_NC, batch) -> loss_N     what a model beside the policy learns from    it is frozen
    on_step_end(batch, rewards_N, metrics) -> None     update trackers                               nothing

A plug-in is a file with some of these functions at module level or, where it has options or state, as methods of a
class `Plugin`. Its options are the keyword arguments of `__init__`, given in `algorithm.plugin_options`; its state is
what `state_dict()` and `load_state_dict(state)` exchange (JSON values, keyed by prompt id). Helpers start with `_`: a
public function that is no hook is an error, because it is most likely a misspelt one. Module constants:

    NEEDS = ("old", "ref", "entropy")   what the batch must hold when advantages are taken: old, ref or a request
    NEEDS_EARLY = ("old",)              what it must hold already at shape_rewards and keep
    REPORTS = ("alternatives:4",)       what the engine says of each token beside its log-prob, at second_round already:
                                        entropy as batch.meta["rollout_entropy"], alternatives:A, the A most likely
                                        tokens, as batch.meta["alternatives"], last dimension ids, then log-probs
    EXTRA = ("mean_logprob",)           requests (algorithms/requests.py) of the trained pass, in inputs.extra
    SEQUENCE_LEVEL = True               its policy_loss has one ratio per sequence
    NEUTRAL = {"coef": 0.0}             options with which it is GRPO; None where there are none
    CONSTANT_GROUP = "..."              what a group of equal rewards gets from it, where that is not 0

What depends on options is an attribute of the instance: `models`, the models beside the policy that it reads
(algorithms/beside.py), and `needs`, further names as in NEEDS.

Several plug-ins chain second_round, shape_rewards and replay in the order of the list, all must agree in keep, weights
multiply, columns are put together, regularisers add up; each of the other hooks may come from one plug-in only.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from mmrl.algorithms.beside import PREFIX, ModelBeside
from mmrl.algorithms.requests import COUNTED, PARAMETRIC, PLAIN, is_request
from mmrl.errors import ConfigError, PluginError, did_you_mean
from mmrl.plugins import check_options, resolve_module

HOOKS = (
    "draw",
    "sampler",
    "frames",
    "budget",
    "prefixes",
    "second_round",
    "shape_rewards",
    "keep",
    "replay",
    "advantage",
    "token_weight",
    "columns",
    "policy_loss",
    "regulariser",
    "aggregate",
    "model_loss",
    "on_step_end",
)
SINGLE_HOOKS = (
    "draw",
    "sampler",
    "frames",
    "budget",
    "prefixes",
    "advantage",
    "policy_loss",
    "aggregate",
    "model_loss",
)
NEEDS = ("old", "ref")
REQUESTS = (*PLAIN, *(f"{name}:<0 to 1>" for name in PARAMETRIC), *(f"{name}:<number>" for name in COUNTED))
_KNOWN = ", ".join((*NEEDS, *REQUESTS))
_STATE_METHODS = ("state_dict", "load_state_dict")


@dataclass(frozen=True, slots=True)
class Plugin:
    """A loaded plug-in. `holder` is the module, or the instance whose state it keeps."""

    spelling: str
    holder: Any
    hooks: dict[str, Callable[..., Any]]
    needs: frozenset[str]
    needs_early: frozenset[str]
    extra: frozenset[str]
    reports: frozenset[str]
    sequence_level: bool
    models: Mapping[str, ModelBeside] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Keys the state in a checkpoint, which may be resumed from another folder."""
        return plugin_name(self.spelling)

    def state_dict(self) -> dict[str, Any]:
        return self.holder.state_dict() if hasattr(self.holder, "state_dict") else {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if hasattr(self.holder, "load_state_dict"):
            self.holder.load_state_dict(state)


def plugin_name(spelling: str) -> str:
    """What a plug-in is called in options and checkpoints: a file's name, else what stands before the colon.

    >>> plugin_name("./mine/halve_easy.py"), plugin_name("opo")
    ('halve_easy', 'opo')
    """
    target = spelling.partition(":")[0]
    return Path(target).stem if target.endswith(".py") else target


def load_plugin(spelling: str, *, options: Mapping[str, Any] | None = None, relative_to: Path | None = None) -> Plugin:
    """Load `name` (in mmrl/algorithms/plugins), `./file.py`, `./file.py:ClassName` or `package.module:ClassName`.

    options: keyword arguments of its class.
    Raises PluginError for a file that is missing, has no hook, a public function that is no hook, or an unknown need;
    ConfigError for an option that its class does not have, lacks, or has with another type.
    """
    module, class_name = resolve_module(spelling, kind="algorithms", relative_to=relative_to)
    factory = getattr(module, class_name or "Plugin", None)
    if class_name and not isinstance(factory, type):
        raise PluginError(f"plug-in {spelling!r}: no class {class_name!r} in {module.__file__}")
    holder = _made(factory, options or {}, spelling) if isinstance(factory, type) else module
    if options and holder is module:
        raise ConfigError(f"plug-in {spelling!r} has no class Plugin, so it takes no options (it is given {options})")
    early, hooks = _needs(module, "NEEDS_EARLY", spelling), _hooks_of(holder, module, spelling)
    models = dict(getattr(holder, "models", {}))
    if "model_loss" not in hooks and (learning := [name for name, model in models.items() if model.lr is not None]):
        raise PluginError(
            f"plug-in {spelling!r}: its model {learning[0]!r} is to learn, but it has no hook 'model_loss'"
        )
    own = {PREFIX + name for name in models}
    return Plugin(
        spelling=spelling,
        holder=holder,
        hooks=hooks,
        needs=_needs(module, "NEEDS", spelling) | _needs(holder, "needs", spelling) | early | own,
        needs_early=early,
        extra=_requests(module, spelling),
        reports=_reports(module, spelling),
        sequence_level=bool(getattr(module, "SEQUENCE_LEVEL", False)),
        models=models,
    )


def _made(factory: type, options: Mapping[str, Any], spelling: str) -> Any:
    check_options(factory, options, where=f"'algorithm.plugin_options' of {spelling!r}")
    return factory(**options)


def _hooks_of(holder: Any, module: ModuleType, spelling: str) -> dict[str, Callable[..., Any]]:
    hooks = {}
    for name, function in inspect.getmembers(holder, callable):
        is_own = holder is not module or getattr(function, "__module__", None) == module.__name__
        if name.startswith("_") or not is_own or isinstance(function, type) or name in _STATE_METHODS:
            continue
        if name not in HOOKS:
            hint = did_you_mean(name, HOOKS) or f"; hooks: {', '.join(HOOKS)}"
            raise PluginError(f"plug-in {spelling!r}: {name!r} is no hook (helpers start with '_'){hint}")
        hooks[name] = function
    if not hooks:
        raise PluginError(f"plug-in {spelling!r} defines no hook; hooks: {', '.join(HOOKS)}")
    return hooks


def _needs(holder: Any, constant: str, spelling: str) -> frozenset[str]:
    needs = frozenset(getattr(holder, constant, ()))
    if unknown := sorted(name for name in needs - set(NEEDS) if not is_request(name)):
        raise PluginError(f"plug-in {spelling!r}: {constant} names {unknown[0]!r}; known: {_KNOWN}")
    return needs


def _requests(module: ModuleType, spelling: str) -> frozenset[str]:
    requests = frozenset(getattr(module, "EXTRA", ()))
    if unknown := sorted(name for name in requests if not is_request(name)):
        raise PluginError(f"plug-in {spelling!r}: EXTRA names {unknown[0]!r}; known: {', '.join(REQUESTS)}")
    return requests


def _reports(module: ModuleType, spelling: str) -> frozenset[str]:
    reports: frozenset[str] = frozenset(getattr(module, "REPORTS", ()))
    for name in sorted(reports):
        kind, _, number = name.partition(":")
        if name != "entropy" and not (kind == "alternatives" and number.isdecimal() and int(number)):
            raise PluginError(f"plug-in {spelling!r}: REPORTS names {name!r}; known: entropy, alternatives:<number>")
    return reports


def chain(plugins: Iterable[Plugin], hook: str) -> list[Callable[..., Any]]:
    """The functions that fill a hook, in the order of the plug-in list."""
    return [plugin.hooks[hook] for plugin in plugins if hook in plugin.hooks]


def check_single_hooks(plugins: Sequence[Plugin]) -> None:
    """Raise PluginError when two plug-ins fill a hook of which there can be only one, or two have, or ask for models
    of, the same name.
    """
    for hook in SINGLE_HOOKS:
        names = [plugin.spelling for plugin in plugins if hook in plugin.hooks]
        if len(names) > 1:
            raise PluginError(f"plug-ins {names[0]!r} and {names[1]!r} both define {hook!r}; keep one of them")
    for name, number in Counter(name for plugin in plugins for name in plugin.models).items():
        if number > 1:
            raise PluginError(f"{number} plug-ins ask for a model called {name!r}; keep one of them")
    for name, number in Counter(plugin.name for plugin in plugins).items():
        if number > 1:
            raise PluginError(
                f"'algorithm.plugins' lists {number} plug-ins called {name!r}; keep or rename one of them"
            )
