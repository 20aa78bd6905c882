"""The three kinds of reward models: what they learn in a step, how they are measured, what they say of a clip.

Shapes: B clips, F frames a window, T frames of a clip, I intervals, D values of a picture's vector, E of a text's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr
from torch.nn import functional

from mmrl.errors import ConfigError
from mmrl.reward_models.clips import Clip, Encoders, Pair, check_clips, read_clips, read_pairs
from mmrl.reward_models.config import RewardModelConfig
from mmrl.reward_models.heads import Head
from mmrl.reward_models.targets import arm_reconstruct, rewind_targets

Metrics = dict[str, float]
_FOCUS, _POSITIVE_WEIGHT, _DONE = 2.0, 2.0, 1e-3
_DRAWN_ORDERS = 4


class ProgressKind:
    """ReWiND: progress at every frame, learnt from pieces of clips, played back pieces and wrong texts."""

    def __init__(self, config: RewardModelConfig) -> None:
        self.config = config

    def read(self, split: str, encoders: Encoders) -> list[Clip]:
        clips = read_clips(self.config, getattr(self.config.data, split), encoders)
        check_clips(clips, least=4, split=split)
        if split == "train" and self.config.fit.mismatch and len({clip.text for clip in clips}) < 2:
            raise ConfigError("'fit.mismatch' needs clips with different texts in 'data.train'; set it to 0 without")
        return clips

    def loss(self, head: Head, clips: Sequence[Clip], rng: np.random.Generator) -> torch.Tensor:
        """Mean squared error of the progress, without the first frame, which has none yet."""
        pieces = [self._piece(clips, rng) for _ in range(self.config.fit.batch_size)]
        frames_BFD = _tensor(head, [frames for frames, _, _ in pieces])
        found_BF = head(frames_BFD, _texts(head, [text for _, _, text in pieces]))
        return functional.mse_loss(found_BF[:, 1:], _tensor(head, [target for _, target, _ in pieces])[:, 1:])

    def _piece(
        self, clips: Sequence[Clip], rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        clip, fit = clips[int(rng.integers(len(clips)))], self.config.fit
        length = len(clip.frames_FD)
        start = int(rng.integers(0, length // 2))
        end = int(rng.integers(max(length // 2, start + 2), length + 1))
        rewind = int(rng.integers(2, end - start + 1)) if rng.random() < fit.rewind else None
        order, progress = rewind_targets(length, start=start, end=end, rewind=rewind)
        places = window_places(len(order), self.config.window)
        text_E, target_F = clip.text_E, np.array(progress, dtype=np.float32)[places]
        if rng.random() < fit.mismatch:
            others = [other for other in clips if other.text != clip.text]
            text_E, target_F = others[rng.integers(len(others))].text_E, np.zeros_like(target_F)
        return clip.frames_FD[np.array(order)[places]], target_F, text_E

    def predict(self, head: Head, clip: Clip) -> np.ndarray:
        """(T,): progress at each frame of a clip."""
        # The first place is never trained: the first frame's progress is told of its repetition.
        frames_TD = np.concatenate([clip.frames_FD[:1], clip.frames_FD])
        with torch.inference_mode():
            return head(_tensor(head, [frames_TD]), _texts(head, [clip.text_E]))[0, 1:].cpu().numpy()

    def measure(self, head: Head, clips: Sequence[Clip]) -> Metrics:
        """Rank correlation of the progress with time, of clips as they are, reversed and shuffled; progress at the end.

        A head that counted frames would tell the same of all three.
        """
        rng = np.random.default_rng(self.config.seed)
        forward = [self.predict(head, clip) for clip in clips]
        backward = [self.predict(head, _ordered(clip, np.arange(len(clip.frames_FD))[::-1])) for clip in clips]
        drawn = [_ordered(clip, rng.permutation(len(clip.frames_FD))) for clip in clips for _ in range(_DRAWN_ORDERS)]
        metrics = {
            "rank_correlation": float(np.mean([_rank_correlation(p) for p in forward])),
            "reversed_rank_correlation": float(np.mean([_rank_correlation(p) for p in backward])),
            "shuffled_rank_correlation": float(np.mean([_rank_correlation(self.predict(head, c)) for c in drawn])),
            "end": float(np.mean([p[-1] for p in forward])),
            "end_reversed": float(np.mean([p[-1] for p in backward])),
        }
        wrong = [_with_text_of(clip, other) for clip in clips for other in clips if other.text != clip.text]
        if wrong:
            metrics["end_mismatched"] = float(np.mean([self.predict(head, clip)[-1] for clip in wrong]))
        return metrics

    def score(self, head: Head, clip: Clip, facts: dict[str, Any]) -> Metrics:
        progress = self.predict(head, clip)
        return {"reward": float(progress[-1]), "gain": float(progress[-1] - progress[0])}

    def facts(self, clips: Sequence[Clip]) -> dict[str, Any]:
        return {}


class TriStateKind:
    """ARM: whether each interval progresses, stagnates or regresses, and whether the task is done."""

    def __init__(self, config: RewardModelConfig) -> None:
        self.config = config

    def read(self, split: str, encoders: Encoders) -> list[Clip]:
        clips = read_clips(self.config, getattr(self.config.data, split), encoders)
        check_clips(clips, least=2, split=split)
        return clips

    def loss(self, head: Head, clips: Sequence[Clip], rng: np.random.Generator) -> torch.Tensor:
        """Cross-entropy of the states plus the focal loss of completion."""
        chosen = [clips[int(rng.integers(len(clips)))] for _ in range(self.config.fit.batch_size)]
        ends = [int(rng.integers(1, len(clip.frames_FD))) for clip in chosen]
        windows = [window_before(end, self.config.window) for end in ends]
        frames_BFD = _tensor(head, [clip.frames_FD[w] for clip, w in zip(chosen, windows, strict=True)])
        states_BI3, done_B = head(frames_BFD, _texts(head, [clip.text_E for clip in chosen]))
        wanted_BI = torch.tensor([_classes(clip, w) for clip, w in zip(chosen, windows, strict=True)])
        is_done_B = torch.tensor([float(_is_done(clip)[end]) for clip, end in zip(chosen, ends, strict=True)])
        interval = functional.cross_entropy(states_BI3.flatten(0, 1), wanted_BI.flatten().to(states_BI3.device))
        return interval + focal_loss(done_B, is_done_B.to(done_B.device))

    def predict(self, head: Head, clip: Clip) -> tuple[np.ndarray, np.ndarray]:
        """States (T - 1) of -1, 0, +1, each as its window's last interval, and probabilities of completion (T)."""
        count = len(clip.frames_FD)
        windows = [clip.frames_FD[window_before(end, self.config.window)] for end in range(count)]
        with torch.inference_mode():
            states_TI3, done_T = head(_tensor(head, windows), _texts(head, [clip.text_E] * count))
        return states_TI3[1:, -1].argmax(dim=-1).cpu().numpy() - 1, torch.sigmoid(done_T).cpu().numpy()

    def measure(self, head: Head, clips: Sequence[Clip]) -> Metrics:
        """Share of intervals whose state is right, and of frames whose completion is; error of the progress."""
        found = [self.predict(head, clip) for clip in clips]
        states = [np.mean(states == np.array(clip.states)) for (states, _), clip in zip(found, clips, strict=True)]
        done = [np.mean((p >= 0.5) == _is_done(clip)) for (_, p), clip in zip(found, clips, strict=True)]
        metrics = {"state_accuracy": float(np.mean(states)), "completion_accuracy": float(np.mean(done))}
        whole = [(clip, pair) for clip, pair in zip(clips, found, strict=True) if clip.completed]
        if whole:
            gain = float(np.mean([sum(clip.states) for clip, _ in whole]))
            errors = [np.square(progress_of(*p, gain=gain) - arm_reconstruct(c.states)).mean() for c, p in whole]
            metrics["progress_mse"] = float(np.mean(errors))
        return metrics

    def score(self, head: Head, clip: Clip, facts: dict[str, Any]) -> Metrics:
        states, done = self.predict(head, clip)
        progress = progress_of(states, done, gain=facts["mean_gain"])
        return {"reward": float(progress[-1]), "completion": float(done[-1]), "gain": float(progress[-1] - progress[0])}

    def facts(self, clips: Sequence[Clip]) -> dict[str, Any]:
        """The mean net gain of the clips that end in success: what a clip without an end is measured by."""
        gains = [sum(clip.states) for clip in clips if clip.completed]
        return {"mean_gain": float(np.mean(gains)) if gains else 1.0}


