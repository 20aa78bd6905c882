"""SPO's choice of prompts: those whose success is uncertain come oftener, by v (1 - v) of a tracked success rate.

    a row drawn evenly is taken with the chance max((4 v (1 - v))^power, least), none twice in a step while others are
    found
    v is .5 before a prompt was seen, then of mmrl.algorithms.beta_tracker, which forgets as the policy moves

Prompts that are always or never solved so come seldom, and `least` lets each be seen again. Goes with `spo` and with
groups of any size; rewards count from 0 to 1. `half` and `drift` as of `spo`.

power 1, least .01, half .06. Source: SPO (2509.13232) names the weight v (1 - v) as its prioritised sampling; abstract
and rl.md's reading of verl-project/verl-recipe@48ea0a7, whose code has no such sampler: taking by chance, `least` and
`power` are derived. power None is the loader's order: GRPO. About 200 bytes for each prompt that was seen.

v .5, .9 and 1: taken with the chance 1, .36 and .01, so where one row has each, .7299, .2628 and .0073 of single draws.
"""

import random
from typing import Any

import torch

from mmrl.algorithms.bands import distinct
from mmrl.algorithms.beta_tracker import BetaTracker
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.section import NonNegativeFloat, PositiveFloat, Probability
from mmrl.data.pool import Pool
from mmrl.errors import ConfigError
from mmrl.training.distributed import gather_objects

NEUTRAL: dict[str, Any] = {"power": None}


class Plugin:
    """half: drift in which the tracker's count halves. drift: the metric of a step that measures it."""

    def __init__(
        self,
        *,
        power: NonNegativeFloat | None = 1.0,
        least: Probability = 0.01,
        half: PositiveFloat = 0.06,
        drift: str = "policy/old_kl",
    ) -> None:
        if not least:
            raise ConfigError("spo_draw: least must be above 0, or rows that are never solved would be sought for ever")
        self._power, self._least, self._metric, self._total = power, least, drift, 0.0
        self._tracker = BetaTracker(half=half)  # keyed by row number, the same on all processes
        self._pool: Pool | None = None

    def draw(self, pool: Pool, count: int, chance: random.Random) -> list[int]:
        if self._power is None:
            return pool.own_order(count)
        self._pool = pool

        def one() -> int:
            while True:
                row = chance.randrange(len(pool))
                if chance.random() < self._chance(row):
                    return row

        return distinct(one, count)

    def on_step_end(self, batch: RolloutBatch, rewards_N: torch.Tensor, metrics: dict[str, float]) -> None:
        if self._pool is None:
            return
        seen: list[tuple[int, float]] = []
        for name, reward in zip(batch.prompt_id, rewards_N.tolist(), strict=True):
            row = self._pool.row_of(name)
            if row is not None and reward == reward:  # NaN: unscored
                seen.append((row, min(max(reward, 0.0), 1.0)))
        rewards: dict[int, list[float]] = {}
        for row, reward in sorted(pair for part in gather_objects(seen) for pair in part):
            rewards.setdefault(row, []).append(reward)
        for row, values in rewards.items():
            self._tracker.update(str(row), values, total=self._total)
        self._total += abs(metrics.get(self._metric, 0.0))
        if rewards:
            metrics["spo_draw/chance"] = sum(map(self._chance, rewards)) / len(rewards)

    def state_dict(self) -> dict[str, Any]:
        return {"tracker": self._tracker.state_dict(), "total": self._total}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._tracker.load_state_dict(state["tracker"])
        self._total = state["total"]

    def _chance(self, row: int) -> float:
        v = self._tracker.value(str(row))
        return max((4 * v * (1 - v)) ** (self._power or 0.0), self._least)
