"""The section about a frozen encoder of pictures or texts: an option of rewards, a key of `mmrl train-reward`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, ValidationError

from mmrl.config.section import Count, NonNegativeInt, PositiveInt, Section
from mmrl.config.wording import type_problem
from mmrl.errors import ConfigError, did_you_mean


class EncoderSection(Section):
    """A frozen encoder, loaded from this machine's disk. Nothing is downloaded."""

    kind: Literal["open_clip", "timm", "transformers", "sentence", "table"] = Field(
        description="open_clip and transformers (CLIP, SigLIP): pictures and texts; timm, transformers (DINOv2): "
        "pictures; sentence: texts, by the mean of their tokens; table: vectors written down, to try things out"
    )
    weights: str = Field(
        default="",
        description="folder of transformers, sentence or open_clip; file (.safetensors, .pt) of timm or open_clip",
    )
    model: str = Field(default="", description="architecture of a weights file, as timm or open_clip name it")
    image_size: PositiveInt | None = Field(
        default=None, description="of timm: side of the square it sees; null: the architecture's (DINOv2: 518)"
    )
    device: str = Field(default="cpu", description="where it computes: cpu, cuda, cuda:1")
    dtype: Literal["float32", "bfloat16", "float16"] = Field(default="float32", description="type of its weights")
    batch_size: Count = Field(default=32, description="pictures or texts computed together")
    remembered: NonNegativeInt = Field(default=4096, description="newest vectors kept in memory, by content")
    long_text: Literal["error", "cut"] = Field(
        default="error", description="a text above the encoder's length: the row is an error, or its end is not seen"
    )
    vectors: dict[str, tuple[float, ...]] = Field(
        default_factory=dict, description="of table: a text, or a picture's mean colour as #rrggbb, to its vector"
    )


def read_encoder(options: Mapping[str, Any], *, name: str = "encoder") -> EncoderSection:
    """The section from an option of a reward. ConfigError for a key that is unknown, missing or of another type."""
    known = list(EncoderSection.model_fields)
    try:
        return EncoderSection.model_validate(options)
    except ValidationError as error:
        found = error.errors(include_url=False)[0]
    key = ".".join([name, *(str(part) for part in found["loc"])])
    if found["type"] == "extra_forbidden":
        wrong = str(found["loc"][0])
        raise ConfigError(f"{key} is unknown; known: {', '.join(known)}{did_you_mean(wrong, known)}")
    if found["type"] == "missing":
        raise ConfigError(f"{key} is missing; it has no default")
    raise ConfigError(f"{key} {type_problem(found, keys=[])}")
