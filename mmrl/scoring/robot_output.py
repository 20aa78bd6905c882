"""What robot models write: VLA-R1's tagged JSON, action tokens, and the numbers behind them. Pure.

Shape letters: A dimensions of an action (dx, dy, dz, roll, pitch, yaw, gripper for most arms).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mmrl.data.sample import Sample
from mmrl.errors import RewardError, did_you_mean
from mmrl.scoring.literals import as_numbers, read_literal

BINS = 256
_EDGES = np.linspace(-1.0, 1.0, BINS)
_CENTRES = (_EDGES[:-1] + _EDGES[1:]) / 2
_SMALL = 1e-8
_TAG = re.compile(r"</?(?:think|output)>", re.IGNORECASE)
_MARK = re.compile(r"<action_(\d{1,6})>")
_IN_FORM = ["<think>", "</think>", "<output>", "</output>"]


def read_output(completion: str) -> tuple[Any, bool]:
    """The JSON of the one `<output>` block (None where there is none), and whether the whole completion has the form.

    The form: `<think>..</think><output>..</output>`, each tag once in any case, a thought, and nothing outside.

    >>> read_output("<think>left</think><output>[[0.1, 0.2]]</output>"), read_output("<output>[1]</output>")
    (([[0.1, 0.2]], True), ([1], False))
    """
    tags = list(_TAG.finditer(completion))
    names = [tag[0].lower() for tag in tags]
    if names.count("<output>") != 1 or names[-2:] != ["<output>", "</output>"]:
        return None, False
    value = read_literal(completion[tags[-2].end() : tags[-1].start()])
    if value is None or names != _IN_FORM:
        return value, False
    outside = completion[: tags[0].start()] + completion[tags[1].end() : tags[2].start()] + completion[tags[3].end() :]
    return value, bool(completion[tags[0].end() : tags[1].start()].strip()) and not outside.strip()


def encode_bins(action_A: Sequence[float]) -> list[int]:
    """Bin of each value in -1..1, 0 to 255; values beyond are clipped. There are 255 intervals, 255 is the value 1.

    >>> encode_bins([-1, -0.5, 0, 0.3, 1])
    [0, 63, 127, 165, 255]
    """
    return (np.digitize(np.clip(action_A, -1.0, 1.0), _EDGES) - 1).tolist()


def decode_bins(bins_A: Sequence[int]) -> np.ndarray:
    """The middle of each bin, (A,); 255 is read as 254.

    >>> decode_bins([0, 63, 127, 165, 255]).round(4).tolist()
    [-0.9961, -0.502, 0.0, 0.298, 0.9961]
    """
    return _CENTRES[np.clip(bins_A, 0, BINS - 2)]


def bins_to_tokens(bins_A: Sequence[int], *, vocab_size: int) -> list[int]:
    """OpenVLA's token ids: the last of the vocabulary, counted backwards.

    >>> bins_to_tokens([0, 63, 127, 165, 255], vocab_size=32000)
    [31999, 31936, 31872, 31834, 31744]
    """
    return [vocab_size - 1 - bin for bin in bins_A]


def tokens_to_bins(tokens_A: Sequence[int], *, vocab_size: int) -> list[int] | None:
    """The bins of token ids; None where one of them is no action token."""
    bins = [vocab_size - 1 - token for token in tokens_A]
    return bins if all(0 <= bin < BINS for bin in bins) else None


def parse_bins(text: str, *, vocab_size: int | None = None) -> list[int] | None:
    """The bins that the whole text is: `128 91 ...`, `[128, 91, ...]` or `<action_128><action_91>...`; None otherwise.

    vocab_size: the numbers are token ids of such a vocabulary.
    """
    value = read_literal(text)
    if value is None and len(text) < 2000:
        bare = _MARK.sub(r"\1 ", text).replace(",", " ").split()
        value = [int(word) for word in bare] if bare and all(re.fullmatch(r"\d{1,6}", word) for word in bare) else None
    numbers = as_numbers([value] if isinstance(value, int) else value)
    if not numbers or any(n != int(n) for n in numbers):
        return None
    integers = [int(n) for n in numbers]
    if vocab_size is not None:
        return tokens_to_bins(integers, vocab_size=vocab_size)
    return integers if all(0 <= n < BINS for n in integers) else None


@dataclass(frozen=True, slots=True, eq=False)
class ActionStats:
    """Statistics of a dataset's actions: 1st and 99th percentile per dimension, and which are scaled by them (mask)."""

    q01_A: np.ndarray
    q99_A: np.ndarray
    mask_A: np.ndarray

    def normalise(self, action_A: Sequence[float]) -> np.ndarray:
        """Into -1..1, clipped; dimensions outside the mask stay as they are."""
        action = np.asarray(action_A, float)
        scaled = 2 * (action - self.q01_A) / (self.q99_A - self.q01_A + _SMALL) - 1
        return np.where(self.mask_A, np.clip(scaled, -1.0, 1.0), action)

    def unnormalise(self, normal_A: Sequence[float] | np.ndarray) -> np.ndarray:
        """Back into the robot's units: (u + 1) / 2 * (q99 - q01 + 1e-8) + q01; outside the mask as it is.

        >>> stats = ActionStats(np.array([-0.02]), np.array([0.03]), np.array([True]))
        >>> stats.unnormalise([0.3]).round(6).tolist()
        [0.0125]
        """
        normal = np.asarray(normal_A, float)
        return np.where(self.mask_A, (normal + 1) / 2 * (self.q99_A - self.q01_A + _SMALL) + self.q01_A, normal)


