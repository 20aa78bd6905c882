"""RolloutBatch: what the algorithm's hooks read, one row per completion.

Shape letters: N completions, C completion tokens (padded), K reward parts, P groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace

import torch

from mmrl.algorithms.requests import is_request
from mmrl.rollout.types import Group

_TEXTS = ("prompt_id", "kind", "task", "dataset")  # fields with a text per row


@dataclass(frozen=True, slots=True, eq=False)
class RolloutBatch:
    """The completions of a step.

    prompt_id: `<dataset>/<sample id>` per row, stable over epochs; the key of all per-prompt state.
    gid_N: int64, the group a row is compared in. One per request: two rows of a dataset with the same question are two
        groups, so it is never derived from text.
    ids_NC, mask_NC: completion tokens and which cells hold one (bool). An empty completion is a row without True.
    rollout_NC, old_NC, ref_NC: log-probs of those tokens under the sampler, the policy before the update, and the
        reference; entropy_NC of the policy before the update, value_NC what its value head expects before each token.
        None: nobody asked. 0 where mask is False.
    rewards_NK: NaN where unscored or not a part of the row's task. weights_NK, or (K,) for all rows alike: 0 there too.
    combined_N: the reward of a row as the router combined its parts (`rewards.combine`, gates); None: the weighted sum.
    truncated_N: bool, finish_reason is `length`. token_rewards_NC: rewards of single tokens, where a hook makes some.
    version_N: int64, the policy version each row was sampled with; None: all with the present one, `policy_version`.
    kind: `fresh`, `replay` or `recycled` per row; empty: all fresh. meta: further columns, first dimension N: what
        rewards return beside their value (mmrl.training.columns), and what a hook leaves there for later ones.
    """

    prompt_id: tuple[str, ...]
    gid_N: torch.Tensor
    ids_NC: torch.Tensor
    mask_NC: torch.Tensor
    rollout_NC: torch.Tensor
    rewards_NK: torch.Tensor
    reward_names: tuple[str, ...]
    weights_NK: torch.Tensor
    truncated_N: torch.Tensor
    combined_N: torch.Tensor | None = None
    old_NC: torch.Tensor | None = None
    ref_NC: torch.Tensor | None = None
    entropy_NC: torch.Tensor | None = None
    value_NC: torch.Tensor | None = None
    token_rewards_NC: torch.Tensor | None = None
    version_N: torch.Tensor | None = None
    policy_version: int = 0
    kind: tuple[str, ...] = ()
    task: tuple[str, ...] = ()
    dataset: tuple[str, ...] = ()
    meta: dict[str, torch.Tensor] = field(default_factory=dict)
    step: int = 0
    total_steps: int = 1

    def __len__(self) -> int:
        return len(self.prompt_id)

    @property
    def length_N(self) -> torch.Tensor:
        """Completion tokens per row."""
        return self.mask_NC.sum(1)

    @property
    def staleness_N(self) -> torch.Tensor:
        """How many versions older than the policy each row's sampler was; int64, 0: sampled on policy."""
        if self.version_N is None:
            return torch.zeros(len(self), dtype=torch.int64)
        return self.policy_version - self.version_N

    def has(self, name: str) -> bool:
        """Whether old, ref or a request is there: as a field, or in meta."""
        return name in self.meta or getattr(self, f"{name}_NC", None) is not None

    def with_grids(self, grids: dict[str, torch.Tensor]) -> RolloutBatch:
        """The batch with old, ref and requests, each in its field or, where it has none, in meta."""
        of_fields = {f"{name}_NC": grid for name, grid in grids.items() if f"{name}_NC" in _FIELDS}
        others = {name: grid for name, grid in grids.items() if f"{name}_NC" not in _FIELDS}
        return replace(self, **of_fields, meta={**self.meta, **others})

    def select(self, keep_N: torch.Tensor) -> RolloutBatch:
        """The rows where a bool mask is True, or those an index tensor lists, in its order."""
        rows = keep_N.nonzero().flatten() if keep_N.dtype == torch.bool else keep_N
        changed = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, torch.Tensor) and not (item.name == "weights_NK" and value.dim() == 1):
                changed[item.name] = value[rows]
            elif item.name in _TEXTS and value:
                changed[item.name] = tuple(value[i] for i in rows.tolist())
        return replace(self, **changed, meta={name: column[rows] for name, column in self.meta.items()})


_FIELDS = frozenset(item.name for item in fields(RolloutBatch))


