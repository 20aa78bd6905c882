"""Scaf-GRPO: where a whole group fails, a right answer found with a hint takes a place."""

from bench.algorithms.claim import Claim, plugin
from bench.algorithms.tabular import Arm, Task
from bench.algorithms.tasks import start, target

HINTS = (2.0, 4.0, 8.0)
HARD = Task(start(0.005, prompts=32), target, hints=HINTS)
MILD = Task(start(0.05, prompts=32), target, hints=HINTS)
ARM = Arm(steps=20)

CLAIMS = [
    Claim(
        "scaf_grpo", "low pass rate .005, three hints of 2, 4 and 8 nats", HARD, ARM, plugin("scaf_grpo"), named=True
    ),
    Claim("scaf_grpo", "pass rate .05", MILD, ARM, plugin("scaf_grpo")),
]
