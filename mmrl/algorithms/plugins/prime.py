"""PRIME: implicit process rewards, the log-ratio of a reward model and its reference, beside the outcome.

    r_t = beta * (log p_model - log p_reference) of token t; the column `implicit` holds the difference
    process  r_t G / (G - 1) - sum over the group's completions of their mean r / (G - 1)
    outcome  RLOO, at the last token
    A = returns to go of `process_coef` * process + `outcome_coef` * outcome, whitened over all tokens of the step

G counts the completions of the group that are scored and have the column; one without it has the outcome alone. The
reward model learns elsewhere, from the outcomes (cross entropy of sigmoid(sum r)). The source keeps groups whose
accuracy is .2 to .8: `success_filter`.

beta .05, process_coef 5, outcome_coef 1; 4 completions. Source: PRIME-RL/PRIME@18ad596, read in code. Whitened token
returns are never GRPO: no neutral options; with model = reference it is RLOO, whitened.

log p_model [-1, -.5, -2], reference [-1.2, -1, -1]: r = [.01, .025, -.05]; outcomes [1, 0, 0, 1]: ±.6667.

Shape letters: N completions, C completion tokens, G completions of a group.
"""

import torch

from mmrl.algorithms.advantages import group_stats
from mmrl.algorithms.parts import mean_over_tokens, on_tokens_of
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.algorithms.token_advantages import whitened
from mmrl.config.schema import AlgorithmSection
from mmrl.config.section import NonNegativeFloat

NEUTRAL = None


class Plugin:
    """implicit: name of the column. beta: scale of the process reward."""

    def __init__(
        self,
        *,
        implicit: str = "implicit",
        beta: float = 0.05,
        process_coef: NonNegativeFloat = 5.0,
        outcome_coef: NonNegativeFloat = 1.0,
    ) -> None:
        self._implicit, self._beta, self._coefs = implicit, beta, (process_coef, outcome_coef)

    def advantage(self, rewards_N: torch.Tensor, batch: RolloutBatch, settings: AlgorithmSection) -> torch.Tensor:
        ratio_NC, _ = on_tokens_of(batch, self._implicit, option="prime's option 'implicit'")
        scored_NC = batch.mask_NC & ~rewards_N.isnan()[:, None]
        process_NC = _process(torch.where(scored_NC, self._beta * ratio_NC, torch.nan), batch.gid_N)
        stats = group_stats(rewards_N, batch.gid_N)
        outcome_N = (rewards_N - stats.mean_N) * stats.count_N / (stats.count_N - 1).clamp(min=1)
        outcome_N = torch.where(stats.constant_N, 0.0, outcome_N)
        is_last_NC = torch.arange(batch.mask_NC.shape[1]) == batch.length_N[:, None] - 1
        gained_NC = self._coefs[0] * process_NC
        gained_NC = gained_NC + self._coefs[1] * torch.where(is_last_NC & scored_NC, outcome_N[:, None], 0.0)
        returns_NC = gained_NC.flip(1).cumsum(1).flip(1)
        return whitened(returns_NC, scored_NC)


def _process(reward_NC: torch.Tensor, gid_N: torch.Tensor) -> torch.Tensor:
    """Leave-one-out token rewards; 0 where there is none, in a group of one, and where all are equal."""
    given_NC = ~reward_NC.isnan()
    mean_N = torch.where(given_NC.any(1), mean_over_tokens(reward_NC, given_NC), torch.nan)
    stats = group_stats(mean_N, gid_N)
    others_N1 = (stats.count_N - 1).clamp(min=1)[:, None]
    total_N1 = (stats.mean_N * stats.count_N)[:, None]
    found_NC = (reward_NC * stats.count_N[:, None] - total_N1) / others_N1
    # Equal tokens all over the group leave rounding, which whitening would blow up.
    tokens = group_stats(reward_NC.flatten(), gid_N[:, None].expand(reward_NC.shape).flatten())
    has_signal_NC = given_NC & (stats.count_N > 1)[:, None] & ~tokens.constant_N.reshape(reward_NC.shape)
    return torch.where(has_signal_NC, found_NC, 0.0)
