"""What is planned of a model: numbers of weights by group, which of them are trained, and the shapes of its layers.

Read from config.json alone, through the model's own classes without weights; where those are not known, numbers of
weights come from the headers of the weight files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mmrl.config.schema import ModelSection
from mmrl.errors import ConfigError
from mmrl.models.families import FAMILIES
from mmrl.models.family import Family
from mmrl.models.freeze import freeze, module_group
from mmrl.models.hub import model_folder
from mmrl.models.layers import place_of
from mmrl.models.load import skeleton
from mmrl.models.lora import check_names
from mmrl.plan.activations import State
from mmrl.plan.shapes import ModelShape, read_shapes
from mmrl.plan.states import PERSISTENT_VALUES, WeightCounts


@dataclass(frozen=True)
class ModelFacts:
    """family: None where it is none of ours. groups: module group -> (weights, those that are trained).

    text, tower, projector: see `activations.State`. text_layers: layers of the language model behind the first one
    that keeps activations. reference: the run keeps the policy that a stage began with. unknown: part -> why it is not
    predicted.
    """

    family: Family | None
    shape: ModelShape
    counts: WeightCounts | None
    groups: dict[str, tuple[int, int]] = field(default_factory=dict)
    text: State = "trained"
    tower: State = "trained"
    projector: State = "trained"
    head_trained: bool = True
    text_layers: int | None = None
    reference: bool = False
    unknown: dict[str, str] = field(default_factory=dict)


def read_model(section: ModelSection) -> ModelFacts:
    """The facts of the section's model. ConfigError for a folder or hub id that is not there, and for names of layers
    that the model does not have; what cannot be predicted is in `unknown`.
    """
    folder = model_folder(section, weights=False)
    config = _config_json(folder)
    family = FAMILIES.get(config.get("model_type", ""))
    try:
        model = skeleton(section)
    except ConfigError as error:
        return _of_headers(folder, family, why=str(error))
    shape = read_shapes(model.config)
    unknown = {f"activations of the {part}": why for part, why in shape.unknown.items()}
    if family is None:
        unknown["trained weights"] = f"{config.get('model_type')!r} is no known family; all weights count as trained"
        counts = _counts(model, trained=lambda _: True)
        return ModelFacts(None, shape, counts, unknown=unknown)
    if section.quantization is not None:
        unknown["weights"] = f"model.quantization {section.quantization} is not computed; counted as {section.dtype}"
    facts = ModelFacts(family, shape, None, unknown=unknown)
    return (
        _adapted(facts, model, section, family) if section.lora is not None else _whole(facts, model, section, family)
    )


def _whole(facts: ModelFacts, model: Any, section: ModelSection, family: Family) -> ModelFacts:
    """Of a model whose weights are trained, but for those that are frozen."""
    freeze(model, section.freeze, family=family, layers=section.freeze_layers)
    trained = {name for name, p in model.named_parameters() if p.requires_grad}
    groups: dict[str, tuple[int, int]] = {}
    for name, parameter in model.named_parameters():
        group = module_group(name, family)
        total, own = groups.get(group, (0, 0))
        groups[group] = (total + parameter.numel(), own + parameter.numel() * (name in trained))
    tower = groups.get("vision_tower", (0, 0))[1] > 0
    projector = groups.get("projector", (0, 0))[1] > 0
    return replace(
        facts,
        counts=_counts(model, trained=lambda name: name in trained),
        groups=groups,
        tower="trained" if tower else "idle",
        projector="trained" if projector else "passed" if tower else "idle",
        text="trained" if groups["language_model"][1] else "passed",
        head_trained=model.lm_head.weight.requires_grad,
        text_layers=None if tower or projector else _layers_behind(facts.shape, trained),
    )


def _adapted(facts: ModelFacts, model: Any, section: ModelSection, family: Family) -> ModelFacts:
    """Of a model with LoRA adapters: two matrices of `rank` beside each linear layer meant, and modules saved whole."""
    lora = section.lora
    assert lora is not None
    targets = check_names(model, lora, family=family)
    sizes = {name: sum(model.get_submodule(name).weight.shape) * lora.rank for name in targets}
    copied = {
        name: p.numel()
        for name, p in model.named_parameters()
        if any(f".{saved}." in f".{name}" for saved in lora.modules_to_save)
    }
    groups: dict[str, tuple[int, int]] = {}
    for name, parameter in model.named_parameters():
        total, own = groups.get(module_group(name, family), (0, 0))
        groups[module_group(name, family)] = (total + parameter.numel(), own)
    for name, size in [*((f"{target}.weight", size) for target, size in sizes.items()), *copied.items()]:
        total, own = groups[module_group(name, family)]
        groups[module_group(name, family)] = (total + size, own + size)
    base, trained = _counts(model, trained=lambda _: False), sum(sizes.values()) + sum(copied.values())
    counts = replace(
        base,
        total=base.total + trained,
        trained=trained,
        largest_trained=max(
            [*(max(model.get_submodule(n).weight.shape) * lora.rank for n in targets), *copied.values()]
        ),
    )
    states: dict[str, State] = {name: "adapted" if own else "idle" for name, (_, own) in groups.items()}
    tower, projector = states.get("vision_tower", "idle"), states.get("projector", "idle")
    if tower != "idle" and projector == "idle":
        projector = "passed"
    text = states["language_model"]
    return replace(
        facts,
        counts=counts,
        groups=groups,
        tower=tower,
        projector=projector,
        text="passed" if text == "idle" else text,
        head_trained="lm_head" in targets or any("lm_head" in name for name in copied),
        text_layers=None
        if projector != "idle"
        else _layers_behind(facts.shape, {f"{name}.weight" for name in targets}),
    )


def _layers_behind(shape: ModelShape, trained: set[str]) -> int | None:
    """Layers of the language model from the first trained one on; None: all, for the embeddings are trained too."""
    if shape.text is None or any("embed_tokens" in name for name in trained):
        return None
    places = [place_of(name) for name in trained]
    first = min((p.layer for p in places if p.part == "language" and p.layer is not None), default=shape.text.layers)
    return shape.text.layers - first


def _counts(model: Any, *, trained: Any) -> WeightCounts:
    sizes = {name: parameter.numel() for name, parameter in model.named_parameters()}
    own = [size for name, size in sizes.items() if trained(name)]
    return WeightCounts(
        total=sum(sizes.values()),
        trained=sum(own),
        largest=max(sizes.values()),
        largest_trained=max(own, default=0),
        small=sum(size for size in sizes.values() if size <= PERSISTENT_VALUES),
    )


def _of_headers(folder: Path, family: Family | None, *, why: str) -> ModelFacts:
    sizes = list(_header_sizes(folder))
    unknown = {"activations": why}
    counts = None
    if sizes:
        count = sum(sizes)
        counts = WeightCounts(total=count, trained=count, largest=max(sizes), largest_trained=max(sizes))
        unknown["trained weights"] = "the model's classes are not known; all weights in its files count as trained"
    else:
        unknown["weights"] = why
    return ModelFacts(family, ModelShape(None, None, {}), counts, unknown=unknown)


def _header_sizes(folder: Path) -> Iterator[int]:
    """Values of every tensor in the folder's safetensors files, from their headers."""
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            try:
                header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
            except (ValueError, MemoryError) as error:
                raise ConfigError(f"{path}: damaged header ({error})") from error
        for name, tensor in header.items():
            if name != "__metadata__":
                size = 1
                for side in tensor["shape"]:
                    size *= side
                yield size


def _config_json(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"model.path {folder}: config.json cannot be read ({error.strerror}); is this a model folder?"
        ) from error
    except ValueError as error:
        raise ConfigError(f"{path}: not valid JSON ({error})") from error
