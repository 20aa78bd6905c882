"""Takes off for tokens that repeat themselves.

    R = R_o - coef * max(0, share - allowed) / (1 - allowed)     share: of the runs of `size` tokens, those seen before

A completion without a repeated run loses nothing, one run over and over nearly `coef`. Length alone costs nothing, and
`allowed` lets tables and quoted text repeat a little.

Tokens 1 2 1 2 1 2, runs of 2: (1 2) (2 1) (1 2) (2 1) (1 2), three of five seen before: share 0.6.

Shape letters: N completions, C completion tokens.
"""

import torch

from mmrl.algorithms.parts import ngrams
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.section import Beta, PositiveInt

NEUTRAL = {"coef": 0.0}
CONSTANT_GROUP = "completions that repeat themselves get less than the others"


class Plugin:
    """coef: the most that is taken off. size: tokens of a run. allowed: share that costs nothing, below 1."""

    def __init__(self, *, coef: float = 0.5, size: PositiveInt = 8, allowed: Beta = 0.1) -> None:
        self._coef, self._size, self._allowed = coef, size, allowed
        self._share_N = torch.zeros(0)

    def shape_rewards(self, batch: RolloutBatch, rewards_N: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        runs = ngrams(batch, self._size)
        self._share_N = torch.tensor(
            [1 - len(set(row)) / len(row) if row else 0.0 for row in runs], dtype=torch.float64
        )
        excess_N = (self._share_N - self._allowed).clamp(min=0.0) / (1 - self._allowed)
        return rewards_N - self._coef * excess_N, None

    def on_step_end(self, batch: RolloutBatch, rewards_N: torch.Tensor, metrics: dict[str, float]) -> None:
        if len(self._share_N):
            metrics["repetition_penalty/share"] = self._share_N.mean().item()
