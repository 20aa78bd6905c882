"""PRIME: implicit process rewards, the log-ratio of a reward model and its reference, beside the outcome.

    r_t = beta * (log p_model - log p_reference) of token t
    r_t is divided by the largest |sum over u >= t of r_u| of the step plus 1e-6, where `norm` is batch
    process  r_t G / (G - 1) - sum over the group's completions of their mean r / (G - 1)
    outcome  RLOO, at the last token
    A = returns to go of `process_coef` * process + `outcome_coef` * outcome, whitened over all tokens of the step
    the model learns: mean over completions of the cross entropy of sigmoid(beta * sum of log-ratios) and the outcome

With `model`, a folder, both log-probs are computed beside the policy's; `reference` is another folder or, where it is
None, the policy as it was when the stage began. After each step the model takes one of its own with the rate `lr`
(None: it stays as it is), clipped as the policy's; the outcome is the reward before shaping, held in 0 to 1. Without
`model` the column `implicit` holds the difference. G counts the completions of the group that are scored and have it;
one without it has the outcome alone. The source keeps groups whose accuracy is .2 to .8: `success_filter`.

beta .05, norm batch, process_coef 5, outcome_coef 1, lr 1e-6, model and reference the SFT model, 4 completions. Source:
PRIME-RL/PRIME@18ad596, read in code (its script: update after the scores are taken). Different there: the model's
gradient is clipped at 10, beta is left out of the rewards (under norm batch it has no effect on them), and the largest
return is that of one process. Whitened token returns are never GRPO: no neutral options; with model = reference it is
RLOO, whitened.

log p_model [-1, -.5, -2], reference [-1.2, -1, -1]: r = [.01, .025, -.05], returns [-.015, -.025, -.05], divided .2,
.5, -1; sigmoid(-.015) = .49625, loss .7007 where the outcome is 1 and .6857 where 0. Outcomes [1, 0, 0, 1]: ±.6667.

Shape letters: N completions, C completion tokens, G completions of a group.
"""

from typing import Literal

import torch

from mmrl.algorithms.advantages import group_stats
from mmrl.algorithms.beside import PREFIX, ModelBeside
from mmrl.algorithms.parts import mean_over_tokens, on_tokens_of, outcome
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.algorithms.token_advantages import whitened
from mmrl.config.schema import AlgorithmSection
from mmrl.config.section import NonNegativeFloat, PositiveFloat
from mmrl.training.distributed import gather_objects

NEUTRAL = None
MODEL, REFERENCE = "prime", "prime_reference"


class Plugin:
    """implicit: name of the column, unless `model` is given. beta: scale of the process reward."""

    def __init__(
        self,
        *,
        implicit: str = "implicit",
        model: str | None = None,
        reference: str | None = None,
        lr: PositiveFloat | None = 1e-6,
        beta: float = 0.05,
        norm: Literal["batch", "none"] = "batch",
        process_coef: NonNegativeFloat = 5.0,
        outcome_coef: NonNegativeFloat = 1.0,
    ) -> None:
        self._implicit, self._beta, self._norm = implicit, beta, norm
        self._coefs = (process_coef, outcome_coef)
        self.models: dict[str, ModelBeside] = {}
        if model is not None:
            self.models[MODEL] = ModelBeside(model, lr)
            if reference is not None:
                self.models[REFERENCE] = ModelBeside(reference)
        self.needs = ("ref",) if model is not None and reference is None else ()

    def advantage(self, rewards_N: torch.Tensor, batch: RolloutBatch, settings: AlgorithmSection) -> torch.Tensor:
        scored_NC = batch.mask_NC & ~rewards_N.isnan()[:, None]
        reward_NC = torch.where(scored_NC, self._beta * self._ratio(batch), torch.nan)
        if self._norm == "batch":
            reward_NC = reward_NC / (_largest_return(reward_NC) + 1e-6)
        process_NC = _process(reward_NC, batch.gid_N)
        stats = group_stats(rewards_N, batch.gid_N)
        outcome_N = (rewards_N - stats.mean_N) * stats.count_N / (stats.count_N - 1).clamp(min=1)
        outcome_N = torch.where(stats.constant_N, 0.0, outcome_N)
        is_last_NC = torch.arange(batch.mask_NC.shape[1]) == batch.length_N[:, None] - 1
        gained_NC = self._coefs[0] * process_NC
        gained_NC = gained_NC + self._coefs[1] * torch.where(is_last_NC & scored_NC, outcome_N[:, None], 0.0)
        return whitened(_to_go(gained_NC), scored_NC)

    def model_loss(self, name: str, logprobs_NC: torch.Tensor, batch: RolloutBatch) -> torch.Tensor:
        ratio_NC = torch.where(batch.mask_NC, logprobs_NC - self._reference(batch), 0.0)
        label_N = outcome(batch).to(ratio_NC.dtype)
        loss_N = torch.nn.functional.binary_cross_entropy_with_logits(
            self._beta * ratio_NC.sum(1), label_N.nan_to_num().clamp(0.0, 1.0), reduction="none"
        )
        return torch.where(label_N.isnan(), 0.0, loss_N)

    def _ratio(self, batch: RolloutBatch) -> torch.Tensor:
        """(N, C) log p_model - log p_reference, NaN where there is none."""
        if not self.models:
            return on_tokens_of(batch, self._implicit, option="prime's option 'implicit'")[0]
        return batch.meta[PREFIX + MODEL].double() - self._reference(batch)

    def _reference(self, batch: RolloutBatch) -> torch.Tensor:
        found_NC = batch.meta[PREFIX + REFERENCE] if REFERENCE in self.models else batch.ref_NC
        assert found_NC is not None, "needs has ref where no reference is named"
        return found_NC


def _to_go(values_NC: torch.Tensor) -> torch.Tensor:
    return values_NC.flip(1).cumsum(1).flip(1)


def _largest_return(reward_NC: torch.Tensor) -> float:
    """Of all processes' completions, in absolute value."""
    returns_NC = _to_go(reward_NC.nan_to_num()).abs()
    return max(gather_objects(returns_NC.max().item() if returns_NC.numel() else 0.0))


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
