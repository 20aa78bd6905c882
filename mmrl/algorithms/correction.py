"""Importance weights for completions that were not drawn from the policy that learns from them.

The sampler's distribution q is not the trainer's policy p before the update when top-k, top-p or min-p cut it, when it
is of older weights, or when two programs round differently. With the ratio p / q of what was sampled as a weight the
policy term is again an expectation under p (docs/algorithms.md states of which reward). Two forms bound the weights:

    truncate   clamp(ratio, low, cap)                      TIS
    mask       ratio within [low, cap], else 0             MIS, and IcePop for single tokens

    level      the ratio is                                source
    token      exp(old - behavior), of each token          verl, OpenRLHF tis and icepop
    sequence   its product over the completion             TRL *_sequence, verl
    geometric  token ratios; the completion is judged      OpenRLHF seq-mask-tis; mask only
               by their geometric mean

Shape letters: N completions, C completion tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from mmrl.config.schema import AlgorithmSection

MAX_LOG_RATIO = 20.0
WEIGHT, SQUARE = "correction_weight", "correction_square"


@dataclass(frozen=True, slots=True, eq=False)
class Correction:
    """weight_NC: detached, 1 off the mask. outside_NC: bool, tokens whose weight was truncated or masked.

    log_ratio_NC: log-prob by the trainer less that by the sampler, 0 off the mask.
    """

    weight_NC: torch.Tensor
    outside_NC: torch.Tensor
    log_ratio_NC: torch.Tensor

    def stats(self) -> dict[str, torch.Tensor]:
        """Token grids whose means over loss tokens are logged; `with_sample_size` makes the last metric of them.

        rollout_kl estimates KL(sampler || trainer) by k1, the mean of log q - log p over what the sampler drew.
        """
        return {
            WEIGHT: self.weight_NC,
            SQUARE: self.weight_NC**2,
            "correction_outside": self.outside_NC,
            "rollout_kl": -self.log_ratio_NC,
        }


def rollout_correction(
    old_NC: torch.Tensor, rollout_NC: torch.Tensor, mask_NC: torch.Tensor, *, settings: AlgorithmSection
) -> Correction:
    """Weights by the `rollout_correction` keys of `settings`, which must not be `none`.

    old_NC, rollout_NC: log-probs of the sampled tokens by the trainer before the update and by the sampler. Logarithms
    of ratios are clamped to ±20. Old (-1, -2, -0.5) and sampler (-1.2, -3.5, -0.4) have the ratios (1.2214, 4.4817,
    0.9048): with cap 2 truncation gives (1.2214, 2, 0.9048), the mask (1.2214, 0, 0.9048); their product is 4.9530,
    truncated to 2 on every token.
    """
    log_ratio_NC = torch.where(mask_NC, old_NC.detach().double() - rollout_NC.double(), 0.0)
    sum_N1, count_N1 = log_ratio_NC.sum(1, keepdim=True), mask_NC.sum(1, keepdim=True).clamp(min=1)
    level = settings.rollout_correction_level
    judged_NC = {"token": log_ratio_NC, "sequence": sum_N1, "geometric": sum_N1 / count_N1}[level]
    judged_NC = _ratio(judged_NC).expand_as(log_ratio_NC)
    weight_NC = _ratio(log_ratio_NC) if level == "geometric" else judged_NC
    low, cap = settings.rollout_correction_low, settings.rollout_correction_cap
    outside_NC = ((judged_NC < low) | (judged_NC > cap)) & mask_NC
    if settings.rollout_correction == "truncate":
        weight_NC = weight_NC.clamp(low, cap)
    else:
        weight_NC = torch.where(outside_NC, 0.0, weight_NC)
    weight_NC = torch.where(mask_NC, weight_NC, 1.0)
    return Correction(weight_NC.to(old_NC.dtype), outside_NC, log_ratio_NC)


def rejection(
    old_NC: torch.Tensor, rollout_NC: torch.Tensor, mask_NC: torch.Tensor, *, settings: AlgorithmSection
) -> torch.Tensor:
    """Weights of 0 and 1, (N, C): what `rollout_rejection` and its bounds take out of the policy term.

    `<level>_<measure>`. Measures of the ratio trainer / sampler of a token: k1 the ratio itself (verl: bounds "lo_hi"),
    k2 = (log ratio)² / 2, k3 = ratio - log ratio - 1. Levels: each token, or the completion by the sum, mean or largest
    of its tokens (k1: of their logarithms). Log-ratios 0.02, -0.01, 0.015: seq_mean_k1 1.00837, seq_mean_k2 and
    seq_mean_k3 0.000121. Source: verl@b178a3cd5, which takes rejected tokens out of the mean as well; here the
    denominator stays, as with every weight.
    """
    level, _, measure = settings.rollout_rejection.rpartition("_")
    log_NC = torch.where(mask_NC, old_NC.detach().double() - rollout_NC.double(), 0.0)
    log_NC = log_NC.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    value_NC = log_NC if measure == "k1" else log_NC**2 / 2 if measure == "k2" else log_NC.exp() - log_NC - 1
    if level == "seq_max":
        value_NC = torch.where(mask_NC, value_NC, -torch.inf).amax(1, keepdim=True)
    elif level != "token":
        value_NC = torch.where(mask_NC, value_NC, 0.0).sum(1, keepdim=True)
        value_NC = value_NC / mask_NC.sum(1, keepdim=True).clamp(min=1) if level == "seq_mean" else value_NC
    if measure == "k1":
        value_NC = _ratio(value_NC)
    kept_NC = (value_NC >= settings.rollout_rejection_low) & (value_NC <= settings.rollout_rejection_high)
    return torch.where(mask_NC, kept_NC, True).to(old_NC.dtype)


def off_policy_mask(
    policy_NC: torch.Tensor,
    rollout_NC: torch.Tensor,
    advantage_NC: torch.Tensor,
    mask_NC: torch.Tensor,
    *,
    delta: float,
) -> torch.Tensor:
    """Weights of 0 and 1, (N, 1): 0 for a completion whose advantage is negative and that has become improbable.

    Kept where A >= 0 or mean over the tokens of sampler - policy log-prob <= delta (DeepSeek-V3.2; TRL's
    off_policy_mask_threshold). delta 0.1: A = -1 and a mean of 0.25 is masked, 0.05 kept; A = 1 is always kept.
    """
    count_N1 = mask_NC.sum(1, keepdim=True).clamp(min=1)
    drift_N1 = torch.where(mask_NC, rollout_NC - policy_NC.detach(), 0.0).sum(1, keepdim=True) / count_N1
    mean_N1 = torch.where(mask_NC, advantage_NC, 0.0).sum(1, keepdim=True)
    return ((mean_N1 >= 0) | (drift_N1 <= delta)).to(policy_NC.dtype)


def with_sample_size(metrics: dict[str, float]) -> dict[str, float]:
    """The metrics of an optimizer step with `policy/correction_ess` in place of the mean square of the weights.

    The effective sample size as a share of the tokens, (sum w)² / (n sum w²): 1 for equal weights, 1/n where one token
    has all the weight, 0 where all are masked. Weights (1, 1, 2) give 16 / 18.
    """
    square = metrics.get(f"policy/{SQUARE}")
    if square is None:
        return metrics
    rest = {key: value for key, value in metrics.items() if key != f"policy/{SQUARE}"}
    mean = metrics[f"policy/{WEIGHT}"]
    return {**rest, "policy/correction_ess": mean**2 / square if square else 0.0}


def _ratio(log_ratio: torch.Tensor) -> torch.Tensor:
    return log_ratio.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()
