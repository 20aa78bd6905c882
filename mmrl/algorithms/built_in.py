"""What the settings of `algorithm:` alone ask for: the built-in functions, and what these need the batch to hold."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mmrl.algorithms.registry import Entry
from mmrl.config.schema import AlgorithmSection
from mmrl.plugins import check_options, resolve_function


def own_needs(section: AlgorithmSection) -> frozenset[str]:
    """The reference only for its KL; old only when a later update sees a policy that has moved since, or when it is not
    the trained policy that the ratio compares with.
    """
    needs = {"ref"} if section.ref_kl_coef else set()
    if section.updates_per_batch * section.epochs_per_batch > 1 or section.old_logprobs == "sampler":
        needs.add("old")
    return frozenset(needs)


def own_early_needs(section: AlgorithmSection) -> frozenset[str]:
    return frozenset({"old", "ref"} if section.ref_kl_coef and section.ref_kl_in == "reward" else ())


def own_extra(section: AlgorithmSection, needs: frozenset[str]) -> frozenset[str]:
    return frozenset([*(["entropy"] if section.entropy_coef else []), *(["value"] if "value" in needs else [])])


def own_regularisers(section: AlgorithmSection, has_value_head: bool) -> list[str]:
    names = ["ref_kl"] if section.ref_kl_coef and section.ref_kl_in == "loss" else []
    return [*names, *(["entropy"] if section.entropy_coef else []), *(["value"] if has_value_head else [])]


def entry(name: str, table: dict[str, Entry]) -> Entry:
    """What is known of a built-in; a function of the user's own may use anything."""
    return table.get(name, Entry(name, token_rewards=True))


def built_in(
    section: AlgorithmSection, key: str, table: dict[str, Entry], *, relative_to: Path | None
) -> Callable[..., Any]:
    """The function that `algorithm.<key>` names, with the options that `algorithm.<key>_options` gives it."""
    name, options = getattr(section, key), getattr(section, f"{key}_options")
    spelling = entry(name, table).function
    function = resolve_function(spelling, kind="algorithms", default=key, relative_to=relative_to)
    positional = 3 if key == "advantage" else 1
    check_options(function, options, where=f"'algorithm.{key}_options' of {name!r}", skip=positional)
    return functools.partial(function, **options) if options else function