class PreferenceKind:
    """RL-VLM-F: a reward per picture such that preferred ones have more of it (Bradley-Terry), by several members."""

    def __init__(self, config: RewardModelConfig) -> None:
        self.config = config

    def read(self, split: str, encoders: Encoders) -> list[Pair]:
        pairs = read_pairs(self.config, getattr(self.config.data, split), encoders)
        check_clips([pair.first for pair in pairs], least=1, split=split)
        return pairs

    def loss(self, head: Head, pairs: Sequence[Pair], rng: np.random.Generator) -> torch.Tensor:
        """Cross-entropy of the preferences, the sum over the members. One frame stands for a clip in each step."""
        chosen = [pairs[int(rng.integers(len(pairs)))] for _ in range(self.config.fit.batch_size)]
        first, second = (
            _tensor(head, [clip.frames_FD[rng.integers(len(clip.frames_FD))][None] for clip in side])
            for side in ([p.first for p in chosen], [p.second for p in chosen])
        )
        text_BE = _texts(head, [p.first.text_E for p in chosen])
        margin_MB = (head(second, text_BE) - head(first, text_BE)).squeeze(-1)
        label_B = _tensor(head, [np.float32(p.label) for p in chosen])
        return functional.binary_cross_entropy_with_logits(margin_MB, label_B.expand_as(margin_MB)) * len(margin_MB)

    def predict(self, head: Head, clip: Clip) -> np.ndarray:
        """(M,): the mean over the frames by every member, between -1 and 1."""
        with torch.inference_mode():
            return head(_tensor(head, [clip.frames_FD]), _texts(head, [clip.text_E])).mean(dim=(1, 2)).cpu().numpy()

    def measure(self, head: Head, pairs: Sequence[Pair]) -> Metrics:
        """Share of pairs whose preferred side has the larger mean reward."""
        rights = [
            (self.predict(head, pair.second).mean() > self.predict(head, pair.first).mean()) == bool(pair.label)
            for pair in pairs
        ]
        return {"pair_accuracy": float(np.mean(rights))}

    def score(self, head: Head, clip: Clip, facts: dict[str, Any]) -> Metrics:
        rewards_M = self.predict(head, clip)
        return {"reward": float(rewards_M.mean()), "disagreement": float(rewards_M.std())}

    def facts(self, pairs: Sequence[Pair]) -> dict[str, Any]:
        return {}


