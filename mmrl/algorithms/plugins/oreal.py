"""OREAL: right answers are cloned, wrong ones pushed away, each at the tokens a token reward model blames or praises.

    c_t = mean of the token scores up to t, the column `scores`; p_t = sigmoid(c_t)
    w+ = clip((p - .5) / .5, 0, 1) on right answers,  w- = clip((.5 - p) / .5, 0, 1) on wrong ones
    right  loss = -positive * w+ * log policy      (times A with `scaled`)
    wrong  loss = -negative * w- * A * ratio
    A      RLOO within the group; right and wrong: A above and below 0
    keep   one right and one wrong answer of each prompt, by chance, with `pairs`; a prompt without both goes

Tokens before the first score have p = .5, so weight 0; a completion without scores has weight 1 everywhere. With
scores None there are no weights. The token reward model is trained elsewhere; the source also adds KL (k3, .01:
`ref_kl_coef`), samples 16 answers and holds the policy still for 10 steps.

positive 1, negative .5. Source: InternLM/OREAL@2859cc0, read in code. Cloning is no policy gradient, so it is never
GRPO: no neutral options. p = [.3, .6, .9]: w+ = [0, .2, .8], w- = [.4, 0, 0]; scores [0, 2, 1] have p = [.5, .7311,
.7311].

Shape letters: N completions, C completion tokens.
"""

import torch

from mmrl.algorithms.advantages import rloo
from mmrl.algorithms.losses import LossInput, TokenStats
from mmrl.algorithms.parts import drawn_order, on_tokens_of, rows_of_groups
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.schema import AlgorithmSection
from mmrl.config.section import NonNegativeFloat

NEUTRAL = None


class Plugin:
    """scores: name of the column, or None. positive, negative: factors. scaled: cloning is weighed by A too."""

    def __init__(
        self,
        *,
        scores: str | None = "scores",
        positive: NonNegativeFloat = 1.0,
        negative: NonNegativeFloat = 0.5,
        scaled: bool = False,
        pairs: bool = True,
        threshold: float = 0.5,
    ) -> None:
        self._scores, self._factors, self._scaled = scores, (positive, negative), scaled
        self._pairs, self._threshold = pairs, threshold

    def keep(self, batch: RolloutBatch, rewards_N: torch.Tensor) -> torch.Tensor:
        keep_N = torch.ones(len(batch), dtype=torch.bool)
        if not self._pairs:
            return keep_N
        keep_N[:] = False
        rewards = rewards_N.tolist()
        for rows in rows_of_groups(batch, drawn_order(batch)).values():
            right = [row for row in rows if rewards[row] >= self._threshold]
            wrong = [row for row in rows if rewards[row] < self._threshold]
            if right and wrong:
                keep_N[[right[0], wrong[0]]] = True
        return keep_N

    def advantage(self, rewards_N: torch.Tensor, batch: RolloutBatch, settings: AlgorithmSection) -> torch.Tensor:
        return rloo(rewards_N, batch, settings)

    def policy_loss(self, inputs: LossInput) -> tuple[torch.Tensor, TokenStats]:
        advantage_NC, (positive, negative) = inputs.advantage_NC, self._factors
        praise_NC, blame_NC = self._weights(inputs)
        cloned_NC = -positive * praise_NC * inputs.policy_NC * (advantage_NC if self._scaled else 1.0)
        pushed_NC = -negative * blame_NC * advantage_NC * inputs.log_ratio_NC.exp()
        loss_NC = torch.where(advantage_NC > 0, cloned_NC, pushed_NC)
        return loss_NC, {"cloned": advantage_NC > 0}

    def _weights(self, inputs: LossInput) -> tuple[torch.Tensor, torch.Tensor]:
        ones_NC = torch.ones_like(inputs.policy_NC)
        if self._scores is None:
            return ones_NC, ones_NC
        score_NC, _ = on_tokens_of(inputs.batch, self._scores, option="oreal's option 'scores'")
        given_NC = ~score_NC.isnan()
        mean_NC = score_NC.nan_to_num(nan=0.0).cumsum(1) / given_NC.cumsum(1).clamp(min=1)
        lead_NC = (2 * mean_NC.sigmoid() - 1).to(ones_NC.dtype)
        has_scores_N1 = given_NC.any(1, keepdim=True)
        praise_NC = torch.where(has_scores_N1, lead_NC.clamp(0.0, 1.0), ones_NC)
        return praise_NC, torch.where(has_scores_N1, (-lead_NC).clamp(0.0, 1.0), ones_NC)
