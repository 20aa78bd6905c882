"""EVOL-RL: learning without labels, from the majority of a group and the novelty of each answer in its camp.

    the majority's answers   0.5 + 0.5 * u     u: novelty, scaled to 0..1 over the answers of one camp
    other answers           -1.0 + 0.5 * u     the minority; all of it is one camp
    no answer               -1.0

`classes` is a part of weight 0 that numbers the distinct answers of a group (`answer_class`; -1: none), `novelty` one
with the raw novelty, 1 - (half the mean cosine to the same camp + half the largest cosine to any other). A camp whose
novelties are all equal has u = 0.5; a single member of the majority gets 1, of the minority -0.5. Of answers given
equally often the one of the lowest number, the first of its group, is the majority.

Majority with novelty [0, .5, 1]: [0.5, 0.75, 1]; minority: [-1, -0.75, -0.5].

No neutral options: its rewards stand in place of R_o.

Shape letters: N completions, C completion tokens.
"""

import torch

from mmrl.algorithms.parts import part
from mmrl.algorithms.rollout_batch import RolloutBatch

NEUTRAL = None


class Plugin:
    """classes, novelty: names of the parts. A row whose task has no classes keeps its reward."""

    def __init__(self, *, classes: str = "answer_class", novelty: str = "novelty") -> None:
        self._classes, self._novelty = classes, novelty

    def shape_rewards(self, batch: RolloutBatch, rewards_N: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        classes_N = part(batch, self._classes, option="evol_rl's option 'classes'")
        novelty_N = part(batch, self._novelty, option="evol_rl's option 'novelty'")
        shaped_N = rewards_N.double().clone()
        for group in batch.gid_N.unique().tolist():
            rows = ((batch.gid_N == group) & ~classes_N.isnan()).nonzero().flatten()
            if len(rows):
                shaped_N[rows] = _group_rewards(classes_N[rows], novelty_N[rows])
        return shaped_N, None


def _group_rewards(classes_G: torch.Tensor, novelty_G: torch.Tensor) -> torch.Tensor:
    rewards_G = torch.full_like(classes_G, -1.0)
    given_G = classes_G >= 0
    if not given_G.any():
        return rewards_G
    names, counts = classes_G[given_G].unique(return_counts=True)
    majority_G = classes_G == names[counts == counts.max()].min()
    for camp_G, floor, alone in ((majority_G, 0.5, 1.0), (given_G & ~majority_G, -1.0, -0.5)):
        rewards_G[camp_G] = floor + 0.5 * _scaled(novelty_G[camp_G]) if camp_G.sum() > 1 else alone
    return rewards_G


def _scaled(novelty_M: torch.Tensor) -> torch.Tensor:
    low, high = novelty_M.min(), novelty_M.max()
    return (novelty_M - low) / (high - low) if high > low else torch.full_like(novelty_M, 0.5)
