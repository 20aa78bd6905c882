"""CoBA-RL: a step's completions are spent on the prompts where they teach most, as far as the policy has come.

    F     mean failure rate of a step, smoothed: F~ <- decay F~ + (1 - decay) F
    f     = F~ where F~ > .5, else sigmoid(10 (F~ - .5))
    a     = min(max(a_min + scale f, a_min), kappa - a_min), b = kappa - a
    V(n)  = (1 - exp(-n / tau * p (1 - p))) * Beta density(p; a, b)      p: the prompt's pass rate so far
    n_p   least .. most each, their sum `group_size` a prompt, given out one by one to the largest V(n + 1) - V(n)

V's gain falls with n, so the greedy choice is the best one. A prompt not seen before has p = .5; p is the mean reward
of all its completions, kept off 0 and 1 as (sum + .5) / (count + 1).

kappa 11, a_min 1, scale 9, tau 16; least 2, most 4 times the group size. Source: README and text of Within-yao/CoBA-RL;
tau, scale and bounds were not found and are guesses. With least = most = `rollout.group_size` it is GRPO.

F = .8: a = 8.2, b = 2.8. a = b = 2, p = [.1, .5, .9], 24 in all, 2 to 16 each: [4, 16, 4]; (4.5, 6.5): [6, 16, 2].

Shape letters: N completions, P prompts.
"""

import heapq
import math
from collections.abc import Sequence
from typing import Any

import torch

from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.section import Beta, PositiveFloat, PositiveInt
from mmrl.errors import ConfigError
from mmrl.training.distributed import sum_over_ranks

NEUTRAL: dict[str, Any] = {"least_share": 1.0, "most_share": 1.0}


class Plugin:
    """least_share, most_share: bounds of a prompt's completions, in group sizes. decay: of the mean failure rate."""

    def __init__(
        self,
        *,
        least_share: PositiveFloat = 0.25,
        most_share: PositiveFloat = 4.0,
        tau: PositiveFloat = 16.0,
        kappa: PositiveFloat = 11.0,
        a_min: PositiveFloat = 1.0,
        scale: PositiveFloat = 9.0,
        decay: Beta = 0.9,
    ) -> None:
        if not least_share <= 1.0 <= most_share:
            raise ConfigError(
                f"coba_rl: least_share ({least_share:g}) is at most 1, most_share ({most_share:g}) at least"
            )
        self._bounds, self._tau, self._decay = (least_share, most_share), tau, decay
        self._kappa, self._a_min, self._scale = kappa, a_min, scale
        self._rates: dict[str, tuple[float, int]] = {}
        self._failure: float | None = None

    def budget(self, prompt_ids: Sequence[str], group_size: PositiveInt) -> torch.Tensor:
        least = max(1, round(self._bounds[0] * group_size))
        most = max(least, round(self._bounds[1] * group_size))
        rates = [self._rate(name) for name in prompt_ids]
        given = _allocated(rates, group_size * len(rates), least, most, tau=self._tau, shape=self._shape())
        return torch.tensor(given, dtype=torch.int64)

    def on_step_end(self, batch: RolloutBatch, rewards_N: torch.Tensor, metrics: dict[str, float]) -> None:
        rewards = [min(max(r, 0.0), 1.0) for r in rewards_N[~rewards_N.isnan()].tolist()]
        count, total = sum_over_ranks([float(len(rewards)), math.fsum(rewards)])
        if count:
            now = 1 - total / count
            past = now if self._failure is None else self._failure
            self._failure = self._decay * past + (1 - self._decay) * now
        for name, reward in zip(batch.prompt_id, rewards_N.tolist(), strict=True):
            if not math.isnan(reward):
                before, seen = self._rates.get(name, (0.0, 0))
                self._rates[name] = before + min(max(reward, 0.0), 1.0), seen + 1
        metrics["coba_rl/failure"] = 0.5 if self._failure is None else self._failure

    def state_dict(self) -> dict[str, Any]:
        return {"rates": {name: list(entry) for name, entry in self._rates.items()}, "failure": self._failure}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._rates = {name: (total, int(count)) for name, (total, count) in state["rates"].items()}
        self._failure = state["failure"]

    def _rate(self, name: str) -> float:
        total, count = self._rates.get(name, (0.0, 0))
        return (total + 0.5) / (count + 1)

    def _shape(self) -> tuple[float, float]:
        failure = 0.5 if self._failure is None else self._failure
        f = failure if failure > 0.5 else 1 / (1 + math.exp(-10 * (failure - 0.5)))
        a = min(max(self._a_min + self._scale * f, self._a_min), self._kappa - self._a_min)
        return a, self._kappa - a


def _allocated(
    rates: Sequence[float], total: int, least: int, most: int, *, tau: float, shape: tuple[float, float]
) -> list[int]:
    """Completions of each prompt, `total` together where the bounds allow it."""

    def gain(i: int) -> float:
        spread, n = rates[i] * (1 - rates[i]) / tau, given[i]
        return (math.exp(-n * spread) - math.exp(-(n + 1) * spread)) * density[i]

    density = [_beta_density(p, *shape) for p in rates]
    given = [least] * len(rates)
    heap = [(-gain(i), i) for i in range(len(rates))]
    heapq.heapify(heap)
    for _ in range(min(total, most * len(rates)) - least * len(rates)):
        while given[(i := heapq.heappop(heap)[1])] >= most:
            pass
        given[i] += 1
        heapq.heappush(heap, (-gain(i), i))
    return given


def _beta_density(p: float, a: float, b: float) -> float:
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return math.exp(scale + (a - 1) * math.log(p) + (b - 1) * math.log(1 - p))
