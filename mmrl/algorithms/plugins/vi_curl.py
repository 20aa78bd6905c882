"""VI-CuRL: a curriculum without a verifier, from the prompts the policy is sure of to all of them.

    c = -(mean token entropy of the prompt's completions), over all of their tokens
    keep the ceil(beta P) prompts of highest c of a round;  beta = start + (1 - start) * step / total steps

With `reweight` the policy term of what is kept is multiplied by P / kept, so that in the mean a prompt weighs 1.
beta reaches 1 at the stage's end: every prompt is kept with weight 1, and the limit is unbiased. Each process ranks the
prompts of its own share.

start .5. Source: abstract; the schedule (start and its line) is derived. c = [-.3, -1.2, -.6, -.9]: beta .5 keeps the
first and third, .75 the fourth too.

Shape letters: N completions, C completion tokens, P prompts.
"""

import math
from typing import Any

import torch

from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.section import Probability

NEUTRAL: dict[str, Any] = {"start": 1.0}
NEEDS_EARLY = ("entropy",)
WEIGHT = "vi_curl.weight"


class Plugin:
    """start: share of the prompts that is kept at the first step. reweight: as above."""

    def __init__(self, *, start: Probability = 0.5, reweight: bool = False) -> None:
        self._start, self._reweight = start, reweight

    def keep(self, batch: RolloutBatch, rewards_N: torch.Tensor) -> torch.Tensor:
        assert batch.entropy_NC is not None, "NEEDS_EARLY contains entropy"
        groups, group_N = batch.gid_N.unique(return_inverse=True)
        entropy_N = torch.where(batch.mask_NC, batch.entropy_NC.detach().double(), 0.0).sum(1)
        zeros_P = torch.zeros(len(groups), dtype=torch.float64)
        tokens_P = zeros_P.index_add(0, group_N, batch.length_N.double()).clamp(min=1)
        confidence_P = -zeros_P.index_add(0, group_N, entropy_N) / tokens_P
        beta = self._start + (1 - self._start) * batch.step / max(batch.total_steps, 1)
        kept = math.ceil(round(beta * len(groups), 9))
        keep_P = torch.zeros(len(groups), dtype=torch.bool)
        keep_P[confidence_P.argsort(descending=True, stable=True)[:kept]] = True
        weight = len(groups) / kept if self._reweight and kept else 1.0
        batch.meta[WEIGHT] = torch.full((len(batch),), weight, dtype=torch.float64)
        return keep_P[group_N]

    def token_weight(self, advantage_NC: torch.Tensor, batch: RolloutBatch) -> torch.Tensor:
        weight_N = batch.meta.get(WEIGHT, torch.ones(len(batch))).to(advantage_NC.dtype)
        return weight_N[:, None].expand_as(advantage_NC)
