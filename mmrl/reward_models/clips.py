"""Clips and pairs as reward models see them: vectors of frozen encoders.

Shapes: F frames, D values of a picture's vector, E values of a text's vector.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mmrl.config.schema import DatasetSection
from mmrl.data.readers import read_datasets
from mmrl.data.sample import MediaRef, Sample
from mmrl.data.skipped import Skipped, SkippedLog
from mmrl.errors import ConfigError, DataError, MediaError, RewardError
from mmrl.reward_models.config import RewardModelConfig
from mmrl.scoring.encoders import Encoder, encoder_of
from mmrl.scoring.subjects import instruction_of, media_frames

_LEAST_PAIR_DISTANCE = 1e-3


@dataclass(frozen=True, slots=True, eq=False)
class Clip:
    """A clip with what is known about it. frames_FD, text_E: unit vectors. where: for messages.

    states: of tri_state, +1, 0 or -1 per interval between its frames. completed: whether it ends in success.
    """

    frames_FD: np.ndarray
    text_E: np.ndarray | None
    text: str
    where: str
    states: tuple[int, ...] = ()
    completed: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """Two clips (or pictures) under one goal. label: 1 where the second is preferred, 0 where the first is."""

    first: Clip
    second: Clip
    label: int


@dataclass(frozen=True, slots=True)
class Encoders:
    """The frozen encoders of a reward model."""

    pictures: Encoder
    texts: Encoder | None

    @classmethod
    def of(cls, config: RewardModelConfig) -> Encoders:
        texts = None if config.text_encoder is None else encoder_of(config.text_encoder, name="text_encoder")
        return cls(encoder_of(config.encoder), texts)

    def clip(self, frames: Sequence[np.ndarray], *, text: str, where: str, **more: Any) -> Clip:
        """A clip from its frames, uint8 RGB, and its instruction."""
        text_E = None
        if self.texts is not None:
            text_E = self.texts.texts([self.texts.check_text(text, where=where)])[0]
        return Clip(self.pictures.pictures(frames), text_E, text, where, **more)


def read_clips(config: RewardModelConfig, sections: Sequence[DatasetSection], encoders: Encoders) -> list[Clip]:
    """The clips of datasets: a row's first clip, else its pictures in order. A bad row raises, or is left out and
    counted, as `data.bad_row` and `data.bad_media` say."""
    return list(_read(config, sections, lambda sample: _clip(sample, config, encoders)))


def read_pairs(config: RewardModelConfig, sections: Sequence[DatasetSection], encoders: Encoders) -> list[Pair]:
    """The pairs of datasets: a row's two clips or pictures, and the answer 0, 1 or -1 (unsure: left out).

    Pairs that look alike to the encoder (less than 1e-3 apart) are left out as well, as in RL-VLM-F.
    """
    pairs = _read(config, sections, lambda sample: _pair(sample, config, encoders))
    return [pair for pair in pairs if pair is not None and _distance(pair) >= _LEAST_PAIR_DISTANCE]


def _read(config: RewardModelConfig, sections: Sequence[DatasetSection], make: Any) -> Iterator[Any]:
    log = SkippedLog(None, max_fraction=config.data.max_skipped_fraction)
    for rows in read_datasets(sections, data=config.data, relative_to=Path.cwd(), skipped=log):
        for index in range(len(rows)):
            sample = rows[index]
            try:
                yield make(sample)
            except (MediaError, RewardError) as error:
                kind = "bad_media" if isinstance(error, MediaError) else "bad_row"
                if getattr(config.data, kind) == "error":
                    reason = str(error).removeprefix(f"{sample.where}: ")
                    raise DataError(reason, where=sample.where, sample_id=sample.sample_id) from error
                log.skip(Skipped.of(sample, kind=kind, reason=str(error)))
        log.check()


def _clip(sample: Sample, config: RewardModelConfig, encoders: Encoders) -> Clip:
    text = instruction_of(sample, column=config.text_column) if config.text_encoder is not None else ""
    if config.kind != "tri_state":
        return encoders.clip(_frames(sample, sample.media, config.max_frames), text=text, where=sample.where)
    states, completed = tri_states(sample)
    frames = _frames(sample, sample.media, len(states) + 1)
    if len(frames) != len(states) + 1:
        raise RewardError(
            f"{sample.where}: {len(states)} intervals need {len(states) + 1} frames; it has {len(frames)}"
        )
    return encoders.clip(frames, text=text, where=sample.where, states=states, completed=completed)


def _frames(sample: Sample, media: Sequence[MediaRef], most: int) -> list[np.ndarray]:
    frames = media_frames(media, most=most)
    if not frames:
        raise RewardError(f"{sample.where}: the row has neither a clip nor pictures")
    return frames


def tri_states(sample: Sample) -> tuple[tuple[int, ...], bool]:
    """The intervals of a row's answer, [1, 1, 0, -1, 1], and whether the clip ends in success.

    {"states": [...], "completed": false} is one that does not. RewardError, naming the sample, for anything else.
    """
    answer = sample.answer if isinstance(sample.answer, dict) else {"states": sample.answer}
    states: Any = answer.get("states")
    completed = answer.get("completed", True)
    good = isinstance(states, list | tuple) and len(states) > 0 and all(type(s) is int and abs(s) <= 1 for s in states)
    if not good or not isinstance(completed, bool):
        raise RewardError(f"{sample.where}: the answer {sample.answer!r:.80} is no list of 1, 0 and -1 per interval")
    if completed and sum(states) <= 0:
        raise RewardError(f"{sample.where}: intervals with a net gain of {sum(states)} cannot end in success")
    return tuple(states), completed


def _pair(sample: Sample, config: RewardModelConfig, encoders: Encoders) -> Pair | None:
    if type(sample.answer) is not int or sample.answer not in (-1, 0, 1):
        raise RewardError(f"{sample.where}: the answer {sample.answer!r:.80} is not 0, 1 or -1 (unsure)")
    if len(sample.media) != 2:
        raise RewardError(
            f"{sample.where}: a preference is between 2 clips or pictures; the row has {len(sample.media)}"
        )
    if sample.answer == -1:
        return None
    text = instruction_of(sample, column=config.text_column) if config.text_encoder is not None else ""
    first, second = (
        encoders.clip(_frames(sample, [medium], config.max_frames), text=text, where=sample.where)
        for medium in sample.media
    )
    return Pair(first, second, sample.answer)


def _distance(pair: Pair) -> float:
    return float(np.linalg.norm(pair.first.frames_FD.mean(axis=0) - pair.second.frames_FD.mean(axis=0)))


def check_clips(clips: Sequence[Clip], *, least: int, split: str) -> None:
    """DataError for a clip with fewer frames than its reward model needs; ConfigError for no clip at all."""
    if not clips:
        raise ConfigError(f"data.{split} holds nothing to learn from")
    for clip in clips:
        if len(clip.frames_FD) < least:
            raise DataError(f"{len(clip.frames_FD)} frames are too few, at least {least} are needed", where=clip.where)
