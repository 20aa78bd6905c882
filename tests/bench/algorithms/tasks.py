"""Tasks of tables that several claims share."""

from __future__ import annotations

from collections.abc import Callable

import torch
from bench.algorithms.tabular import Result, Rows, Tensor, every


def target(rows: Rows) -> Tensor:
    """1 where every token is the first of the vocabulary, the right answer of all prompts."""
    return (rows.ids_NC == 0).all(1).float()


def graded(rows: Rows) -> Tensor:
    """The share of right tokens."""
    return (rows.ids_NC == 0).float().mean(1)


def start(
    rate: float | Callable[[torch.Generator], Tensor],
    *,
    prompts: int = 32,
    places: int = 2,
    vocab: int = 4,
    spread: float = 0.5,
    decoy: float = 0.0,
) -> Callable[[torch.Generator], Tensor]:
    """Tables in which about `rate` of a prompt's answers are right.

    spread: of the logits, normal. decoy: what the second token has more than the other wrong ones.
    """

    def tables(generator: torch.Generator) -> Tensor:
        rate_P = rate(generator) if callable(rate) else torch.full((prompts,), rate)
        table = spread * torch.randn(prompts, places, vocab, vocab, generator=generator)
        table[..., 1] += decoy
        each_P = rate_P ** (1 / places)
        others = table[..., 1:].logsumexp(-1)
        table[..., 0] = others + torch.log(each_P / (1 - each_P))[:, None, None]
        return table

    return tables


def expected(result: Result, worth: Callable[[Rows], Tensor]) -> float:
    """The mean over prompts of what an answer of the trained policy is worth, exactly."""
    rows = every(result.policy.own.shape, end=result.policy.task.end)
    with torch.no_grad():
        chance_N = result.policy.logprobs(rows).sum(1).exp() / result.policy.own.shape[0]
    return (chance_N * worth(rows)).sum().item()


def entropy(result: Result) -> float:
    """Of the answers of a prompt at the end, mean over prompts, in nats."""
    rows = every(result.policy.own.shape, end=result.policy.task.end)
    with torch.no_grad():
        return -expected(result, lambda _: result.policy.logprobs(rows).sum(1))


def right_kinds(result: Result) -> float:
    """exp of the entropy among a prompt's right answers, mean over prompts: how many kinds of them it gives."""
    rows = every(result.policy.own.shape, end=result.policy.task.end)
    with torch.no_grad():
        prompts = result.policy.own.shape[0]
        chance_PS = (result.policy.logprobs(rows).sum(1).exp() * result.policy.task.truth(rows)).reshape(prompts, -1)
        chance_PS = chance_PS / chance_PS.sum(1, keepdim=True)
        return torch.special.entr(chance_PS).sum(1).exp().mean().item()


def length(result: Result) -> float:
    return result.length


def multiple(rows: Rows) -> Tensor:
    """1 where the tokens add up to a multiple of 4: many right answers."""
    return (rows.ids_NC.sum(1) % 4 == 0).float()


def uniform(prompts: int, places: int, vocab: int = 4, *, spread: float = 0.5) -> Callable[[torch.Generator], Tensor]:
    """Tables of normal logits."""
    return lambda generator: spread * torch.randn(prompts, places, vocab, vocab, generator=generator)


def first(rows: Rows) -> Tensor:
    """1 where the first token is right; how the answer goes on does not matter."""
    return (rows.ids_NC[:, 0] == 0).float()


def steps_column(name: str) -> Callable[[Rows, Tensor, torch.Generator], dict[str, Tensor]]:
    """A column of spans, one for each token, whose value is whether that token is right."""

    def columns(rows: Rows, true_N: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        spans_NC = torch.arange(rows.ids_NC.shape[1]).expand(rows.ids_NC.shape).double()
        return {name: (rows.ids_NC == 0).double(), f"{name}.span": spans_NC}

    return columns
