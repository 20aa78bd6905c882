"""Losses of pairs of replies, of which one is preferred. Pure.

    margin M = (log p(chosen) - log p_ref(chosen)) - (log p(rejected) - log p_ref(rejected))

    sigmoid  -log sigmoid(beta M)          DPO, Rafailov et al. 2023 (arXiv:2305.18290), equation 7
    ipo      (M - 1 / (2 beta))^2          IPO, Azar et al. 2023 (arXiv:2310.12036), equation 17
    hinge    max(0, 1 - beta M)            SLiC-HF, Zhao et al. 2023 (arXiv:2305.10425), over DPO's margin

The formulas are those of the papers. A log-prob is the sum over the reply's tokens, the end token included, as in all
three; TRL takes the mean for ipo, which is what `mean_logprobs` gives. Without a reference its terms are 0.

    M = 0: sigmoid ln 2 = 0.6931, hinge 1, ipo at beta 0.1 25
    M = 1, beta 0.1: sigmoid 0.6444, hinge 0.9, ipo 16

Shape letter: P pairs.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn.functional import softplus


def sigmoid_loss(margin_P: torch.Tensor, *, beta: float) -> torch.Tensor:
    """-log sigmoid(beta M), without overflow."""
    return softplus(-beta * margin_P)


def ipo_loss(margin_P: torch.Tensor, *, beta: float) -> torch.Tensor:
    """Squared distance of the margin from 1 / (2 beta)."""
    return (margin_P - 1.0 / (2.0 * beta)) ** 2


def hinge_loss(margin_P: torch.Tensor, *, beta: float) -> torch.Tensor:
    """What beta M lacks of 1."""
    return (1.0 - beta * margin_P).clamp(min=0.0)


PAIR_LOSSES: dict[str, Callable[..., torch.Tensor]] = {
    "sigmoid": sigmoid_loss,
    "ipo": ipo_loss,
    "hinge": hinge_loss,
}
