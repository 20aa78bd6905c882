"""Reward models with weights drawn by a seed, in a folder that is gone afterwards: for golden cases and tests."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mmrl.config.load import validate
from mmrl.config.tree import Origin, as_node
from mmrl.reward_models.clips import Encoders
from mmrl.reward_models.config import RewardModelConfig
from mmrl.reward_models.files import save_reward_model
from mmrl.reward_models.fit import first_head


@contextmanager
def drawn_model(values: Mapping[str, Any]) -> Iterator[Path]:
    """A folder with the untrained model of a configuration; `data` and `out` may be left out, `mean_gain` is 4.

    The encoders must be of kind `table`, whose width is known without a picture.
    """
    tree = as_node({"out": "", **values}, Origin())
    config = validate(tree, RewardModelConfig)
    encoders = Encoders.of(config)
    picture_width = encoders.pictures.texts(["x"]).shape[1]
    text_width = 0 if encoders.texts is None else encoders.texts.texts(["x"]).shape[1]
    with tempfile.TemporaryDirectory() as name:
        head = first_head(config, picture_width=picture_width, text_width=text_width)
        save_reward_model(Path(name), head, config=config, facts={"mean_gain": 4.0}, metrics={})
        yield Path(name)
