"""DCPO: a group that is all right has an advantage over the prompt's history; bounds that widen for rare tokens."""

from bench.algorithms.claim import Claim, plugin
from bench.algorithms.claims.rl_zvp import EASY, EASY_SHORT, FOURS, PAIRS
from bench.algorithms.tabular import Arm, Task
from bench.algorithms.tasks import start, target

HISTORY = plugin("dcpo", bounds=False, aggregation="token-mean")
RARE = Task(start(0.02), target)
REPEATED = Arm(settings={"epochs_per_batch": 4}, group=8, steps=15, lr=0.5)

CLAIMS = [
    Claim("dcpo, history alone", "constant groups: right .9, 3 tokens, groups of 2", EASY, PAIRS, HISTORY, named=True),
    Claim("dcpo, history alone", "the same with 2 tokens, groups of 4", EASY_SHORT, FOURS, HISTORY),
    Claim(
        "dcpo, bounds alone",
        "right .02, 4 passes over each batch: rare tokens meet the clip",
        RARE,
        REPEATED,
        plugin("dcpo", history=False, aggregation="token-mean"),
    ),
]
