"""AERO: more tries where nothing was right, and a signal from groups without spread."""

import torch
from bench.algorithms.claim import Claim, plugin
from bench.algorithms.claims.coba_rl import MIXED
from bench.algorithms.tabular import Arm, Task, Tensor
from bench.algorithms.tasks import start, target


def broad(generator: torch.Generator) -> Tensor:
    """Pass rates from .02 to .98."""
    return torch.linspace(0.02, 0.98, 128)


HARD = Task(start(0.05, prompts=128), target)
RARE = Task(start(0.02, prompts=128, decoy=1.0), target)
BROAD, EASY = Task(start(broad, prompts=128), target), Task(start(0.9, prompts=128), target)
BUDGET, SMALL = Arm(rollouts=128 * 8 * 10), Arm(rollouts=32 * 8 * 20)

CLAIMS = [
    Claim("aero", "10240 rollouts, 128 prompts from .02 to .98", BROAD, BUDGET, plugin("aero"), named=True),
    Claim(
        "aero",
        "10240 rollouts, 128 prompts .05",
        HARD,
        BUDGET,
        plugin("aero"),
        why="more groups have a signal, but a smaller one: 16 tries a prompt leave half as many steps, and a pair that"
        " is kept has A = ±.71 where one of 8 has 2.47",
    ),
    Claim(
        "aero",
        "10240 rollouts, 128 prompts .02 with a confident wrong answer",
        RARE,
        BUDGET,
        plugin("aero"),
        why="as above, and the rescue rarely finds one",
    ),
    Claim("aero", "10240 rollouts, 128 prompts .9", EASY, BUDGET, plugin("aero")),
    Claim(
        "aero",
        "5120 rollouts, prompts of .98, .3 and .02",
        MIXED,
        SMALL,
        plugin("aero"),
        why="the rescue tries the quarter of .02 up to 16 times each: what it finds there others lose in steps",
    ),
]
