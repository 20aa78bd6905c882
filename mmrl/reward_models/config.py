"""The configuration of `mmrl train-reward`: a YAML file of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from mmrl.config.data_sections import DataSection
from mmrl.config.encoder_section import EncoderSection
from mmrl.config.load import load_section
from mmrl.config.section import Count, NonNegativeFloat, PositiveFloat, PositiveInt, Probability, Section
from mmrl.errors import ConfigError

Kind = Literal["progress", "tri_state", "preference"]


class HeadSection(Section):
    """The size of what is trained. null: by kind."""

    hidden: Count = Field(default=512, description="width")
    layers: PositiveInt | None = Field(
        default=None, description="transformer layers (MLP layers of preference); null: progress 4, tri_state 8, else 2"
    )
    heads: PositiveInt = Field(default=8, description="attention heads")
    dropout: Probability = Field(default=0.1, description="of the transformer")
    frames: PositiveInt | None = Field(
        default=None, description="frames seen at once; null: progress 16, tri_state 5; preference takes any number"
    )
    members: PositiveInt = Field(default=3, description="of preference: heads whose mean is the reward")


class FitSection(Section):
    """How it is trained."""

    steps: PositiveInt = Field(default=1000, description="optimizer steps")
    batch_size: Count = Field(default=64, description="clips, windows or pairs a step")
    lr: PositiveFloat = Field(default=1e-4, description="learning rate of AdamW")
    weight_decay: NonNegativeFloat = Field(default=1e-4, description="of AdamW")
    measure_every: PositiveInt = Field(default=100, description="steps between measurements on data.val")
    rewind: Probability = Field(default=0.8, description="of progress: share of pieces that are played back")
    mismatch: Probability = Field(default=0.2, description="of progress: share of clips shown with another's text")
    device: str = Field(default="cpu", description="where the head is trained")


class RewardModelConfig(Section):
    """Everything that training a reward model needs."""

    kind: Kind = Field(description="progress (ReWiND), tri_state (ARM) or preference (RL-VLM-F)")
    out: str = Field(description="folder to write; relative to the current directory")
    seed: int = Field(default=0, description="of first weights, batches and augmentation")
    encoder: EncoderSection = Field(description="frozen encoder of frames")
    text_encoder: EncoderSection | None = Field(default=None, description="frozen encoder of instructions; null: none")
    text_column: str | None = Field(default=None, description="column with the instruction; null: the last question")
    data: DataSection = Field(default_factory=DataSection, description="clips or pairs to train on and held-out ones")
    max_frames: Count = Field(default=64, description="frames encoded of each clip, evenly")
    head: HeadSection = Field(default_factory=HeadSection, description="what is trained")
    fit: FitSection = Field(default_factory=FitSection, description="how it is trained")

    @property
    def window(self) -> int:
        """Frames the head sees at once."""
        return self.head.frames or {"progress": 16, "tri_state": 5, "preference": 1}[self.kind]

    @property
    def depth(self) -> int:
        return self.head.layers or {"progress": 4, "tri_state": 8, "preference": 2}[self.kind]


_DATA = tuple(("data", split, "*") for split in ("train", "val"))
_PATHS = (
    ("encoder", "weights"),
    ("text_encoder", "weights"),
    *((*place, key) for place in _DATA for key in ("path", "root")),
)
_CARDS = tuple((*place, "card") for place in _DATA)


def load_reward_model_config(path: Path, overrides: Sequence[str] = ()) -> RewardModelConfig:
    """The configuration in a file. ConfigError with file, line and key for whatever cannot be trained."""
    config = load_section(path, RewardModelConfig, overrides, paths=_PATHS, cards=_CARDS)
    problems = {
        "'data.train' is empty; name the clips to train on": not config.data.train,
        f"'head.hidden' ({config.head.hidden}) is no multiple of 'head.heads' ({config.head.heads}); change one": (
            config.kind != "preference" and config.head.hidden % config.head.heads != 0
        ),
        f"'head.frames' is {config.head.frames}; {config.kind} looks at 2 frames or more": (
            config.kind != "preference" and config.window < 2
        ),
        "'max_frames' must be at least 4, so that a clip has a beginning and an end": config.max_frames < 4,
        "'fit.mismatch' shows clips with another's text, but there is no 'text_encoder'; add one or set it to 0": (
            config.kind == "progress" and config.text_encoder is None and config.fit.mismatch > 0
        ),
    }
    for problem in (text for text, wrong in problems.items() if wrong):
        raise ConfigError(f"{path}: {problem}")
    return config
