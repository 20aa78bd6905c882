"""RL-ZVP: groups of equal rewards teach, so prompts that are mostly solved go on rising."""

from bench.algorithms.claim import Claim, over_run, plugin
from bench.algorithms.tabular import Arm, Task
from bench.algorithms.tasks import start, target

EASY = Task(start(0.9, places=3), target)
PAIRS = Arm(group=2, steps=40)
EASY_SHORT, FOURS = Task(start(0.9), target), Arm(group=4, steps=40)
HARD, EIGHTS = Task(start(0.005, decoy=2.0, prompts=64), target), Arm(group=8, steps=40)

CLAIMS = [
    Claim("rl_zvp", "constant groups: right .9, 3 tokens, groups of 2", EASY, PAIRS, plugin("rl_zvp"), named=True),
    Claim(
        "rl_zvp",
        "the same with 2 tokens, groups of 4",
        EASY_SHORT,
        FOURS,
        plugin("rl_zvp"),
        why="alpha .1 times an entropy near .2 is small beside ±1 of the mixed groups",
    ),
    Claim(
        "rl_zvp",
        "constant groups: right .005, groups of 8",
        HARD,
        EIGHTS,
        plugin("rl_zvp"),
        measure="right, mean over the run",
        score=over_run,
        why="where all are wrong only differences of entropy count, which say nothing of the right token here",
    ),
]
