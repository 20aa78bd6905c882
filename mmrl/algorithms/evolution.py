"""Which weights to try next: a small evolution strategy over positive numbers. Pure.

The first generation is the start and draws that are log-uniform within the bounds. Of a later one each member takes
every weight from one of two parents, by chance, times exp(sigma * normal), cut at the bounds; parents are the best half
of a generation's number among all that was tried before. That is the usual (mu + lambda) scheme with uniform crossover
(Bäck and Schwefel 1993), over logarithms because weights are scales. Sure of the scheme; the numbers are this
project's.

A proposal depends on the seed, its own number and the scores of earlier generations alone, so a search that is
continued proposes what it would have proposed.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Weights = dict[str, float]


@dataclass(frozen=True)
class Evolution:
    """bounds: by name (low, high), 0 < low < high. start: weights of the first member."""

    bounds: Mapping[str, tuple[float, float]]
    start: Mapping[str, float]
    population: int = 4
    sigma: float = 0.5
    seed: int = 0

    def propose(self, number: int, scores: Sequence[tuple[Weights, float]]) -> Weights:
        """The weights of trial `number`. scores: of all trials of earlier generations, in their order; NaN is worst."""
        chance = random.Random(f"{self.seed}/{number}")
        if number == 0:
            return dict(self.start)
        if number < self.population:
            return {name: _log_uniform(low, high, chance) for name, (low, high) in self.bounds.items()}
        earlier = scores[: number // self.population * self.population]
        ranked = sorted(earlier, key=lambda pair: -math.inf if math.isnan(pair[1]) else pair[1], reverse=True)
        parents = [weights for weights, _ in ranked[: max(1, self.population // 2)]]
        pair = [chance.choice(parents), chance.choice(parents)]
        return {
            name: min(high, max(low, chance.choice(pair)[name] * math.exp(self.sigma * chance.gauss(0.0, 1.0))))
            for name, (low, high) in self.bounds.items()
        }


def _log_uniform(low: float, high: float, chance: random.Random) -> float:
    return math.exp(chance.uniform(math.log(low), math.log(high)))
