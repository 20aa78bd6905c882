"""Only the most uncertain tokens learn (EARL; the 80/20 rule): the policy term of the others is 0.

    weight_t = 1 where H_t >= the (1 - share) quantile of the entropies, else 0

scope `completion`: of the completion's own tokens (EARL); `batch`: of all tokens of this process's batch (80/20). The
count of tokens in the denominator stays, so the loss of the few is not scaled up. Regularisers act on all tokens.

share .2. Source: abstracts; TRL's `top_entropy_quantile` is the batch scope. H = [.1, 2, .5, 3, .2]: the threshold is
2.2 and only the 3 learns.

Shape letters: N completions, C completion tokens.
"""

from typing import Any, Literal

import torch

from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.section import Probability

NEUTRAL: dict[str, Any] = {"share": 1.0}
NEEDS = ("entropy",)


class Plugin:
    """share: of the tokens that learn. scope: which tokens are ranked together."""

    def __init__(self, *, share: Probability = 0.2, scope: Literal["completion", "batch"] = "completion") -> None:
        self._share, self._scope = share, scope

    def token_weight(self, advantage_NC: torch.Tensor, batch: RolloutBatch) -> torch.Tensor:
        assert batch.entropy_NC is not None, "NEEDS contains entropy"
        entropy_NC = torch.where(batch.mask_NC, batch.entropy_NC.detach().double(), torch.nan)
        if self._scope == "batch":
            entropy_NC = entropy_NC.reshape(1, -1)
        threshold_N1 = entropy_NC.nanquantile(1 - self._share, dim=1, keepdim=True)
        is_open_NC = (entropy_NC >= threshold_N1) | entropy_NC.isnan()
        return is_open_NC.reshape(batch.mask_NC.shape).to(advantage_NC.dtype)