RewardKind = ProgressKind | TriStateKind | PreferenceKind
KINDS: dict[str, type[ProgressKind] | type[TriStateKind] | type[PreferenceKind]] = {
    "progress": ProgressKind,
    "tri_state": TriStateKind,
    "preference": PreferenceKind,
}


def window_places(count: int, window: int) -> np.ndarray:
    """Which of `count` frames fill a window: all, the last one repeated, or evenly spaced ones.

    >>> window_places(3, 5).tolist(), window_places(9, 5).tolist()
    ([0, 1, 2, 2, 2], [0, 2, 4, 6, 8])
    """
    if count <= window:
        return np.minimum(np.arange(window), count - 1)
    return np.linspace(0, count - 1, window).round().astype(int)


def window_before(end: int, window: int) -> np.ndarray:
    """The window of frames that ends with frame `end`; before the first frame the first frame is repeated.

    >>> window_before(1, 4).tolist(), window_before(5, 4).tolist()
    ([0, 0, 0, 1], [2, 3, 4, 5])
    """
    return np.maximum(np.arange(end - window + 1, end + 1), 0)


def focal_loss(logits_B: torch.Tensor, targets_B: torch.Tensor) -> torch.Tensor:
    """Mean of -w (1 - p_t)^2 log p_t, p_t the probability of what is true, w 2 for positives and 1 for negatives.

    >>> round(float(focal_loss(torch.zeros(2), torch.tensor([1.0, 0.0]))), 6)
    0.25993
    """
    entropy_B = functional.binary_cross_entropy_with_logits(logits_B, targets_B, reduction="none")
    weights_B = 1.0 + (_POSITIVE_WEIGHT - 1.0) * targets_B
    return (weights_B * (1.0 - torch.exp(-entropy_B)) ** _FOCUS * entropy_B).mean()


