"""How far predicted frames are from reference frames: pixels, features and, if wanted, actions (VLA-RFT).

Formula: -sum_t w_t (MAE_t + P_t) - `action_weight` d(actions, answer), not below -`worst`. MAE: mean absolute
difference of pixels in 0..1. P, with an encoder: `layers` 2 (1 - mean cosine of its feature maps), which is LPIPS
without learned weights; `embedding` 1 - cosine. w: equal (`mean`), the last frame alone (`last`), or `decay`^(T - 1 -
t) (`discount`), adding up to 1. d: mean over all numbers of |a - a*| (`l1`), (a - a*)^2 (`mse`) or the Huber loss
(`huber`).
Bounds: at most 0.
Answer: with a `world_model` or `action_weight` a list of actions `[[0.01, -0.02, ..], ..]`, as the dataset's answer is;
what is none gets -`worst`. Else any text: it is not read.
The predicted frames are the world model's, from the row's first picture under the completion's actions; without one
those recorded in the row: its clip, its pictures, or what the paths in `frames_column` show. The reference frames are
what the paths in `reference_column` show; without it the world model's under the answer's actions.
Space: none; actions are in the robot's units, and so is d.
Source: VLA-RFT. There P is LPIPS with learned weights, and the action term is off, as here.
Example: pixels 0.5 0.5 and 0.6 0.4, P 0.08: -0.18; 0 1 and 1 0, P 0.7: -1.7; equal frames 0.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from mmrl.data.sample import Sample
from mmrl.errors import ConfigError, RewardError
from mmrl.scoring.encoders import check_encoder, encoder_of
from mmrl.scoring.gold import bad_answer
from mmrl.scoring.parse import AnswerFormat, extract_prediction
from mmrl.scoring.pictures import mean_difference, stretched
from mmrl.scoring.robot_output import action_distance, rollout_distance
from mmrl.scoring.similarities import layer_cosine
from mmrl.scoring.subjects import Footage, row_picture
from mmrl.scoring.world_model import imagined, read_actions, world_model_of

BOUNDS = (None, 0.0)
NEEDS_MEDIA = True
Perceptual = Literal["layers", "embedding"]


def preflight(options: Mapping[str, Any], timeout_s: float) -> None:
    if options["encoder"] is not None:
        check_encoder(options["encoder"], reads=("pictures",))
    if options["world_model"] is not None:
        world_model_of(options["world_model"])
    elif options["reference_column"] is None:
        raise ConfigError("vla_rft needs the option 'reference_column', or a 'world_model' that makes the reference")


def score(
    completion: str,
    sample: Sample,
    *,
    answer: AnswerFormat = "auto",
    encoder: dict[str, Any] | None = None,
    perceptual: Perceptual = "layers",
    world_model: str | None = None,
    frames_column: str | None = None,
    reference_column: str | None = None,
    over: Literal["mean", "last", "discount"] = "mean",
    decay: float = 0.95,
    action_weight: float = 0.0,
    action_measure: Literal["l1", "mse", "huber"] = "l1",
    worst: float = 2.0,
    most_frames: int = 16,
) -> dict[str, float]:
    """`world_model`: `./file.py:function`. `most_frames`: of recorded frames and of the reference's, evenly."""
    actions = gold = np.zeros((1, 1))
    if world_model is not None or action_weight != 0:
        gold = _gold_actions(sample)
        said = read_actions(extract_prediction(completion, answer=answer) or "")
        if said is None or said.shape != gold.shape:
            return {"reward": -worst}
        actions = said

    def frames(column: str | None, carried_out: np.ndarray) -> list[np.ndarray]:
        if world_model is None or column is not None:
            return Footage(column, most=most_frames).frames(sample)
        return imagined(world_model_of(world_model), row_picture(sample), carried_out, where=sample.where)

    shown, wanted = frames(frames_column, actions), frames(reference_column, gold)
    if len(shown) != len(wanted):
        fact = f"{len(shown)} predicted and {len(wanted)} reference frames"
        raise RewardError(f"{sample.where}: {fact}; there must be as many, they are compared one by one")
    pixels = [mean_difference(*pair) for pair in zip(shown, wanted, strict=True)]
    features = [0.0] * len(shown) if encoder is None else _feature_distances(shown, wanted, encoder, perceptual)
    total = rollout_distance(pixels, features, over=over, decay=decay)
    off = action_distance(actions.ravel().tolist(), gold.ravel().tolist(), kind=action_measure)
    parts = {"frames": total, "pixels": float(np.mean(pixels)), "features": float(np.mean(features))}
    return {"reward": max(-worst, total - action_weight * off), **parts, "actions": off}


def _gold_actions(sample: Sample) -> np.ndarray:
    actions = read_actions(sample.answer)
    if actions is None:
        raise bad_answer(sample, wanted="a list of actions [[number, ...], ...]")
    return actions


def _feature_distances(
    shown: Sequence[np.ndarray], wanted: Sequence[np.ndarray], encoder: dict[str, Any], perceptual: Perceptual
) -> list[float]:
    """Of each predicted frame from its reference."""
    frozen = encoder_of(encoder)
    if perceptual == "embedding":
        cosine_T = (frozen.pictures(shown) * frozen.pictures(wanted)).sum(axis=-1)
        return (1.0 - cosine_T).tolist()
    fitted = [stretched(a, like=b) for a, b in zip(shown, wanted, strict=True)]
    pairs = zip(frozen.layers(fitted), frozen.layers(wanted), strict=True)
    return [2.0 * (1.0 - layer_cosine(*pair)) for pair in pairs]
