"""DCPO: clip bounds that widen as a token becomes rarer, and advantages standardised over a prompt's whole history.

    bounds   |(ratio - 1) * ratio * q| <= eps, q the probability of the token before the update:
             low  = (1 + sqrt(max(0, 1 - 4 clip_low / q))) / 2
             high = min(cap, (1 + sqrt(1 + 4 clip_high / q)) / 2)
    history  at visit i of a prompt, mean and variance pooled over all its visits
             mean = ((i - 1) mean_old + m) / i
             var  = ((i - 1) var_old + v + (i - 1) / i (m - mean_old)^2) / i
             A_new = (r - m) / sqrt(v), A_all = (r - mean) / sqrt(var), each 0 where its deviation is 0
             A = the smaller in magnitude of A_all / i + (1 - 1 / i) A_new and A_new / i + (1 - 1 / i) A_all
    otm      sum over completions of the mean over their tokens

clip_low and clip_high are those of `algorithm` (0.2 and 0.28 in the released script, 0.16 and 0.2 in the paper by
memory), cap 10, `dual_clip` 10. Source: lime-RL/DCPO@01787b0, read in code. There the mean is taken over the
micro-batch it is given, which is per completion only for micro-batches of one; here it is per completion always.

q = 0.9, eps 0.16 and 0.2: [0.7687, 1.1872]; q = 0.001: [0.5, 10]. Second visit, history mean 0.5 and deviation 0.5774,
rewards [1, 1, 1, 1]: A = 0.2611 on all.

NEUTRAL is the plain clip, group statistics and aggregation.

Shape letters: N completions, C completion tokens.
"""

from typing import Any

import torch

from mmrl.algorithms.advantages import GroupStats, group_stats, grpo
from mmrl.algorithms.aggregate import Denominator, Mode, aggregate
from mmrl.algorithms.losses import LossInput, TokenStats, ppo_clip
from mmrl.algorithms.parts import on_each_token
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.schema import AlgorithmSection
from mmrl.config.section import PositiveFloat

NEUTRAL: dict[str, Any] = {"bounds": False, "history": False, "aggregation": "token-mean"}
CONSTANT_GROUP = "(r - mean) / std of the prompt's history, weighed by the visit, once that history has a spread"
NEEDS = ("old",)

History = tuple[int, float, float]  # visits, mean, variance


class Plugin:
    """bounds, history: False switches to `algorithm`'s clip and to group statistics. aggregation: None is OTM."""

    def __init__(
        self, *, bounds: bool = True, history: bool = True, cap: PositiveFloat = 10.0, aggregation: Mode | None = None
    ) -> None:
        self._bounds, self._uses_history, self._cap = bounds, history, cap
        self._mode: Mode | None = aggregation
        self._history: dict[str, History] = {}

    def policy_loss(self, inputs: LossInput) -> tuple[torch.Tensor, TokenStats]:
        if not self._bounds:
            return ppo_clip(inputs)
        settings, advantage_NC = inputs.settings, inputs.advantage_NC
        q_NC = inputs.old_NC.exp().clamp(min=1e-12)
        low_NC = 0.5 * (1 + (1 - 4 * settings.clip_low / q_NC).clamp(min=0.0).sqrt())
        high_NC = (0.5 * (1 + (1 + 4 * settings.clip_high / q_NC).sqrt())).clamp(max=self._cap)
        ratio_NC = inputs.log_ratio_NC.exp()
        clipped_NC = torch.minimum(torch.maximum(ratio_NC, low_NC), high_NC)
        loss_NC = torch.maximum(-advantage_NC * ratio_NC, -advantage_NC * clipped_NC)
        if settings.dual_clip is not None:
            bounded_NC = torch.minimum(loss_NC, -advantage_NC * settings.dual_clip)
            loss_NC = torch.where(advantage_NC < 0, bounded_NC, loss_NC)
        stats = {
            "clipfrac_low": (advantage_NC < 0) & (ratio_NC < low_NC),
            "clipfrac_high": (advantage_NC > 0) & (ratio_NC > high_NC),
        }
        return loss_NC, stats

    def advantage(self, rewards_N: torch.Tensor, batch: RolloutBatch, settings: AlgorithmSection) -> torch.Tensor:
        if not self._uses_history:
            return grpo(rewards_N, batch, settings)
        stats = group_stats(rewards_N, batch.gid_N)
        pooled = [
            _pooled(self._history.get(name), mean, var)
            for name, mean, var in zip(batch.prompt_id, stats.mean_N.tolist(), _variance(stats).tolist(), strict=True)
        ]
        visits_N, mean_N, var_N = torch.tensor(pooled, dtype=torch.float64).reshape(-1, 3).unbind(1)
        new_N = _standardised(rewards_N - stats.mean_N, _variance(stats).sqrt())
        all_N = _standardised(rewards_N - mean_N, var_N.sqrt())
        first_N = all_N / visits_N + (1 - 1 / visits_N) * new_N
        second_N = new_N / visits_N + (1 - 1 / visits_N) * all_N
        smaller_N = torch.where(first_N.abs() <= second_N.abs(), first_N, second_N)
        return on_each_token(smaller_N, batch)

    def aggregate(self, loss_NC: torch.Tensor, mask_NC: torch.Tensor, denom: Denominator) -> torch.Tensor:
        if self._mode is not None:
            return aggregate(loss_NC, mask_NC, mode=self._mode, denom=denom)
        return (torch.where(mask_NC, loss_NC, 0.0).sum(1) / mask_NC.sum(1).clamp(min=1)).sum()

    def on_step_end(self, batch: RolloutBatch, rewards_N: torch.Tensor, metrics: dict[str, float]) -> None:
        stats = group_stats(rewards_N, batch.gid_N)
        seen: set[int] = set()
        values = zip(stats.mean_N.tolist(), _variance(stats).tolist(), stats.count_N.tolist(), strict=True)
        for name, gid, (mean, var, count) in zip(batch.prompt_id, batch.gid_N.tolist(), values, strict=True):
            if gid not in seen and count:
                self._history[name] = _pooled(self._history.get(name), mean, var)
            seen.add(gid)

    def state_dict(self) -> dict[str, Any]:
        return {"history": {name: list(entry) for name, entry in self._history.items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._history = {name: (int(i), mean, var) for name, (i, mean, var) in state["history"].items()}


def _variance(stats: GroupStats) -> torch.Tensor:
    return torch.where(stats.constant_N, 0.0, stats.std_N**2)  # exactly 0 where only rounding differs


def _pooled(past: History | None, mean: float, var: float) -> History:
    if past is None:
        return 1, mean, var
    i = past[0] + 1
    joint = ((i - 1) * past[2] + var + (i - 1) / i * (mean - past[1]) ** 2) / i
    return i, ((i - 1) * past[1] + mean) / i, joint


def _standardised(centred_N: torch.Tensor, std_N: torch.Tensor) -> torch.Tensor:
    return torch.where(std_N > 0, centred_N / std_N.clamp(min=1e-12), torch.where(centred_N.isnan(), torch.nan, 0.0))
