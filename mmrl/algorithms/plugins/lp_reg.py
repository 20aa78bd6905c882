"""Lp-Reg: improbable tokens of bad completions are not pushed out, if they stand out of the noise.

    proxy   the policy cut at min-p `kappa` and renormalised
    chosen  tokens with A < 0 whose log-prob is among the lowest `share` of those, and below log proxy
    loss    chosen: -A ratio, unclipped, + beta k3(log p, log proxy); others: PPO's, which the recipe hardly clips

p = [0.6, 0.25, 0.1, 0.04, 0.01], kappa 0.02: the last token is cut; the 0.04 one has log p -3.2189 < log proxy -3.2088,
and k3 0.000051. A token that is cut is never chosen. share 0 gives PPO; kappa 0 the proxy p itself, so beta adds
nothing. Fewer than two chosen tokens (150 of negative advantage at 1 %) are too few, and nothing is chosen.

Source: CarlanLark/Lp-Reg-dev@33b27e2, the authors' development code, read; its recipe has clip_low 1, clip_high 9, dual
clip 10. There the lowest are found in each micro-batch by the present log-probs; here in the step of a process by those
before the update.

Shape letters: N completions, C completion tokens.
"""

import torch

from mmrl.algorithms.losses import LossInput, TokenStats, ppo_clip
from mmrl.algorithms.regularisers import ref_kl
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.section import NonNegativeFloat, Probability

NEEDS = ("old",)
EXTRA = ("min_p:0.02",)
NEUTRAL = {"share": 0.0}


class Plugin:
    """share: of the tokens with negative advantage. beta: weight of k3. kappa is 0.02."""

    def __init__(self, *, share: Probability = 0.01, beta: NonNegativeFloat = 1.0) -> None:
        self._share, self._beta = share, beta

    def columns(
        self, rewards_N: torch.Tensor, advantage_NC: torch.Tensor, batch: RolloutBatch
    ) -> dict[str, torch.Tensor]:
        assert batch.old_NC is not None, "NEEDS contains old"
        negative_NC = (advantage_NC < 0) & batch.mask_NC
        low_NC, number = torch.zeros_like(negative_NC), max(1, int(self._share * negative_NC.sum().item()))
        if number > 1:
            lowest = batch.old_NC.masked_fill(~negative_NC, torch.inf).flatten().topk(number, largest=False).indices
            low_NC.view(-1)[lowest] = True
        return {"lp_reg_NC": low_NC}

    def policy_loss(self, inputs: LossInput) -> tuple[torch.Tensor, TokenStats]:
        loss_NC, stats = ppo_clip(inputs)
        proxy_NC = inputs.extra[EXTRA[0]]
        chosen_NC = inputs.batch.meta["lp_reg_NC"] & (inputs.policy_NC.detach() < proxy_NC)
        kl_NC = ref_kl(inputs.policy_NC, torch.where(chosen_NC, proxy_NC, inputs.policy_NC.detach()), estimator="k3")
        kept_NC = -inputs.advantage_NC * inputs.log_ratio_NC.exp() + self._beta * kl_NC
        return torch.where(chosen_NC, kept_NC, loss_NC), {**stats, "lp_reg": chosen_NC}
