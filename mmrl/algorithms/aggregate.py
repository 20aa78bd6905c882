"""From a token grid of losses to one number, with denominators of the whole optimizer step.

    token-mean               sum / tokens                       DAPO, verl default
    seq-mean-token-mean      mean over sequences of their mean  GRPO as published
    seq-mean-token-sum       sum / sequences
    seq-mean-token-sum-norm  sum / (sequences * L)              Dr.GRPO as TRL writes it
    seq-sum-token-sum-norm   sum / L                            what verl calls seq-mean-token-sum-norm

The last two differ by the number of sequences although papers and programs give both the same name: a learning rate
tuned with one is wrong by that factor with the other.

Denominators are counted once over all rows of an optimizer step and passed in, so the sum over any split into
micro-batches is the same number. The mean of micro-batch means is not: rows [1, 1] and [2, 2, 2, 2] have the token
mean 10 / 6 = 1.6667, the mean of their means is 1.5.

Shape letters: N completions, C completion tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

Mode = Literal[
    "token-mean",
    "seq-mean-token-mean",
    "seq-mean-token-sum",
    "seq-mean-token-sum-norm",
    "seq-sum-token-sum-norm",
]


@dataclass(frozen=True, slots=True)
class Denominator:
    """Counts over one optimizer step: loss tokens, sequences with at least one of them, and the constant L.

    With several processes, add up the Denominators of all of them.
    """

    tokens: int
    sequences: int
    length: int

    def __add__(self, other: Denominator) -> Denominator:
        assert self.length == other.length, "one optimizer step has one L"
        return Denominator(self.tokens + other.tokens, self.sequences + other.sequences, self.length)


def count(mask_NC: torch.Tensor, *, length: int) -> Denominator:
    """The Denominator of a loss mask. Rows without a loss token do not count as sequences."""
    return Denominator(int(mask_NC.sum()), int(mask_NC.any(1).sum()), length)


def aggregate(loss_NC: torch.Tensor, mask_NC: torch.Tensor, *, mode: Mode, denom: Denominator) -> torch.Tensor:
    """This grid's share of the step's loss: a scalar; add the shares of all micro-batches.

    Cells off the mask do not matter, whatever they hold. Without a single loss token the loss is 0.
    """
    loss_NC = torch.where(mask_NC, loss_NC, 0.0)
    tokens, sequences = max(denom.tokens, 1), max(denom.sequences, 1)
    if mode == "token-mean":
        return loss_NC.sum() / tokens
    if mode == "seq-mean-token-mean":
        return (loss_NC.sum(1) / mask_NC.sum(1).clamp(min=1)).sum() / sequences
    if mode == "seq-mean-token-sum":
        return loss_NC.sum() / sequences
    if mode == "seq-mean-token-sum-norm":
        return loss_NC.sum() / (sequences * denom.length)
    return loss_NC.sum() / denom.length
