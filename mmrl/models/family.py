"""One row of the table of model families."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from mmrl.data.vision import VisionGeometry

ModuleGroup = Literal["vision_tower", "projector", "language_model"]


@dataclass(frozen=True, slots=True)
class Family:
    """What differs between families, beside the geometry of their media.

    name: `model_type` in config.json. architectures: model classes of transformers.
    geometry: reads the geometry from the files of a model folder: geometry(files, family=name).
    module_groups: group -> prefixes of parameter names; the longest prefix that fits decides.
    box_space, time_space: how the released checkpoints write places and times (`model.box_space` overrides it); None:
        they have no form that is known, so tasks with places need the setting.
    banned_tokens: those that stand for or enclose media: never sampled.
    image_mark, clip_mark: what the chat template writes where a medium is; None: the placeholder token itself.
    clip_tokens: whose placeholder token a clip's runs have, and under which name its features go into the model.
    position_axes: positions per token that the language model takes.
    attention: `causal`; `window`: some layers see the last `sliding_window` positions only, and the tokens of a picture
        see each other in both directions.
    run_marks: tokens around every run of a clip that has several, by which vLLM finds them; None: it takes any run.
    engine_prefixes: beginnings of parameter names -> how vLLM has them, where it has them otherwise.
    shares_prefix: its attention takes a tree mask, so a group may be one packed row; else one row per completion.
    """

    name: str
    architectures: tuple[str, ...]
    geometry: Callable[..., VisionGeometry]
    module_groups: Mapping[ModuleGroup, tuple[str, ...]]
    banned_tokens: tuple[str, ...]
    box_space: str | None = None
    time_space: str = "seconds"
    image_mark: str | None = None
    clip_mark: str | None = None
    clip_tokens: Literal["image", "video"] = "video"
    position_axes: Literal[1, 3] = 1
    attention: Literal["causal", "window"] = "causal"
    run_marks: tuple[str, str] | None = None
    engine_prefixes: Mapping[str, str] = field(default_factory=dict)
    shares_prefix: bool = True
