"""Layers by the names of their parameters: which part and layer a parameter belongs to, and ranges of layers. Pure.

language:0-7    layers 0 to 7 of the language model; without a part the language model is meant
vision:4        layer 4 of the vision tower
others          what belongs to no layer: embeddings, output head, final norms, projector
all, none
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mmrl.errors import ConfigError

PARTS: tuple[str, ...] = ("language", "vision")
_LAYER = re.compile(r"(?:^|\.)(?:layers|blocks|layer)\.(\d+)\.")
_RANGE = re.compile(r"(?:(language|vision):)?(\d+)(?:-(\d+))?")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a parameter belongs. layer: None outside of layers. module: of its layer, or its name without the end."""

    part: str
    layer: int | None
    module: str

    @property
    def name(self) -> str:
        """`language 3`, or `others`."""
        return "others" if self.layer is None else f"{self.part} {self.layer}"


def place_of(parameter: str) -> Place:
    """The place of a parameter, under the names of model files and of modules alike.

    >>> place_of("model.language_model.layers.3.self_attn.q_proj.weight")
    Place(part='language', layer=3, module='self_attn')
    >>> place_of("lm_head.weight")
    Place(part='others', layer=None, module='lm_head')
    """
    found = _LAYER.search(parameter)
    if found is None:
        return Place("others", None, parameter.rpartition(".")[0] or parameter)
    part = "vision" if "vis" in parameter[: found.start()] else "language"
    return Place(part, int(found[1]), parameter[found.end() :].partition(".")[0])


@dataclass(frozen=True, slots=True)
class LayerRanges:
    """A choice of layers. spans: (part, first layer, last layer)."""

    spans: tuple[tuple[str, int, int], ...] = ()
    others: bool = False
    everything: bool = False

    def __contains__(self, place: Place) -> bool:
        if self.everything:
            return True
        if place.layer is None:
            return self.others
        return any(place.part == part and first <= place.layer <= last for part, first, last in self.spans)


def read_ranges(words: Sequence[str], *, where: str) -> LayerRanges:
    """The choice that words as of the module's docstring make. ConfigError, beginning with `where`, for other words.

    >>> place_of("model.layers.3.mlp.up_proj.weight") in read_ranges(["0-3"], where="layers")
    True
    """
    spans: list[tuple[str, int, int]] = []
    for word in words:
        found = _RANGE.fullmatch(word)
        if found is not None:
            part, first, last = found[1] or "language", int(found[2]), int(found[3] or found[2])
            if last < first:
                raise ConfigError(f"{where}: the range {word!r} ends before it begins; write {last}-{first}")
            spans.append((part, first, last))
        elif word not in ("all", "none", "others"):
            known = "0-7, vision:0-7, others, all or none"
            raise ConfigError(f"{where}: {word!r} is no range of layers; write such as {known}")
    if "none" in words and len(words) > 1:
        raise ConfigError(f"{where}: 'none' beside other ranges; leave it out")
    return LayerRanges(tuple(spans), others="others" in words, everything="all" in words)


def check_ranges(ranges: LayerRanges, parameters: Iterable[str], *, where: str) -> None:
    """ConfigError for a range that reaches beyond the layers that there are."""
    last = dict.fromkeys(PARTS, -1)
    for place in map(place_of, parameters):
        if place.layer is not None:
            last[place.part] = max(last[place.part], place.layer)
    for part, _, end in ranges.spans:
        if end > last[part]:
            there = f"layers 0 to {last[part]}" if last[part] >= 0 else "no layers"
            raise ConfigError(f"{where}: {part} layer {end} is asked for, but the model's {part} part has {there}")