def progress_of(states_I: np.ndarray, done_T: np.ndarray, *, gain: float) -> np.ndarray:
    """(T,): ARM's progress of a clip from its states. gain: mean net gain of clips that end in success.

    Where some frame is likely done, the progress is 1 there and after, and is reconstructed backwards from it by the
    clip's own net gain; else it starts at 0 and grows by 1 / gain. Kept between 0 and 1.

    >>> progress_of(np.array([1, 0, 1, 0]), np.array([0.1, 0.1, 0.2, 0.9, 0.9]), gain=3.0).tolist()
    [0.0, 0.5, 0.5, 1.0, 1.0]
    >>> progress_of(np.array([1, 1, -1]), np.zeros(4), gain=4.0).tolist()
    [0.0, 0.25, 0.5, 0.25]
    """
    likely = np.flatnonzero(done_T >= 0.5)
    if len(likely) == 0:
        return np.clip(np.concatenate([[0.0], np.cumsum(states_I)]) / max(gain, 1.0), 0.0, 1.0)
    end = int(likely[0])
    net = int(np.sum(states_I[:end]))
    before = arm_reconstruct(states_I[:end].tolist(), scale=1.0 / (net if net > 0 else max(gain, 1.0)))
    return np.clip(np.concatenate([before, np.ones(len(done_T) - end - 1)]), 0.0, 1.0)


def _classes(clip: Clip, window: np.ndarray) -> list[int]:
    """States of the window's intervals as classes 0, 1, 2; a repeated first frame stagnates."""
    pairs = zip(window[:-1].tolist(), window[1:].tolist(), strict=True)
    return [1 + (clip.states[a] if b > a else 0) for a, b in pairs]


def _is_done(clip: Clip) -> np.ndarray:
    if not clip.completed:
        return np.zeros(len(clip.frames_FD), dtype=bool)
    return np.array(arm_reconstruct(clip.states)) >= 1.0 - _DONE


def _rank_correlation(progress_T: np.ndarray) -> float:
    """Spearman's, with time; 0 for a constant, which says nothing of time."""
    if np.ptp(progress_T) == 0:
        return 0.0
    found: Any = spearmanr(progress_T, np.arange(len(progress_T)))
    return float(found.statistic)


def _ordered(clip: Clip, order: np.ndarray) -> Clip:
    return Clip(clip.frames_FD[order], clip.text_E, clip.text, clip.where)


def _with_text_of(clip: Clip, other: Clip) -> Clip:
    return Clip(clip.frames_FD, other.text_E, other.text, clip.where)


def _tensor(head: Head, values: Sequence[Any]) -> torch.Tensor:
    return torch.from_numpy(np.stack(values).astype(np.float32)).to(next(head.parameters()).device)


def _texts(head: Head, texts: Sequence[np.ndarray | None]) -> torch.Tensor | None:
    return None if texts[0] is None else _tensor(head, [text for text in texts if text is not None])
