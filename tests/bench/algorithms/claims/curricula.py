"""Which prompts and which answers are trained on."""

import torch
from bench.algorithms.claim import Claim, over_run, plugin
from bench.algorithms.claims.coba_rl import MIXED
from bench.algorithms.tabular import Arm, Task, Tensor
from bench.algorithms.tasks import start, target

SPEED = {"measure": "right, mean over the run", "score": over_run}


def scattered(generator: torch.Generator) -> Tensor:
    """Three quarters solved sometimes, a quarter hardly ever."""
    return torch.cat([torch.full((24,), 0.3), torch.full((8,), 0.01)])


RARE, COMMON = Task(start(0.05), target), Task(start(0.3), target)
TWO_SORTS, TOGETHER = Task(start(scattered), target), Task(start(scattered), target, common=True)
ARM, SIXTEENS = Arm(steps=20), Arm(group=16, steps=20)
STEP_BY_STEP = Arm(steps=20, prompts=16)

CLAIMS = [
    Claim(
        "success_filter",
        "prompts of .98, .3 and .02, groups of 16",
        MIXED,
        SIXTEENS,
        plugin("success_filter"),
        "?",
        **SPEED,
    ),
    Claim(
        "success_filter",
        "prompts .3",
        COMMON,
        ARM,
        plugin("success_filter"),
        "0",
        **SPEED,
        why="of 8 answers every mixed group is between .1 and .9, so that only groups without a signal go",
    ),
    Claim(
        "vi_curl", "prompts of .3 and .01, own logits", TWO_SORTS, ARM, plugin("vi_curl"), "?", **SPEED, why="as below"
    ),
    Claim(
        "vi_curl",
        "prompts of .3 and .01 that share logits",
        TOGETHER,
        Arm(steps=20, lr=0.1),
        plugin("vi_curl"),
        **SPEED,
        why="the prompts it is sure of are the solved ones, which need it least",
    ),
    Claim(
        "exgrpo",
        "prompts .05",
        RARE,
        ARM,
        plugin("exgrpo"),
        **SPEED,
        why="at ratio 1 a replayed answer has .0826 of the gradient of the fresh one whose place it takes",
    ),
    Claim("exgrpo, start 0", "prompts .05", RARE, ARM, plugin("exgrpo", start=0.0), **SPEED, why="as above"),
    Claim("exgrpo, start 0", "prompts .3", COMMON, ARM, plugin("exgrpo", start=0.0), **SPEED, why="as above"),
    Claim(
        "hard_mining",
        "prompts of .98, .3 and .02, half of them a step",
        MIXED,
        STEP_BY_STEP,
        plugin("hard_mining"),
        **SPEED,
    ),
    Claim("hard_mining", "prompts .3, half of them a step", COMMON, STEP_BY_STEP, plugin("hard_mining"), "?", **SPEED),
    Claim(
        "difficulty_bands",
        "prompts of .98, .3 and .02, half of them a step",
        MIXED,
        STEP_BY_STEP,
        plugin("difficulty_bands"),
        **SPEED,
        why="two settings tried; 20 steps of 16 of 32 prompts leave little to order",
    ),
    Claim(
        "difficulty_bands",
        "prompts of .3 and .01 that share logits, half of them a step",
        TOGETHER,
        Arm(steps=20, prompts=16, lr=0.1),
        plugin("difficulty_bands"),
        **SPEED,
        why="two settings tried; 20 steps of 16 of 32 prompts leave little to order",
    ),
    Claim(
        "risk_po",
        "prompts of .98, .3 and .02",
        MIXED,
        Arm(group=10, steps=20),
        plugin("risk_po"),
        **SPEED,
        why="two settings tried; not looked into further",
    ),
    Claim(
        "risk_po",
        "prompts .05",
        RARE,
        Arm(group=10, steps=20),
        plugin("risk_po"),
        **SPEED,
        why="two settings tried; not looked into further",
    ),
]
