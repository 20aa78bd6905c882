"""Clip-Cov: a few tokens whose advantage and log-prob go strongly together are left out, which keeps the entropy up.

    chosen: a `ratio` of the step's tokens, drawn among those with low < (A - mean A) (log p - mean log p) < high

Chosen tokens have no policy loss; the denominator stays. A = [1, 1, -1, -1], log p = [-0.1, -2, -0.3, -3] has the
products [1.25, -0.65, -1.05, 1.65]: tokens 0 and 3 can be drawn.

Source: Cui et al. 2025; verl@b178a3cd5, read in code. There each micro-batch is a set of its own with the log-probs of
the policy that is being trained; here it is the step of a process with those before the update, so the split into
micro-batches does not matter. The draw hashes the numbers of the token and the step.

Shape letters: N completions, C completion tokens.
"""

import torch

from mmrl.algorithms.covariance import centred_products, share_of
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.section import Probability

NEEDS = ("old",)
NEUTRAL = {"ratio": 0.0}


class Plugin:
    """ratio: share of the tokens that is left out, at least one. low, high: bounds of the product."""

    def __init__(self, *, ratio: Probability = 2e-4, low: float = 1.0, high: float = 5.0) -> None:
        self._ratio, self._low, self._high = ratio, low, high

    def token_weight(self, advantage_NC: torch.Tensor, batch: RolloutBatch) -> torch.Tensor:
        product_NC = centred_products(advantage_NC, batch)
        eligible_NC = batch.mask_NC & (product_NC > self._low) & (product_NC < self._high)
        number = min(share_of(self._ratio, int(batch.mask_NC.sum())), int(eligible_NC.sum()))
        weight_NC = torch.ones_like(advantage_NC)
        if number:
            drawn_NC = torch.where(eligible_NC, _hashed(product_NC, batch.step), torch.inf)
            weight_NC.view(-1)[drawn_NC.flatten().topk(number, largest=False).indices] = 0.0
        return weight_NC


def _hashed(product_NC: torch.Tensor, step: int) -> torch.Tensor:
    """A number of 0 to 1 for each token that its order in the batch does not change."""
    return (((product_NC + step) * 12.9898).sin() * 43758.5453).frac().abs()
