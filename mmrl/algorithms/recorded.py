"""Completions kept from earlier steps, and how they join a batch again.

They come back as rows of the kind `replay` with the log-probs they were sampled with: `rollout_NC` holds them, and
where a hook needs `old` the trainer keeps them there instead of computing them anew.

Shape letters: N completions, C completion tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch

from mmrl.algorithms.parts import joined
from mmrl.algorithms.requests import is_request
from mmrl.algorithms.rollout_batch import RolloutBatch

_SAMPLED = ("ids_NC", "mask_NC", "rollout_NC", "token_rewards_NC")  # the other grids are the trainer's


@dataclass(frozen=True, slots=True)
class Recorded:
    """A completion as it was sampled: token ids, their log-probs then, and its reward."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    reward: float

    @property
    def mean_logprob(self) -> float:
        return sum(self.logprobs) / max(len(self.logprobs), 1)

    def state(self) -> list[Any]:
        """As JSON; `Recorded.of(state)` reads it."""
        return [list(self.ids), list(self.logprobs), self.reward]

    @classmethod
    def of(cls, state: Sequence[Any]) -> Recorded:
        ids, logprobs, reward = state
        return cls(tuple(ids), tuple(logprobs), reward)


def record(batch: RolloutBatch, row: int, reward: float) -> Recorded:
    """A row of a batch, to be kept. Log-probs keep the seven digits that float32 has."""
    mask_C = batch.mask_NC[row]
    logprobs = [float(f"{value:.9g}") for value in batch.rollout_NC[row][mask_C].tolist()]
    return Recorded(tuple(batch.ids_NC[row][mask_C].tolist()), tuple(logprobs), reward)


def with_recorded(
    batch: RolloutBatch, rewards_N: torch.Tensor, rows: Sequence[int], recorded: Sequence[tuple[int, Recorded]]
) -> tuple[RolloutBatch, torch.Tensor]:
    """The batch and rewards without `rows` and with recorded completions, each of the group of a row of the batch.

    recorded: (row of whose group it is, the completion). Log-probs and entropies of the trainer are dropped: those that
    are needed later are computed for the rows there then are. Columns of recorded rows are NaN.
    """
    if not rows and not recorded:
        return batch, rewards_N
    leaving = torch.zeros(len(batch), dtype=torch.bool)
    leaving[list(rows)] = True
    computed = [item.name for item in fields(batch) if item.name.endswith("_NC") and item.name not in _SAMPLED]
    meta = {name: column for name, column in batch.meta.items() if not is_request(name)}
    fresh = replace(batch, kind=batch.kind or ("fresh",) * len(batch), meta=meta, **dict.fromkeys(computed))
    if not recorded:
        return fresh.select(~leaving), rewards_N[~leaving]
    models = torch.tensor([row for row, _ in recorded])
    added = _rows(fresh.select(models), [completion for _, completion in recorded])
    kept = fresh.select(~leaving)
    rewards = torch.tensor([completion.reward for _, completion in recorded], dtype=rewards_N.dtype)
    return joined(kept, added), torch.cat([rewards_N[~leaving], rewards])


def _rows(models: RolloutBatch, recorded: Sequence[Recorded]) -> RolloutBatch:
    """The model rows with the tokens of recorded completions in place of theirs."""
    width = max(len(completion.ids) for completion in recorded)
    shape = (len(recorded), width)
    ids_NC, mask_NC = torch.zeros(shape, dtype=torch.int64), torch.zeros(shape, dtype=torch.bool)
    rollout_NC = torch.zeros(shape, dtype=models.rollout_NC.dtype)
    for n, completion in enumerate(recorded):
        length = len(completion.ids)
        ids_NC[n, :length], mask_NC[n, :length] = torch.tensor(completion.ids, dtype=torch.int64), True
        rollout_NC[n, :length] = torch.tensor(completion.logprobs, dtype=rollout_NC.dtype)
    rewards_N = torch.tensor([completion.reward for completion in recorded], dtype=models.rewards_NK.dtype)
    of_tokens = models.token_rewards_NC
    return replace(
        models,
        ids_NC=ids_NC,
        mask_NC=mask_NC,
        rollout_NC=rollout_NC,
        token_rewards_NC=None if of_tokens is None else torch.zeros(shape, dtype=of_tokens.dtype),
        rewards_NK=torch.full_like(models.rewards_NK, torch.nan),
        combined_N=None if models.combined_N is None else rewards_N.to(models.combined_N.dtype),
        truncated_N=torch.zeros_like(models.truncated_N),
        kind=("replay",) * len(recorded),
        meta={},
    )
