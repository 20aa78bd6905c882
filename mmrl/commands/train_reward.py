"""`mmrl train-reward CONFIG`: train a reward model on frozen encoders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def train_reward_command(config: Path, overrides: Sequence[str] = ()) -> int:
    """Train, print measurements, write the folder; 0."""
    from mmrl.reward_models.config import load_reward_model_config

    loaded = load_reward_model_config(config, overrides)
    from mmrl.reward_models.fit import train_reward

    train_reward(loaded)
    return 0
