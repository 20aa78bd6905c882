"""AERO: more tries where nothing succeeded, fewer wrong answers trained on, and no group without a signal.

    n answers explored (`rollout.group_size`, 8), c of them right, u = c / n
    u = 0         `more` further answers at a time until the first right one or `most` in all (rescue)
    then u = 0 or 1   `kept` answers by chance, A = coef (2 p - 1), p = (c + 1) / (n + 2)
    0 < u < .5    all right ones and `wrong_per_right` wrong ones for each, GRPO on these
    u >= .5       all, GRPO

p is the mean of a Beta(1, 1) posterior, so the constant advantage is never 0 or +-1: 0 of 16 gives -.8889, 8 of 8 gives
.8. Right: the reward is at least `threshold`. Unscored answers count in neither and are dropped where some are.

most 16, more 2, kept 4, wrong_per_right 1. Source: the paper's text; the constant advantage 2 p - 1 is a third party's
reading (another is (r - p) / sqrt(p (1 - p)), -.2425 for 0 of 16), so it is not sure.

2 right of 8: 2 and 2 are kept; 6 of 8: all. With p(right) .05 a prompt costs 12.58 answers in the mean.

Shape letters: N completions, C completion tokens.
"""

from collections.abc import Callable
from typing import Any

import torch

from mmrl.algorithms.advantages import grpo
from mmrl.algorithms.parts import drawn_order, joined, on_each_token, outcome, rows_of_groups
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.schema import AlgorithmSection
from mmrl.config.section import NonNegativeInt, PositiveInt

NEUTRAL: dict[str, Any] = {"most": 0, "kept": None, "wrong_per_right": None, "coef": 0.0}
CONSTANT_GROUP = "coef * (2 p - 1), p the posterior mean (right + 1) / (answers + 2)"
POSTERIOR = "aero.posterior"  # NaN where the group is mixed


class Plugin:
    """most: 0: no rescue. kept, wrong_per_right: None: all. coef: of the constant advantage."""

    def __init__(
        self,
        *,
        most: NonNegativeInt = 16,
        more: PositiveInt = 2,
        kept: PositiveInt | None = 4,
        wrong_per_right: PositiveInt | None = 1,
        coef: float = 1.0,
        threshold: float = 0.5,
    ) -> None:
        self._most, self._more, self._kept, self._wrong = most, more, kept, wrong_per_right
        self._coef, self._threshold = coef, threshold

    def second_round(self, batch: RolloutBatch, generate: Callable[..., RolloutBatch]) -> RolloutBatch:
        while True:
            right_N = outcome(batch) >= self._threshold
            solved = set(batch.gid_N[right_N].tolist())
            groups, counts = (t.tolist() for t in batch.gid_N.unique(return_counts=True))
            open_ = [(g, n) for g, n in zip(groups, counts, strict=True) if g not in solved and n < self._most]
            if not open_:
                return batch
            few = min(self._more, min(self._most - n for _, n in open_))
            batch = joined(batch, generate([g for g, _ in open_], n=few))

    def keep(self, batch: RolloutBatch, rewards_N: torch.Tensor) -> torch.Tensor:
        keep_N = torch.ones(len(batch), dtype=torch.bool)
        posterior_N = torch.full((len(batch),), torch.nan, dtype=torch.float64)
        rewards = rewards_N.tolist()
        for rows in rows_of_groups(batch, drawn_order(batch)).values():
            right = [row for row in rows if rewards[row] >= self._threshold]
            wrong = [row for row in rows if rewards[row] < self._threshold]
            chosen = self._chosen(right, wrong)
            if chosen is not None:
                keep_N[[row for row in rows if row not in chosen]] = False
            if bool(right) != bool(wrong):
                posterior_N[rows] = (len(right) + 1) / (len(right) + len(wrong) + 2)
        batch.meta[POSTERIOR] = posterior_N
        return keep_N

    def advantage(self, rewards_N: torch.Tensor, batch: RolloutBatch, settings: AlgorithmSection) -> torch.Tensor:
        nothing_N = torch.full((len(batch),), torch.nan, dtype=torch.float64)
        constant_N = self._coef * (2 * batch.meta.get(POSTERIOR, nothing_N) - 1)
        is_constant_N = ~constant_N.isnan() & ~rewards_N.isnan() & (self._coef != 0)
        advantage_NC = grpo(rewards_N, batch, settings)
        return torch.where(is_constant_N[:, None], on_each_token(constant_N, batch), advantage_NC)

    def _chosen(self, right: list[int], wrong: list[int]) -> set[int] | None:
        """What is kept of a group; None: all."""
        if not right or not wrong:
            return None if self._kept is None else set((right or wrong)[: self._kept])
        if self._wrong is None or len(right) >= len(wrong):
            return None
        return {*right, *wrong[: self._wrong * len(right)]}