def batch_from_groups(
    groups: Sequence[Group], prompt_ids: Sequence[str], *, rewards: Rewards, step: int = 0, total_steps: int = 1
) -> RolloutBatch:
    """Groups of an engine with their rewards as one batch; row order is group by group, gid counts the groups.

    prompt_ids: the sample id of each group.
    """
    done = [completion for group in groups for completion in group.completions]
    sizes = torch.tensor([len(group.completions) for group in groups])
    width = max((len(completion.ids) for completion in done), default=0)
    return RolloutBatch(
        prompt_id=tuple(p for p, size in zip(prompt_ids, sizes.tolist(), strict=True) for _ in range(size)),
        gid_N=torch.arange(len(groups)).repeat_interleave(sizes),
        ids_NC=_grid([c.ids for c in done], width=width, dtype=torch.int64),
        mask_NC=torch.arange(width) < torch.tensor([len(c.ids) for c in done])[:, None],
        rollout_NC=_grid([c.behavior_logprobs for c in done], width=width, dtype=torch.float32),
        rewards_NK=rewards.rewards_NK,
        reward_names=rewards.names,
        weights_NK=rewards.weights_NK,
        combined_N=rewards.combined_N,
        truncated_N=torch.tensor([c.finish_reason == "length" for c in done]),
        version_N=torch.tensor([c.policy_version for c in done], dtype=torch.int64),
        step=step,
        total_steps=total_steps,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Rewards:
    """Scores of N completions by K parts: NaN is unscored, weight 0 is a part that does not apply to the row.

    combined_N: what the parts of a row come to; None: their weighted sum.
    """

    rewards_NK: torch.Tensor
    weights_NK: torch.Tensor
    names: tuple[str, ...]
    combined_N: torch.Tensor | None = None


def _grid(rows: Sequence[Sequence[float]], *, width: int, dtype: torch.dtype) -> torch.Tensor:
    grid = torch.zeros(len(rows), width, dtype=dtype)
    for i, row in enumerate(rows):
        grid[i, : len(row)] = torch.tensor(row, dtype=dtype)
    return grid


def concatenate(batches: Sequence[RolloutBatch]) -> RolloutBatch:
    """All rows of several batches. Groups stay apart: gid counts them anew, in order; C is the longest."""
    assert len({batch.reward_names for batch in batches}) == 1, "batches of one step have the same reward parts"
    width = max(batch.mask_NC.shape[1] for batch in batches)
    joined = {}
    for item in fields(RolloutBatch):
        values = [getattr(batch, item.name) for batch in batches]
        if item.name.endswith("_NC"):
            joined[item.name] = None if values[0] is None else torch.cat([_widened(v, width) for v in values])
        elif item.name == "rewards_NK" or (item.name.endswith("_N") and item.name != "gid_N"):
            joined[item.name] = None if any(value is None for value in values) else torch.cat(values)
        elif item.name == "kind" and any(values):
            kinds = [batch.kind or ("fresh",) * len(batch) for batch in batches]
            joined[item.name] = tuple(kind for of_batch in kinds for kind in of_batch)
        elif item.name in _TEXTS:
            joined[item.name] = tuple(entry for value in values for entry in value)
    return replace(
        batches[0],
        **joined,
        weights_NK=torch.cat([batch.weights_NK.expand_as(batch.rewards_NK) for batch in batches]),
        gid_N=_renumbered([batch.gid_N for batch in batches]),
        meta={
            name: _joined_column(batches, name) for name in dict.fromkeys(n for batch in batches for n in batch.meta)
        },
    )


def _joined_column(batches: Sequence[RolloutBatch], name: str) -> torch.Tensor:
    """A column of all rows: where a batch has none, and behind the narrower ones, NaN, or 0 in what a pass computed.

    One with a cell for each token gets as many as the joined rows have, though the longest of them may lack it.
    """
    having = [batch for batch in batches if name in batch.meta]
    known, width = having[0].meta[name], None
    if known.dim() > 1:
        is_of_tokens = all(batch.meta[name].shape[1] == batch.mask_NC.shape[1] for batch in having)
        width = max(
            batch.mask_NC.shape[1] if is_of_tokens else batch.meta[name].shape[1]
            for batch in (batches if is_of_tokens else having)
        )
    fill = torch.nan if known.is_floating_point() and not is_request(name) else 0
    parts = []
    for batch in batches:
        part = known.new_full((len(batch), *(() if width is None else (width, *known.shape[2:]))), fill)
        if name in batch.meta and width is not None:
            part[:, : batch.meta[name].shape[1]] = batch.meta[name]
        elif name in batch.meta:
            part = batch.meta[name]
        parts.append(part)
    return torch.cat(parts)


def _widened(grid: torch.Tensor, width: int) -> torch.Tensor:
    """(N, C) or (N, C, ..) with more columns."""
    behind = [0, 0] * (grid.dim() - 2)
    return torch.nn.functional.pad(grid, (*behind, 0, width - grid.shape[1]))


def _renumbered(gids: Sequence[torch.Tensor]) -> torch.Tensor:
    number: dict[tuple[int, int], int] = {}
    keys = [(i, gid) for i, gid_N in enumerate(gids) for gid in gid_N.tolist()]
    return torch.tensor([number.setdefault(key, len(number)) for key in keys], dtype=torch.int64)
