"""RiskPO: questions are bundled, and the advantage is a risk measure of the bundle's score instead of its mean.

    bundle of `bundle` prompts; the i-th answers to its prompts are paper i, its score s = sum of their rewards
    A_RVaR = (max(s - q_d, 0) - max(s - q_u, 0)) / (u - d)       A_CVaR = -max(q_d - s, 0) / d
    A = (omega A_CVaR + A_RVaR) / (omega + 1)
    with `baseline` A_RVaR less its highest value, (q_u - q_d) / (u - d); with `bundle_std` A / std of the bundle's
    papers, 0 where they all score alike (the source divides by 1e-6 there)
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
read in code; its scripts have `bundle_std`, that of easy data `baseline` and `credit: std` too. Rewards of other
prompts enter, so no options make it GRPO: no neutral ones. A risk above 0 of a paper whose members lag behind their
means turns their signs: five prompts of mean .9, four right, A = 1.3333 give the wrong one a share of 1.

q_d = 2, q_u = 4: s = 1 gives -3, s = 3 gives .6667, s = 5 gives 1.3333; with the baseline -4.3333, -.6667, 0. `std`:
A = 1.3333 of a prompt with rewards [1, 0] (std .7071): 1.8856 each.

Shape letters: N completions, C completion tokens.
"""

import statistics
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
    """bundle: prompts of one. low, high: the levels d and u. The others as above."""

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
        bundle_std: bool = False,
        baseline: bool = False,
    ) -> None:
        if not 0 < low < high:
            raise ConfigError(f"risk_po: low ({low:g}) must be above 0 and below high ({high:g})")
        self._bundle, self._levels, self._omega, self._lr = bundle, (low, high), omega, lr
        self._credit, self._most = credit, most_share
        self._bundle_std, self._baseline = bundle_std, baseline
        self._quantiles: list[float] = []

    def advantage(self, rewards_N: torch.Tensor, batch: RolloutBatch, settings: AlgorithmSection) -> torch.Tensor:
        bundles = _bundles(batch, rewards_N, bundle=self._bundle)
        papers = [rows for of_bundle in bundles for rows in of_bundle]
        if not self._quantiles:
            scores = [s for part in gather_objects(self._scores(papers, rewards_N)) for s in part]
            levels = torch.tensor(self._levels, dtype=torch.float64)
            if scores:
                self._quantiles = torch.quantile(torch.tensor(scores, dtype=torch.float64), levels).tolist()
        stats = group_stats(rewards_N, batch.gid_N)
        deviation_N = rewards_N - stats.mean_N
        advantage_N = torch.full((len(batch),), torch.nan, dtype=torch.float64)
        risks = [risk for of_bundle in bundles for risk in self._risks(self._scores(of_bundle, rewards_N))]
        for rows, risk in zip(papers, risks, strict=True):
            advantage_N[rows] = self._shares(deviation_N[rows]) * risk
            if self._credit == "std":
                scaled_M = risk / (stats.std_N[rows].double() + settings.std_eps)
                advantage_N[rows] = torch.where(stats.constant_N[rows], 0.0, scaled_M)
        return on_each_token(advantage_N, batch)

    def on_step_end(self, batch: RolloutBatch, rewards_N: torch.Tensor, metrics: dict[str, float]) -> None:
        bundles = _bundles(batch, rewards_N, bundle=self._bundle)
        scores = self._scores([rows for of_bundle in bundles for rows in of_bundle], rewards_N)
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

    def _risks(self, scores: list[float]) -> list[float]:
        """Of the papers of one bundle."""
        risks = [self._risk(score) for score in scores]
        if not self._bundle_std:
            return risks
        spread = statistics.stdev(scores) if len(scores) > 1 else 1.0
        return [risk / (spread + 1e-6) if spread > 1e-9 else 0.0 for risk in risks]

    def _risk(self, score: float) -> float:
        (q_d, q_u), (d, u) = self._quantiles, self._levels
        highest = q_u - q_d if self._baseline else 0.0
        value_range = (max(score - q_d, 0.0) - max(score - q_u, 0.0) - highest) / (u - d)
        return (-self._omega * max(q_d - score, 0.0) / d + value_range) / (self._omega + 1)

    def _shares(self, deviation_M: torch.Tensor) -> torch.Tensor:
        total = deviation_M.sum().item()
        if self._credit == "uniform" or abs(total) < 1e-6:
            return torch.full_like(deviation_M, 1 / len(deviation_M))
        return (deviation_M / total).clamp(-self._most, self._most)


def _bundles(batch: RolloutBatch, rewards_N: torch.Tensor, *, bundle: int) -> list[list[list[int]]]:
    """Rows of each paper of each bundle; unscored rows are in none."""
    unscored = rewards_N.isnan().tolist()
    answers = rows_of_groups(batch, (row for row in drawn_order(batch) if not unscored[row]))
    groups = [rows for rows in answers.values() if rows]
    bundles = [groups[start : start + bundle] for start in range(0, len(groups), bundle)]
    return [
        [[rows[i] for rows in members if i < len(rows)] for i in range(max(map(len, members)))] for members in bundles
    ]
