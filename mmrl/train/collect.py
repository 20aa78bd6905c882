"""Filling the batch of a reinforcement-learning step: prompts, completions, rewards, and the groups that are kept.

Shape letters: P prompts, G group size, N sequences, C completion tokens, K reward parts.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.data.rendered import RenderedPrompt


@dataclass(frozen=True)
class Collected:
    """A full batch. prompts[p] is the prompt of the rows of `batch` whose gid is p."""

    batch: RolloutBatch
    rewards_N: torch.Tensor
    prompts: tuple[RenderedPrompt, ...]
    metrics: dict[str, float]
