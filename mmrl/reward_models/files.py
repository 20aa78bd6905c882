"""A trained reward model on disk, and as rewards use it.

model.safetensors    weights of the head
reward_model.json    its kind and size, its encoders with their fingerprints, what was measured
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from mmrl.errors import ConfigError
from mmrl.reward_models.clips import Encoders
from mmrl.reward_models.config import Kind, RewardModelConfig
from mmrl.reward_models.heads import Head, make_head
from mmrl.reward_models.kinds import KINDS, Metrics
from mmrl.scoring.encoders import fingerprint

_WEIGHTS, _CARD, _VERSION = "model.safetensors", "reward_model.json", 2
_ENCODERS = ("encoder", "text_encoder")


@dataclass(frozen=True, slots=True)
class RewardModel:
    """A head with its frozen encoders, ready to score."""

    head: Head
    encoders: Encoders
    config: RewardModelConfig
    facts: dict[str, Any]

    def score(self, frames: Sequence[np.ndarray], *, text: str, where: str) -> Metrics:
        """`reward` and other numbers of a clip: frames uint8 RGB, the instruction, the sample for messages."""
        clip = self.encoders.clip(frames, text=text, where=where)
        return KINDS[self.config.kind](self.config).score(self.head, clip, self.facts)


@dataclass(frozen=True, slots=True)
class Where:
    """Which reward model a reward uses. weights, text_weights: where its encoders lie now, if they were moved."""

    folder: str
    kind: Kind
    device: str = "cpu"
    weights: str | None = None
    text_weights: str | None = None


def save_reward_model(
    folder: Path, head: Head, *, config: RewardModelConfig, facts: dict[str, Any], metrics: Metrics
) -> None:
    """Write both files. The encoders are named, not copied."""
    card = {
        "version": _VERSION,
        "picture_width": head.picture_width,
        "text_width": head.text_width,
        "fingerprints": {name: _fingerprint(config, name) for name in _ENCODERS},
        "facts": facts,
        "metrics": metrics,
        "config": config.model_dump(mode="json"),
    }
    save_file({name: value.detach().contiguous().cpu() for name, value in head.state_dict().items()}, folder / _WEIGHTS)
    (folder / _CARD).write_text(json.dumps(card, indent=1), encoding="utf-8")


def load_reward_model(where: Where) -> RewardModel:
    """The reward model in a folder.

    ConfigError for a folder that holds none or one of another kind, for weights that do not fit, and for an encoder
    that is missing or is not the one it was trained on.
    """
    card = _read_card(Path(where.folder))
    config = _config(card, where)
    if config.kind != where.kind:
        raise ConfigError(f"{where.folder} holds a reward model of kind {config.kind!r}, not {where.kind!r}")
    encoders = Encoders.of(config)
    for name in _ENCODERS:
        if _fingerprint(config, name) != card["fingerprints"][name]:
            raise ConfigError(
                f"{where.folder}: the weights of {name!r} are not those that the reward model was trained on; name the "
                "right ones with the options weights and text_weights, or train it again"
            )
    head = make_head(config, picture_width=card["picture_width"], text_width=card["text_width"])
    try:
        head.load_state_dict(load_file(Path(where.folder) / _WEIGHTS))
    except (OSError, SafetensorError, RuntimeError) as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError(f"{where.folder}/{_WEIGHTS} cannot be loaded: {reason}; train it again") from error
    return RewardModel(head.to(where.device).eval().requires_grad_(False), encoders, config, card["facts"])


@functools.lru_cache(maxsize=8)
def reward_model_of(where: Where) -> RewardModel:
    """`load_reward_model`, once per process."""
    return load_reward_model(where)


def _read_card(folder: Path) -> dict[str, Any]:
    path = folder / _CARD
    if not path.is_file():
        raise ConfigError(f"{folder} holds no reward model ({_CARD}); make one with `mmrl train-reward CONFIG`")
    try:
        card = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}; train it again") from error
    if not isinstance(card, dict) or card.get("version") != _VERSION:
        raise ConfigError(f"{path} is of another version than this program reads; train it again")
    return card


def _config(card: dict[str, Any], where: Where) -> RewardModelConfig:
    values = card["config"]
    for name, weights in (("encoder", where.weights), ("text_encoder", where.text_weights)):
        if values.get(name) is not None:
            moved = {} if weights is None else {"weights": weights}
            values[name] = {**values[name], **moved, "device": where.device}
    try:
        return RewardModelConfig.model_validate_json(json.dumps(values))
    except ValidationError as error:
        raise ConfigError(f"{where.folder}/{_CARD} is no configuration of a reward model; train it again") from error


def _fingerprint(config: RewardModelConfig, name: str) -> str | None:
    section = getattr(config, name)
    return None if section is None else fingerprint(section)
