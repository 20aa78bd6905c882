"""Estimators of KL(policy || reference) from the sampled tokens (Schulman, "Approximating KL divergence", 2020).

Shape letters: N completions, C completion tokens.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from mmrl.training.distributed import sum_over_ranks

MAX_LOG_RATIO = 20.0
MAX_KL = 10.0


def _k1(d_NC: torch.Tensor) -> torch.Tensor:
    return d_NC


def _k2(d_NC: torch.Tensor) -> torch.Tensor:
    return d_NC**2 / 2


def _k3(d_NC: torch.Tensor) -> torch.Tensor:
    return torch.expm1(-d_NC) + d_NC  # exp(-d) - 1 by itself loses all digits where the policies nearly agree


KL_ESTIMATORS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "k1": _k1,
    "k2": _k2,
    "k3": _k3,
    "abs": torch.abs,
    "k1+": lambda d_NC: _with_gradient_of(_k1(d_NC), _k2(d_NC)),
    "k3+": lambda d_NC: _with_gradient_of(_k3(d_NC), _k2(d_NC)),
}


def ref_kl(policy_NC: torch.Tensor, ref_NC: torch.Tensor, *, estimator: str) -> torch.Tensor:
    """KL per token with d = policy - ref: k1 = d, k2 = d²/2, k3 = exp(-d) + d - 1; d within ±20, the result within ±10.

    d = 0.5 gives k1 0.5, k2 0.1250, k3 0.1065. k1 and k3 are unbiased as values; as a loss k1's gradient is zero in
    the mean on policy, so it regularises nothing: use k2 or k3 there. k1+ and k3+ have the value of k1 and k3 and the
    gradient of k2, whose mean is that of the KL (verl's "+").
    """
    d_NC = (policy_NC - ref_NC.detach()).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    return KL_ESTIMATORS[estimator](d_NC).clamp(-MAX_KL, MAX_KL)


def _with_gradient_of(value_NC: torch.Tensor, other_NC: torch.Tensor) -> torch.Tensor:
    return value_NC.detach() + other_NC - other_NC.detach()


class KlController:
    """The coefficient of the KL to the reference, which with a target follows the KL that is measured.

    coef <- coef (1 + clip(KL / target - 1, -0.2, 0.2) n / horizon), n the completions of the step (verl's adaptive
    controller). Coefficient 0.2, KL 0.15, target 0.1, n 256, horizon 10000: 0.201024.
    """

    def __init__(self, coef: float, *, target: float | None, horizon: int) -> None:
        self.coef, self._target, self._horizon = coef, target, horizon
        self._sum, self._tokens = 0.0, 0.0

    @property
    def adapts(self) -> bool:
        return self._target is not None

    def update(self, kl: float, *, completions: float) -> None:
        if self._target is not None:
            error = min(max(kl / self._target - 1, -0.2), 0.2)
            self.coef *= 1 + error * completions / self._horizon

    def penalty(self, old_NC: torch.Tensor, ref_NC: torch.Tensor, mask_NC: torch.Tensor) -> torch.Tensor:
        """(N, C) float64: -coef (old - ref) of each token, as a reward; what it sees is part of the next `measured`."""
        kl_NC = torch.where(mask_NC, ref_kl(old_NC.double(), ref_NC.double(), estimator="k1"), 0.0)
        self._sum += kl_NC.sum().item()
        self._tokens += mask_NC.sum().item()
        return -self.coef * kl_NC

    def measured(self) -> float:
        """The mean over the tokens that all processes have seen since the last call."""
        total, tokens = sum_over_ranks([self._sum, self._tokens])
        self._sum, self._tokens = 0.0, 0.0
        return total / max(tokens, 1)
