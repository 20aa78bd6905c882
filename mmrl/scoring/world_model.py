"""A world model that the user brings: what a camera would see while actions are carried out.

Shape letters: T actions, A dimensions of an action, H height, W width, 3 channels (red, green, blue).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from mmrl.errors import ConfigError, PluginError
from mmrl.plugins import resolve_function
from mmrl.scoring.literals import as_numbers, read_literal

WorldModel = Callable[[np.ndarray, np.ndarray], Iterable[Any]]
"""Of a first frame, uint8 (H, W, 3), and actions, float (T, A): the frames that follow, uint8 (H, W, 3) each."""


def world_model_of(spelling: str) -> WorldModel:
    """The function that `./file.py:function` or `package.module:function` names. ConfigError where there is none."""
    if ":" not in spelling:
        raise ConfigError(f"world_model is {spelling!r}; write ./file.py:function or package.module:function")
    try:
        return resolve_function(spelling, kind="rewards", default="")
    except PluginError as error:
        raise ConfigError(f"world_model: {error}") from error


def imagined(world_model: WorldModel, first_HW3: np.ndarray, actions_TA: np.ndarray, *, where: str) -> list[np.ndarray]:
    """The frames of a rollout. PluginError, naming the sample, where they are no pictures."""
    frames = [np.asarray(frame) for frame in world_model(first_HW3, actions_TA)]
    bad = next((f for f in frames if f.ndim != 3 or f.shape[2] != 3 or f.dtype != np.uint8), None)
    if bad is None and frames:
        return frames
    shown = "no frame" if bad is None else f"an array {bad.dtype} of shape {bad.shape}"
    raise PluginError(f"{where}: the world model returned {shown}; it must return pictures, uint8 (H, W, 3)")


def read_actions(value: Any) -> np.ndarray | None:
    """Actions (T, A): a list of lists of numbers of one length, or text that says so; None for anything else.

    >>> read_actions("[[0.5, 1], [0, -1]]").tolist(), read_actions([[1], [1, 2]]), read_actions("left")
    ([[0.5, 1.0], [0.0, -1.0]], None, None)
    """
    value = read_literal(value) if isinstance(value, str) else value
    rows = [as_numbers(row) for row in value] if isinstance(value, list | tuple) else []
    if not rows or not rows[0] or any(row is None or len(row) != len(rows[0]) for row in rows):
        return None
    return np.array(rows, dtype=np.float64)
