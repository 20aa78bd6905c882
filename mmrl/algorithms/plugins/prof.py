"""PROF: of many completions those are kept whose process and outcome agree; the process score never enters the reward.

    of a group's right completions those with the lowest process score go, of the wrong ones those with the highest,
    until `keep_share` of the group is left, as near to half right and half wrong as there are enough of each

`process` is a part of weight 0: the mean step score of a process reward model. Modes: `both`; `right_only`: wrong ones
go by chance, right ones by score (the safer one); `mixed`: all by chance within right and wrong. Right: the reward is
at least `threshold`; unscored completions go first, and those without a process score before others of their kind.

keep_share .5 (8 of 16, say). Source: README of Chenluye99/PROF. Eight, keep four, right with .9 .4 .8 .7 .6 and wrong
with .3 .8 .2: kept are .9 .8 and .3 .2. All right: the four highest.

Shape letters: N completions, C completion tokens.
"""

from collections.abc import Callable
from typing import Any, Literal

import torch

from mmrl.algorithms.parts import drawn_order, part, rows_of_groups
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.section import Probability

NEUTRAL: dict[str, Any] = {"keep_share": 1.0}


class Plugin:
    """process: name of the part. keep_share: of a group's completions, rounded. threshold: the least right reward."""

    def __init__(
        self,
        *,
        process: str = "process",
        keep_share: Probability = 0.5,
        mode: Literal["both", "right_only", "mixed"] = "both",
        threshold: float = 0.5,
    ) -> None:
        self._process, self._share, self._mode, self._threshold = process, keep_share, mode, threshold

    def keep(self, batch: RolloutBatch, rewards_N: torch.Tensor) -> torch.Tensor:
        keep_N = torch.ones(len(batch), dtype=torch.bool)
        if self._share == 1.0:
            return keep_N
        score_N = part(batch, self._process, option="prof's option 'process'").nan_to_num(nan=-torch.inf)
        scores, rewards = score_N.tolist(), rewards_N.tolist()
        for rows in rows_of_groups(batch, drawn_order(batch)).values():
            right = [row for row in rows if rewards[row] >= self._threshold]
            wrong = [row for row in rows if rewards[row] < self._threshold]
            right = _ranked(right, lambda row: -scores[row], self._mode != "mixed")
            wrong = _ranked(
                wrong, lambda row: scores[row] if scores[row] > -torch.inf else torch.inf, self._mode == "both"
            )
            kept = _balanced(right, wrong, round(self._share * len(rows)))
            keep_N[[row for row in rows if row not in kept]] = False
        return keep_N


def _ranked(rows: list[int], key: Callable[[int], float], by_score: bool) -> list[int]:
    """Best first; by chance, as they come, where no score counts."""
    return sorted(rows, key=key) if by_score else rows


def _balanced(right: list[int], wrong: list[int], total: int) -> set[int]:
    """The first of both, half and half where there are enough of each; an odd one is right."""
    few_right = min(len(right), max(total - total // 2, total - len(wrong)))
    return {*right[:few_right], *wrong[: total - few_right]}
