"""Watches rewards that only a cheat earns (after IFDecorator's trip wires), and can take their worth away.

A trip wire is a part of weight 0, called `trip_...`, that is 1 where a completion takes a short cut: it follows an
instruction hidden as a trap, repeats the question, lists every option, or names the checker. The share of completions
caught is logged per wire and over all of them as `trip_wires/...`; above `limit` the run stops with the wire's name.

    R = R_o, or `caught_reward` where it is given and any wire was touched

Shape letters: N completions, C completion tokens.
"""

import torch

from mmrl.algorithms.parts import part
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.section import Probability
from mmrl.errors import ConfigError, RewardError

NEUTRAL = {}


class Plugin:
    """prefix: what the names of the parts begin with. caught_reward: None: the reward is left as it is.

    limit: the largest share of a step's completions that may touch one wire; None: any.
    """

    def __init__(
        self, *, prefix: str = "trip_", caught_reward: float | None = None, limit: Probability | None = None
    ) -> None:
        self._prefix, self._caught_reward, self._limit = prefix, caught_reward, limit
        self._shares: dict[str, float] = {}

    def shape_rewards(self, batch: RolloutBatch, rewards_N: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        wires = [name for name in batch.reward_names if name.startswith(self._prefix)]
        if not wires:
            known = ", ".join(batch.reward_names)
            raise ConfigError(f"trip_wires: no reward part begins with {self._prefix!r}; there are: {known}")
        touched = {name: part(batch, name, option="trip_wires' option 'prefix'") >= 0.5 for name in wires}
        any_N = torch.stack(list(touched.values())).any(0)
        self._shares = {name: t_N.double().mean().item() for name, t_N in {**touched, "any": any_N}.items()}
        if self._limit is not None:
            _check(self._shares, wires, self._limit)
        if self._caught_reward is None:
            return rewards_N, None
        return torch.where(any_N & ~rewards_N.isnan(), self._caught_reward, rewards_N), None

    def on_step_end(self, batch: RolloutBatch, rewards_N: torch.Tensor, metrics: dict[str, float]) -> None:
        metrics.update({f"trip_wires/{name}": share for name, share in self._shares.items()})


def _check(shares: dict[str, float], wires: list[str], limit: float) -> None:
    for name in wires:
        if shares[name] > limit:
            raise RewardError(
                f"trip wire {name!r}: {shares[name]:.0%} of the completions of this step touched it, more than the"
                f" option 'limit' ({limit:.0%}); look at the rollouts: the reward is being gamed"
            )
