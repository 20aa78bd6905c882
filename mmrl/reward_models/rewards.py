"""The rewards `progress`, `tri_state` and `preference_model`: one form, three kinds. Light to import: torch comes with
the model."""

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
class TrainedReward:
    """The reward of a kind of reward models; its methods are what a reward file defines.

    TRAINED = TrainedReward("progress")
    preflight, score_batch = TRAINED.preflight, TRAINED.score_batch
    """

    kind: Kind

    def preflight(self, options: Mapping[str, Any], timeout_s: float) -> None:
        """ConfigError where the model or one of its encoders cannot be loaded, or the model is of another kind."""
        from mmrl.reward_models.files import Where, load_reward_model

        place = (options[name] for name in ("device", "weights", "text_weights"))
        load_reward_model(Where(options["reward_model"], self.kind, *place))

    def score_batch(
        self,
        completions: Sequence[str],
        samples: Sequence[Sample],
        *,
        reward_model: str,
        frames_column: str | None = None,
        text_column: str | None = None,
        device: str = "cpu",
        weights: str | None = None,
        text_weights: str | None = None,
    ) -> list[dict[str, float] | RewardError]:
        """One result a completion; completions are not read, so those of one sample are scored once.

        `reward_model`: folder that `mmrl train-reward` wrote. `frames_column`: names the frames by paths; else the
        row's clip or pictures. `text_column`: holds the instruction; else the row's question. `device`: where the model
        and its encoders compute. `weights`, `text_weights`: where the encoders lie now, if they were moved.
        """
        from mmrl.reward_models.files import Where, reward_model_of

        model = reward_model_of(Where(reward_model, self.kind, device, weights, text_weights))
        known: dict[int, dict[str, float] | RewardError] = {}
        for sample in samples:
            if id(sample) not in known:
                known[id(sample)] = _scored(sample, model, frames_column, text_column)
        return [known[id(sample)] for sample in samples]


def _scored(
    sample: Sample, model: RewardModel, frames_column: str | None, text_column: str | None
) -> dict[str, float] | RewardError:
    try:
        frames = Footage(frames_column, most=model.config.max_frames).frames(sample)
        column = text_column or model.config.text_column
        text = instruction_of(sample, column=column) if model.encoders.texts is not None else ""
        return model.score(frames, text=text, where=sample.where)
    except RewardError as error:
        return error