def action_stats(sample: Sample, *, key: str | None, given: Mapping[str, Any] | None) -> ActionStats:
    """The statistics to decode a row's actions with.

    key: which dataset's; None: that of the row. given: statistics by dataset, `{name: {q01: [..], q99: [..], mask:
    [..]}}`; None: the row's column `action_stats`, of the same form. mask may be left out: all dimensions.
    Raises RewardError, listing the keys that there are, where the key is missing: actions decoded with another
    dataset's statistics look right and fail.
    """
    table = given if given is not None else sample.columns.get("action_stats")
    if not isinstance(table, Mapping) or not table:
        raise RewardError(f"{sample.where}: no action statistics: give the option 'stats' or the column 'action_stats'")
    name = sample.dataset if key is None else key
    if name not in table:
        known = ", ".join(map(str, table))
        raise RewardError(
            f"{sample.where}: no action statistics of {name!r}; there are: {known}{did_you_mean(name, map(str, table))}"
        )
    entry = table[name] if isinstance(table[name], Mapping) else {}
    low, high = as_numbers(entry.get("q01")), as_numbers(entry.get("q99"))
    mask = entry.get("mask", [True] * len(low or ()))
    if not low or not high or not isinstance(mask, list | tuple) or not len(low) == len(high) == len(mask):
        raise RewardError(f"{sample.where}: the action statistics of {name!r} need q01, q99 and mask of equal length")
    if any(q01 > q99 for q01, q99 in zip(low, high, strict=True)):
        raise RewardError(
            f"{sample.where}: the action statistics of {name!r} have a q01 above its q99; are they swapped?"
        )
    return ActionStats(np.array(low), np.array(high), np.array([bool(m) for m in mask]))


def action_distance(first_A: Sequence[float], second_A: Sequence[float], *, kind: str, delta: float = 1.0) -> float:
    """Mean over dimensions of |d| (l1), d^2 (mse) or the Huber loss (huber).

    Huber: d^2 / 2 up to delta, delta (|d| - delta / 2) beyond.

    >>> [action_distance([0, 0], [1, 3], kind=kind) for kind in ("l1", "mse", "huber")]
    [2.0, 5.0, 1.5]
    """
    size = np.abs(np.asarray(first_A, float) - np.asarray(second_A, float))
    if kind == "mse":
        return float((size**2).mean())
    if kind == "huber":
        return float(np.where(size <= delta, size**2 / 2, delta * (size - delta / 2)).mean())
    return float(size.mean())


def rollout_distance(
    mae_T: Sequence[float], perceptual_T: Sequence[float], *, over: str = "mean", decay: float = 0.95
) -> float:
    """VLA-RFT's reward of a rollout in a world model: -(MAE + LPIPS) of the frames, from 0 (identical) downwards.

    mae_T, perceptual_T: of each predicted frame against the reference's, pixels in 0..1. over: `mean` of the frames,
    the `last` alone, or `discount`, weights decay^(T - 1 - t) that sum to 1.

    >>> round(rollout_distance([0.1], [0.08]), 6), round(rollout_distance([1.0], [0.7]), 6)
    (-0.18, -1.7)
    """
    cost_T = np.asarray(mae_T, float) + np.asarray(perceptual_T, float)
    if over == "last":
        return -float(cost_T[-1])
    weight_T = decay ** np.arange(len(cost_T))[::-1] if over == "discount" else np.ones(len(cost_T))
    return -float((cost_T * weight_T).sum() / weight_T.sum())
