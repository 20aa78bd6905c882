"""Contradictions around the cache; part of mmrl.config.checks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mmrl.config.checks import Located

VISION_GROUPS = ("vision_tower", "projector")
_ELSE = "or set 'cache.level' to auto or pixels"


def check_cache(run: Located) -> Iterator[str]:
    cache = run.config.cache
    if cache.max_local_gb is not None and cache.remote is None:
        fact = "'cache.max_local_gb' is what the folder keeps of 'cache.remote', which is not set"
        yield run.at("cache.max_local_gb", f"{fact}; set it, or keep the folder small with `mmrl cache prune`")
    yield from _check_level(run)


def _check_level(run: Located) -> Iterator[str]:
    model, cache = run.config.model, run.config.cache
    if cache.level != "features":
        return
    fact = "'cache.level' is features, which needs every module between pixels and language model frozen"
    if model.lora is None:
        trained = [group for group in VISION_GROUPS if group not in model.freeze]
        if trained:
            said = f"{fact}, but 'model.freeze' leaves out {' and '.join(trained)}"
            yield run.at("cache.level", f"{said}; add {', '.join(trained)} to 'model.freeze', {_ELSE}")
        return
    for key in ("targets", "modules_to_save"):
        for i, name in enumerate(getattr(model.lora, key)):
            if name in VISION_GROUPS:
                where = f"model.lora.{key}.{i}"
                yield run.at(where, f"{fact}, but 'model.lora.{key}' names {name}; leave it out, {_ELSE}")
