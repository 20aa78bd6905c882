"""From a token grid of losses to one number, with denominators of the whole optimizer step.

    token-mean               sum / tokens                       DAPO, verl default
    seq-mean-token-mean      mean over sequences of their mean  GRPO as published
    seq-mean-token-sum       sum / sequences
    seq-mean-token-sum-norm  sum / (sequences * L)              Dr.GRPO as TRL writes it
    seq-sum-token-sum-norm   sum / L                            what verl calls seq-mean-token-sum-norm
    rank-token-mean          mean over processes of their mean  TRL's bnpo; in one process token-mean

seq-mean-token-sum on a loss with one ratio per sequence weighs that loss by the length: LUSPO. The two -norm modes
differ by the number of sequences although papers and programs give both the same name: a learning rate tuned with one
is wrong by that factor with the other.

Denominators are counted once over all rows of an optimizer step and passed in, so the sum over any split into
micro-batches is the same number. The mean of micro-batch means is not: rows [1, 1] and [2, 2, 2, 2] have the token
mean 10 / 6 = 1.6667, the mean of their means is 1.5.

Shape letters: N completions, C completion tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch

Mode = Literal[
    "token-mean",
    "seq-mean-token-mean",
    "seq-mean-token-sum",
    "seq-mean-token-sum-norm",
    "seq-sum-token-sum-norm",
    "rank-token-mean",
]


@dataclass(frozen=True, slots=True)
class Denominator:
    """Counts over one optimizer step: loss tokens, sequences with at least one of them, and the constant L.

    ranks: processes that have loss tokens; own_tokens: those of this process. With several processes, `joined` adds up
    the Denominators of all of them.
    """

    tokens: int
    sequences: int
    length: int
    ranks: int = 1
    own_tokens: int = 0


def joined(parts: Sequence[Denominator], *, own: Denominator) -> Denominator:
    """The Denominator of a step from those of all processes; own: that of this one, which is among them."""
    assert len({part.length for part in parts}) == 1, "one optimizer step has one L"
    return Denominator(
        tokens=sum(part.tokens for part in parts),
        sequences=sum(part.sequences for part in parts),
        length=own.length,
        ranks=max(sum(part.tokens > 0 for part in parts), 1),
        own_tokens=own.tokens,
    )


def count(mask_NC: torch.Tensor, *, length: int) -> Denominator:
    """The Denominator of a loss mask. Rows without a loss token do not count as sequences."""
    tokens = int(mask_NC.sum())
    return Denominator(tokens, int(mask_NC.any(1).sum()), length, own_tokens=tokens)


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
    if mode == "rank-token-mean":
        return loss_NC.sum() / (max(denom.own_tokens, 1) * denom.ranks)
    return loss_NC.sum() / denom.length
