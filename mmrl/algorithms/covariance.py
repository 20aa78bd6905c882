"""How much a token's advantage and log-prob go together: what Clip-Cov and KL-Cov choose tokens by.

Shape letters: N completions, C completion tokens.
"""

from __future__ import annotations

import torch

from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.training.distributed import sum_over_ranks


def centred_products(advantage_NC: torch.Tensor, batch: RolloutBatch) -> torch.Tensor:
    """(A - mean A) (log p - mean log p) of each token, means over all tokens of the step; float64, 0 off the mask.

    A = [1, 1, -1, -1], log p = [-0.1, -2, -0.3, -3]: [1.25, -0.65, -1.05, 1.65].
    """
    assert batch.old_NC is not None, "NEEDS contains old"
    mask_NC = batch.mask_NC
    advantages, logprobs = advantage_NC[mask_NC].double(), batch.old_NC[mask_NC].double()
    sums = [advantages.sum().item(), logprobs.sum().item(), float(len(logprobs))]
    total_advantage, total_logprob, count = sum_over_ranks(sums)
    product_NC = torch.zeros(mask_NC.shape, dtype=torch.float64)
    mean_advantage, mean_logprob = total_advantage / max(count, 1), total_logprob / max(count, 1)
    product_NC[mask_NC] = (advantages - mean_advantage) * (logprobs - mean_logprob)
    return product_NC


def share_of(ratio: float, tokens: int) -> int:
    """How many of this process's tokens a ratio is: at least one unless it is 0."""
    return max(int(ratio * tokens), 1) if ratio else 0
