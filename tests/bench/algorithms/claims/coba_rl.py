"""CoBA-RL: the same number of completions in all, where they teach most."""

import torch
from bench.algorithms.claim import Claim, plugin
from bench.algorithms.tabular import Arm, Task, Tensor
from bench.algorithms.tasks import start, target


def unlike(generator: torch.Generator) -> Tensor:
    """Half of the prompts solved, a quarter nearly hopeless, a quarter between."""
    return torch.cat([torch.full((16,), 0.98), torch.full((8,), 0.02), torch.full((8,), 0.3)])


MIXED, HARD = Task(start(unlike), target), Task(start(0.05), target)
BUDGET = Arm(rollouts=32 * 8 * 20)

CLAIMS = [
    Claim("coba_rl", "5120 rollouts, prompts of .98, .3 and .02", MIXED, BUDGET, plugin("coba_rl"), named=True),
    Claim(
        "coba_rl",
        "5120 rollouts, all prompts .05",
        HARD,
        BUDGET,
        plugin("coba_rl"),
        "0",
        why="as its formula has it: at a failure rate of .94 a = 9.44, b = 1.56, so that a prompt with one success in"
        " eight (p = .17) has about 10000 times the density of one without (.056). After the first step these get 2"
        " answers, those with one success 12, with two 32",
    ),
]
