"""Estimators of KL(policy || reference) from the sampled tokens (Schulman, "Approximating KL divergence", 2020).

Shape letters: N completions, C completion tokens.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

MAX_LOG_RATIO = 20.0
MAX_KL = 10.0


def _k1(d_NC: torch.Tensor) -> torch.Tensor:
    return d_NC


def _k2(d_NC: torch.Tensor) -> torch.Tensor:
    return d_NC**2 / 2


def _k3(d_NC: torch.Tensor) -> torch.Tensor:
    return torch.expm1(-d_NC) + d_NC  # exp(-d) - 1 by itself loses all digits where the policies nearly agree


KL_ESTIMATORS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {"k1": _k1, "k2": _k2, "k3": _k3}


def ref_kl(policy_NC: torch.Tensor, ref_NC: torch.Tensor, *, estimator: str) -> torch.Tensor:
    """KL per token with d = policy - ref: k1 = d, k2 = d²/2, k3 = exp(-d) + d - 1; d within ±20, the result within ±10.

    d = 0.5 gives k1 0.5, k2 0.1250, k3 0.1065. k1 and k3 are unbiased as values; as a loss k1's gradient is zero in
    the mean on policy, so it regularises nothing: use k2 or k3 there.
    """
    d_NC = (policy_NC - ref_NC.detach()).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    return KL_ESTIMATORS[estimator](d_NC).clamp(-MAX_KL, MAX_KL)
