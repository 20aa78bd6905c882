"""KL-Cov: the tokens whose advantage and log-prob go together most are held back by |log p - old|.

    added: coef |log p - old| on the `ratio` of the step's tokens with the largest (A - mean A) (log p - mean log p)

A = [1, 1, -1, -1], log p = [-0.1, -2, -0.3, -3] has the products [1.25, -0.65, -1.05, 1.65]: token 3 comes first. In
the first update after sampling log p is old and nothing is added, so it needs more than one (`updates_per_batch`).

Source: Cui et al. 2025; verl@b178a3cd5, read in code. There each micro-batch is a set of its own; here the step of a
process is one, with the log-probs before the update, so the split into micro-batches does not matter.

Shape letters: N completions, C completion tokens.
"""

import torch

from mmrl.algorithms.covariance import centred_products, share_of
from mmrl.algorithms.losses import LossInput, TokenStats
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.section import NonNegativeFloat, Probability

NEEDS = ("old",)
NEUTRAL = {"coef": 0.0}


class Plugin:
    """ratio: share of the tokens that is held back, at least one. coef: weight of the distance."""

    def __init__(self, *, ratio: Probability = 2e-4, coef: NonNegativeFloat = 1.0) -> None:
        self._ratio, self._coef = ratio, coef

    def columns(
        self, rewards_N: torch.Tensor, advantage_NC: torch.Tensor, batch: RolloutBatch
    ) -> dict[str, torch.Tensor]:
        product_NC = centred_products(advantage_NC, batch).masked_fill(~batch.mask_NC, -torch.inf)
        held_NC, number = torch.zeros_like(batch.mask_NC), share_of(self._ratio, int(batch.mask_NC.sum()))
        if number and batch.mask_NC.any():
            held_NC.view(-1)[product_NC.flatten().topk(number).indices] = True
        return {"kl_cov_NC": held_NC}

    def regulariser(self, inputs: LossInput) -> tuple[torch.Tensor, TokenStats]:
        held_NC = inputs.batch.meta["kl_cov_NC"]
        distance_NC = torch.where(held_NC, (inputs.policy_NC - inputs.old_NC).abs(), 0.0)
        return self._coef * distance_NC, {"kl_cov": distance_NC}
