"""LATR: a group branches where the policy had another likely token, and keeps branches that became something else.

    trunk     1 completion, and (1 - share) of the group that stay plain
    branch    at a token behind an alternative j with p_j > least and p_1 - p_j < gap; `width` tokens a place, the
              sampled one among them, places from the first on
    pruned    a branch whose `lookahead` tokens behind the fork are nearly those of its sibling: edits over their number
              below `edits`
    full      at `capacity` completions; where no branch is left, plain ones are added
    share     of a group that comes from its tree: 1, from step 100 on .75, from 200 .5, from 300 .25

The source looks ahead and prunes while it samples; here a branch is sampled to its end and pruned then, and branches
are those of the trunk (derived). The engine reports alternatives, which with forced tokens is not asked for.

least .15, gap .25, width 2, lookahead 20 (in the source of 20, 30 and 50), capacity 8. Source: starreeze/latr@2adb0ed,
read in code; `edits` .4 is guessed. p = (.45, .3, .2, .05): the second and no further branches (.2 would, but for
width); (.9, .06, .04): none.

Shape letters: N completions, C completion tokens, A alternatives.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from mmrl.algorithms.parts import joined, rows_of_groups
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.algorithms.trees import Fork, branches, planted
from mmrl.config.section import NonNegativeInt, PositiveInt, Probability

NEUTRAL: dict[str, Any] = {"capacity": 0}
REPORTS = ("alternatives:4",)
SCHEDULE = ((0, 1.0), (100, 0.75), (200, 0.5), (300, 0.25))


class Plugin:
    """capacity: completions of a group; 0: no tree, `rollout.group_size` plain ones."""

    def __init__(
        self,
        *,
        capacity: NonNegativeInt = 8,
        least: Probability = 0.15,
        gap: Probability = 0.25,
        width: PositiveInt = 2,
        lookahead: PositiveInt = 20,
        edits: Probability = 0.4,
    ) -> None:
        self._capacity, self._least, self._gap, self._width = capacity, least, gap, width
        self._lookahead, self._edits = lookahead, edits
        self._steps, self._pruned, self._branched = 0, 0, 0

    def budget(self, prompt_ids: Sequence[str], group_size: int) -> torch.Tensor:
        first = 1 + round((1 - _share(self._steps)) * (self._capacity - 1)) if self._capacity else group_size
        return torch.full((len(prompt_ids),), first)

    def second_round(self, batch: RolloutBatch, generate: Callable[..., RolloutBatch]) -> RolloutBatch:
        if not self._capacity:
            return batch
        batch = planted(batch)
        trunks = [rows[0] for rows in rows_of_groups(batch).values()]
        waiting = {row: self._forks(batch, row) for row in trunks}
        sizes = {int(batch.gid_N[rows[0]]): len(rows) for rows in rows_of_groups(batch).values()}
        self._pruned = self._branched = 0
        while True:
            forks = []
            for row, places in waiting.items():
                room = self._capacity - sizes[int(batch.gid_N[row])]
                forks += places[:room]
                waiting[row] = places[max(room, 0) :]
            if not forks:
                break
            more = branches(batch, generate, forks, n=1)
            is_new = [not self._is_like(batch, fork, more.ids_NC[n][more.mask_NC[n]]) for n, fork in enumerate(forks)]
            self._pruned, self._branched = self._pruned + is_new.count(False), self._branched + is_new.count(True)
            for fork, new in zip(forks, is_new, strict=True):
                sizes[int(batch.gid_N[fork.row])] += new
            if any(is_new):
                batch = joined(batch, more.select(torch.tensor(is_new)))
        missing = [gid for gid, size in sizes.items() for _ in range(self._capacity - size)]
        return joined(batch, generate(missing, n=1)) if missing else batch

    def on_step_end(self, batch: RolloutBatch, rewards_N: torch.Tensor, metrics: dict[str, float]) -> None:
        self._steps += 1
        metrics["latr/branches"], metrics["latr/pruned"] = float(self._branched), float(self._pruned)

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self._steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._steps = state["steps"]

    def _forks(self, batch: RolloutBatch, row: int) -> list[Fork]:
        """Where a trunk may branch, and into which token."""
        ids_CA, logprobs_CA = batch.meta["alternatives"][row].chunk(2, dim=1)
        return [
            Fork(row, place, int(ids_CA[place, other]))
            for place in range(int(batch.length_N[row]))
            for other in self._others(ids_CA[place], logprobs_CA[place].exp(), int(batch.ids_NC[row, place]))
        ]

    def _others(self, ids_A: torch.Tensor, p_A: torch.Tensor, sampled: int) -> list[int]:
        """The alternatives of a place that branch off, likeliest first, beside the sampled token."""
        likely = [a for a in range(len(p_A)) if p_A[a] > self._least and p_A[0] - p_A[a] < self._gap]
        return [a for a in likely if int(ids_A[a]) != sampled][: self._width - 1]

    def _is_like(self, batch: RolloutBatch, fork: Fork, branch: torch.Tensor) -> bool:
        """Whether a branch goes on as the trunk does behind the fork."""
        trunk = batch.ids_NC[fork.row][batch.mask_NC[fork.row]].tolist()
        ours, other = (ids[fork.place + 1 :][: self._lookahead] for ids in (branch.tolist(), trunk))
        longest = max(len(ours), len(other))
        return longest > 0 and _distance(ours, other) < self._edits * longest


def _share(step: int) -> float:
    return next(share for first, share in reversed(SCHEDULE) if step >= first)


def _distance(a: Sequence[int], b: Sequence[int]) -> int:
    """Fewest insertions, deletions and exchanges from one to the other."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (x != y))
    return row[-1]
