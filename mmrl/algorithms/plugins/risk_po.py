"""RiskPO: questions are bundled, and the advantage is a risk measure of the bundle's score instead of its mean.

    bundle of `bundle` prompts; the i-th answers to its prompts are paper i, its score s = sum of their rewards
    A_RVaR = (max(s - q_d, 0) - max(s - q_u, 0)) / (u - d)       A_CVaR = -max(q_d - s, 0) / d
    A = (omega A_CVaR + A_RVaR) / (omega + 1)
    q <- q + lr (level - share of s below q)                     both quantiles, once a step, over all processes
    member's advantage = share * A, share = (r - mean of its prompt) / sum over the paper's members of these

`credit: std`: A / std of its prompt, unshared, and 0 where the prompt's rewards are all equal: without a lead there is
nobody to credit (the source divides by 1e-6 there).

A share is 1 / members where that sum is below 1e-6 in magnitude, or with `credit: uniform`; it is cut to ±most_share,
since a small sum makes it blow up ([.5, -.5, .01] gives 50, -50, 1): the shares of a paper then add up to less than 1.
Quantiles begin as those of the first step's scores. Prompts are bundled in the order of the batch, answers paired by
chance. A last bundle that is not full, and papers that lack an answer, have their scores scaled up to `bundle` answers
(derived: the source has full ones).

bundle 5, levels d .2 and u .8 (.9 on easy data), omega 1.5, lr .1, groups of 10, no KL. Source: RTkenny/RiskPO@65ec40c,
read in code. Rewards of other prompts enter, so no options make it GRPO: no neutral ones.

q_d = 2, q_u = 4: s = 1 gives -3, s = 3 gives .6667, s = 5 gives 1.3333. `std`: A = 1.3333 of a prompt with rewards
[1, 0] (std .7071): 1.8856 each.

Shape letters: N completions, C completion tokens.
"""

from typing import Any, Literal

import torch

from mmrl.algorithms.advantages import group_stats
from mmrl.algorithms.parts import drawn_order, on_each_token, rows_of_groups
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.schema import AlgorithmSection
from mmrl.config.section import NonNegativeFloat, PositiveFloat, PositiveInt, Probability
from mmrl.errors import ConfigError
from mmrl.training.distributed import gather_objects, sum_over_ranks

NEUTRAL = None
CONSTANT_GROUP = "an equal share of the risk measure of its bundle"


class Plugin:
    """bundle: prompts of one. low, high: the levels d and u. omega, lr, most_share: as above."""

    def __init__(
        self,
        *,
        bundle: PositiveInt = 5,
        low: Probability = 0.2,
        high: Probability = 0.8,
        omega: NonNegativeFloat = 1.5,
        lr: NonNegativeFloat = 0.1,
        credit: Literal["sum_mean", "std", "uniform"] = "sum_mean",
        most_share: PositiveFloat = 1.0,
    ) -> None:
        if not 0 < low < high:
            raise ConfigError(f"risk_po: low ({low:g}) must be above 0 and below high ({high:g})")
        self._bundle, self._levels, self._omega, self._lr = bundle, (low, high), omega, lr
        self._credit, self._most = credit, most_share
        self._quantiles: list[float] = []

    def advantage(self, rewards_N: torch.Tensor, batch: RolloutBatch, settings: AlgorithmSection) -> torch.Tensor:
        papers = _papers(batch, rewards_N, bundle=self._bundle)
        if not self._quantiles:
            scores = [s for part in gather_objects(self._scores(papers, rewards_N)) for s in part]
            levels = torch.tensor(self._levels, dtype=torch.float64)
            if scores:
                self._quantiles = torch.quantile(torch.tensor(scores, dtype=torch.float64), levels).tolist()
        stats = group_stats(rewards_N, batch.gid_N)
        deviation_N = rewards_N - stats.mean_N
        advantage_N = torch.full((len(batch),), torch.nan, dtype=torch.float64)
        for rows, score in zip(papers, self._scores(papers, rewards_N), strict=True):
            advantage_N[rows] = self._shares(deviation_N[rows]) * self._risk(score)
            if self._credit == "std":
                scaled_M = self._risk(score) / (stats.std_N[rows].double() + settings.std_eps)
                advantage_N[rows] = torch.where(stats.constant_N[rows], 0.0, scaled_M)
        return on_each_token(advantage_N, batch)

    def on_step_end(self, batch: RolloutBatch, rewards_N: torch.Tensor, metrics: dict[str, float]) -> None:
        scores = self._scores(_papers(batch, rewards_N, bundle=self._bundle), rewards_N)
        for i, (q, level) in enumerate(zip(self._quantiles, self._levels, strict=False)):
            count, below = sum_over_ranks([float(len(scores)), float(sum(s < q for s in scores))])
            self._quantiles[i] = q + self._lr * (level - below / count) if count else q
        names = ("risk_po/quantile_low", "risk_po/quantile_high")
        metrics.update(zip(names, self._quantiles, strict=False))

    def state_dict(self) -> dict[str, Any]:
        return {"quantiles": list(self._quantiles)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._quantiles = list(state["quantiles"])

    def _scores(self, papers: list[list[int]], rewards_N: torch.Tensor) -> list[float]:
        return [self._bundle * rewards_N[rows].double().mean().item() for rows in papers]

    def _risk(self, score: float) -> float:
        (q_d, q_u), (d, u) = self._quantiles, self._levels
        value_range = (max(score - q_d, 0.0) - max(score - q_u, 0.0)) / (u - d)
        return (-self._omega * max(q_d - score, 0.0) / d + value_range) / (self._omega + 1)

    def _shares(self, deviation_M: torch.Tensor) -> torch.Tensor:
        total = deviation_M.sum().item()
        if self._credit == "uniform" or abs(total) < 1e-6:
            return torch.full_like(deviation_M, 1 / len(deviation_M))
        return (deviation_M / total).clamp(-self._most, self._most)


def _papers(batch: RolloutBatch, rewards_N: torch.Tensor, *, bundle: int) -> list[list[int]]:
    """Rows of each paper; unscored rows are in none."""
    unscored = rewards_N.isnan().tolist()
    answers = rows_of_groups(batch, (row for row in drawn_order(batch) if not unscored[row]))
    groups = [rows for rows in answers.values() if rows]
    papers = []
    for start in range(0, len(groups), bundle):
        members = groups[start : start + bundle]
        for i in range(max(map(len, members))):
            papers.append([rows[i] for rows in members if i < len(rows)])
    return papers
