"""What a plug-in's hooks give for a made batch, rounded as the worked numbers of the methods are."""

from dataclasses import replace
from typing import Any

import torch
from makers.batches import make_batch

from mmrl.algorithms.hooks import Plugin, load_plugin
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.schema import AlgorithmSection

SETTINGS = AlgorithmSection()


def plugin(name: str, **options: Any) -> Plugin:
    """A shipped plug-in with options."""
    return load_plugin(name, options=options)


def scored_batch(rewards: list[float], *, parts: dict[str, list[float]] | None = None, **columns: Any) -> RolloutBatch:
    """Completions of these rewards, of one token unless `lengths` says otherwise. parts: of weight 0, by name."""
    parts = parts or {}
    lengths = columns.pop("lengths", [1] * len(rewards))
    batch = make_batch(
        lengths,
        reward_names=("r", *parts),
        weights_NK=torch.tensor([1.0] + [0.0] * len(parts)),
        rewards_NK=torch.tensor([list(row) for row in zip(rewards, *parts.values(), strict=True)]),
        **columns,
    )
    return batch


def with_spans(batch: RolloutBatch, name: str, rows: list[list[tuple[int, float]]]) -> RolloutBatch:
    """The batch with a column of spans. rows: per row (tokens, value) of each span, one after the other."""
    values = torch.full(batch.mask_NC.shape, torch.nan, dtype=torch.float64)
    numbers = values.clone()
    for n, row in enumerate(rows):
        start = 0
        for number, (tokens, value) in enumerate(row):
            values[n, start : start + tokens], numbers[n, start : start + tokens] = value, number
            start += tokens
    return replace(batch, meta={**batch.meta, name: values, f"{name}.span": numbers})


def grid(rows: list[list[float]]) -> torch.Tensor:
    """(N, C) with zeros after each row."""
    width = max(map(len, rows))
    return torch.tensor([row + [0.0] * (width - len(row)) for row in rows])


def per_row(advantage_NC: torch.Tensor, digits: int = 4) -> list[float]:
    """The first token's value of each row."""
    return [round(value, digits) + 0.0 for value in advantage_NC[:, 0].tolist()]


def per_token(advantage_NC: torch.Tensor, batch: RolloutBatch, digits: int = 4) -> list[list[float]]:
    """The values of each row's tokens; cells after them must be 0."""
    assert (advantage_NC[~batch.mask_NC] == 0).all()
    rows = zip(advantage_NC.tolist(), batch.length_N.tolist(), strict=True)
    return [[round(value, digits) + 0.0 for value in row[:length]] for row, length in rows]


def advantages(
    used: Plugin, batch: RolloutBatch, rewards: list[float] | None = None, settings: AlgorithmSection = SETTINGS
) -> torch.Tensor:
    """The plug-in's advantages. rewards: None: those of the batch's first part."""
    rewards_N = batch.rewards_NK[:, 0].double() if rewards is None else torch.tensor(rewards, dtype=torch.float64)
    return used.hooks["advantage"](rewards_N, batch, settings)


def shaped(used: Plugin, batch: RolloutBatch, digits: int = 4) -> list[float]:
    """The shaped rewards, of a plug-in that makes no token rewards."""
    values_N, token_rewards = used.hooks["shape_rewards"](batch, batch.rewards_NK[:, 0].double())
    assert token_rewards is None
    return [round(value, digits) + 0.0 for value in values_N.tolist()]


def end_step(used: Plugin, batch: RolloutBatch, metrics: dict[str, float] | None = None) -> dict[str, float]:
    """`on_step_end` with the batch's first part as rewards; the metrics after it."""
    metrics = {} if metrics is None else metrics
    used.hooks["on_step_end"](batch, batch.rewards_NK[:, 0].double(), metrics)
    return metrics
