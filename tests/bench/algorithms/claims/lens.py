"""LENS: where no answer of a group is right, the confident wrong ones are pushed down."""

from bench.algorithms.claim import Claim, over_run, plugin
from bench.algorithms.claims.rl_zvp import EIGHTS, HARD
from bench.algorithms.tabular import Arm, Task
from bench.algorithms.tasks import start, target

MILDER, LONG = Task(start(0.02, decoy=2.0), target), Arm(group=8, steps=80)

CLAIMS = [
    Claim("lens", "low pass rate .005, a confident wrong answer", HARD, EIGHTS, plugin("lens"), named=True),
    Claim(
        "lens",
        "the same",
        HARD,
        EIGHTS,
        plugin("lens"),
        measure="right, mean over the run",
        score=over_run,
    ),
    Claim(
        "lens",
        "pass rate .02, 80 steps",
        MILDER,
        LONG,
        plugin("lens"),
        why="both have learnt it all by then",
    ),
]
