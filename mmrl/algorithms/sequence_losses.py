"""Policy losses with one ratio for a whole completion, still as token grids: `aggregate` reduces them.

Shape letters: N completions, C completion tokens.
"""

from __future__ import annotations

import math

import torch

from mmrl.algorithms.losses import MAX_LOG_RATIO, LossInput, TokenStats, clipped
from mmrl.config.section import PositiveFloat

_MIN_LOG_WEIGHT = math.log(1e-8)


def gspo(inputs: LossInput, *, token: bool = False) -> tuple[torch.Tensor, TokenStats]:
    """PPO's clip on s = exp(mean over the completion of policy - old), the same on every token (GSPO, Zheng 2025).

    token: the token form, sg[s] * exp(policy - sg[policy]): the same values and, for an advantage that is equal on all
    tokens, the same gradient; it lets advantages differ by token. No dual clip. Defaults of the paper: clip_low 3e-4,
    clip_high 4e-4. Source: verl, EasyR1, TRL, read in code.

    Log-ratios 0.1, -0.1, 0.3, 0.1: s = 1.1052; with A = 1 and these clips the loss is -1.0004, without gradient.
    """
    mean_N1 = _mean_over_tokens(inputs.policy_NC - inputs.old_NC, inputs.mask_NC)
    if token:
        log_NC = mean_N1.detach() + inputs.policy_NC - inputs.policy_NC.detach()
    else:
        log_NC = mean_N1.expand_as(inputs.policy_NC)
    return clipped(log_NC.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp(), inputs)


def gmpo(inputs: LossInput, *, clip: PositiveFloat = 0.4) -> tuple[torch.Tensor, TokenStats]:
    """-A exp(mean over the completion of x), x the log-ratio clipped against its advantage (GMPO, Zhao 2025).

    x_t = s min(s d_t, s clip(d_t, -clip, clip)), s the sign of A: the clip is in log space, and the geometric mean
    comes after it. Source: callsys/GMPO@205b2bf, read in code.

    Log-ratios 0.1, 0.9, -0.7: A = 1 gives -0.9355, A = -1 gives 1.2214.
    """
    d_NC, sign_NC = inputs.log_ratio_NC, inputs.advantage_NC.sign()
    bounded_NC = sign_NC * torch.minimum(sign_NC * d_NC, sign_NC * d_NC.clamp(-clip, clip))
    ratio_N1 = _mean_over_tokens(bounded_NC, inputs.mask_NC).exp()
    stats = {"clipfrac": bounded_NC != d_NC}
    return -inputs.advantage_NC * ratio_N1, stats


def vespo(
    inputs: LossInput,
    *,
    k_positive: PositiveFloat = 2.0,
    lambda_positive: PositiveFloat = 3.0,
    k_negative: PositiveFloat = 3.0,
    lambda_negative: PositiveFloat = 2.0,
) -> tuple[torch.Tensor, TokenStats]:
    """-sg[phi(w)] A log p per token, w the ratio of the whole completion, phi(w) = e^l w^k e^(-l w) (VESPO).

    phi(1) = 1. (k, l) is (2, 3) for A > 0 and (3, 2) for A < 0. The weight of the whole completion takes the place of a
    correction for the sampler, so `rollout_correction` beside it is refused. Source: TRL@f2cd57710, read in code.

    (2, 3): phi(0.5) = 1.1204, phi(2) = 0.1991; (3, 2): phi(2) = 1.0827.
    """
    d_NC = torch.where(inputs.mask_NC, inputs.log_ratio_NC.detach(), 0.0)
    log_w_N1 = d_NC.sum(1, keepdim=True).clamp(_MIN_LOG_WEIGHT, MAX_LOG_RATIO)
    is_positive_NC = inputs.advantage_NC >= 0
    k_NC = torch.where(is_positive_NC, k_positive, k_negative)
    lambda_NC = torch.where(is_positive_NC, lambda_positive, lambda_negative)
    phi_NC = (lambda_NC + k_NC * log_w_N1 - lambda_NC * log_w_N1.exp()).exp().to(inputs.policy_NC.dtype)
    return -phi_NC * inputs.advantage_NC * inputs.policy_NC, {"vespo_weight": phi_NC}


def _mean_over_tokens(values_NC: torch.Tensor, mask_NC: torch.Tensor) -> torch.Tensor:
    """(N, 1); 0 for a completion without loss tokens."""
    total_N1 = torch.where(mask_NC, values_NC, 0.0).sum(1, keepdim=True)
    return total_N1 / mask_NC.sum(1, keepdim=True).clamp(min=1)
