"""What every section of the configuration is made of: the frozen base class, bounded numbers, a budget class."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Probability = Annotated[float, Field(ge=0.0, le=1.0)]
PositiveInt = Annotated[int, Field(gt=0)]
# Far above what any machine holds: a slip of the keyboard, not a wish.
Count = Annotated[int, Field(gt=0, le=10**6)]
NonNegativeInt = Annotated[int, Field(ge=0)]
PositiveFloat = Annotated[float, Field(gt=0.0)]
Beta = Annotated[float, Field(ge=0.0, lt=1.0)]
NonEmptyText = Annotated[str, Field(min_length=1)]
# Becomes a folder: a name with a slash or dots alone could lead out of the run folder.
FolderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Combine = Literal["sum", "product", "ordered", "normalised_sum"]
NonNegativeFloat = Annotated[float, Field(ge=0.0)]


class Section(BaseModel):
    """Base of all sections: frozen, no unknown keys, no silent conversion of types."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=False,
        validate_default=True,
        ser_json_inf_nan="constants",  # resolved.yaml must not turn an infinite option into null
    )


class BudgetClass(Section):
    """How many pixels and frames one medium may cost. Areas in pixels (width x height) of one frame."""

    min_pixels: PositiveInt = Field(
        default=56 * 56, description="least pixels of one frame; smaller media are enlarged"
    )
    max_pixels: PositiveInt = Field(
        default=1280 * 28 * 28, description="most pixels of one frame; larger media are shrunk"
    )
    total_pixels: PositiveInt | None = Field(
        default=None, description="cap over all frames of a clip; null: family default"
    )
    max_frames: PositiveInt = Field(default=64, description="most frames taken of a clip")
    min_frames: PositiveInt = Field(default=4, description="a clip shorter than this uses every frame it has")
    sample_fps: PositiveFloat = Field(default=2.0, description="frames taken per second of a clip")
