"""What `progress`, `tri_state` and `preference_model` share. Light to import: torch comes with the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mmrl.data.sample import Sample
from mmrl.errors import RewardError
from mmrl.scoring.subjects import Footage, instruction_of

if TYPE_CHECKING:
    from mmrl.reward_models.config import Kind
    from mmrl.reward_models.files import RewardModel


@dataclass(frozen=True, slots=True)
class Asked:
    """Options of such a reward: the model, its kind, device and moved encoders, and where frames and words stand."""

    folder: str
    kind: Kind
    device: str = "cpu"
    weights: str | None = None
    text_weights: str | None = None
    frames_column: str | None = None
    text_column: str | None = None

    def model(self) -> RewardModel:
        """Loaded once per process. ConfigError where it cannot be."""
        from mmrl.reward_models.files import Where, reward_model_of

        return reward_model_of(Where(self.folder, self.kind, self.device, self.weights, self.text_weights))


def check_reward_model(options: Mapping[str, Any], *, kind: Kind) -> None:
    """For `preflight`: ConfigError where the model or its encoders cannot be loaded, or it is of another kind."""
    from mmrl.reward_models.files import Where, load_reward_model

    where = Where(options["reward_model"], kind, options["device"], options["weights"], options["text_weights"])
    load_reward_model(where)


def score_rows(samples: Sequence[Sample], asked: Asked) -> list[dict[str, float] | RewardError]:
    """One result a row; rows that are the same sample are scored once, since completions are not read."""
    model = asked.model()
    known: dict[int, dict[str, float] | RewardError] = {}
    for sample in samples:
        if id(sample) not in known:
            known[id(sample)] = _scored(sample, model, asked)
    return [known[id(sample)] for sample in samples]


def _scored(sample: Sample, model: RewardModel, asked: Asked) -> dict[str, float] | RewardError:
    try:
        frames = Footage(asked.frames_column, most=model.config.max_frames).frames(sample)
        column = asked.text_column or model.config.text_column
        text = instruction_of(sample, column=column) if model.encoders.texts is not None else ""
        return model.score(frames, text=text, where=sample.where)
    except RewardError as error:
        return error
