"""Trees of answers, at the same number of rollouts: a beginning that is shared shows what its next token is worth."""

from bench.algorithms.claim import Claim, plugin
from bench.algorithms.tabular import Arm, Task
from bench.algorithms.tasks import start, target

RARE, COMMON = Task(start(0.02, places=4), target), Task(start(0.2, places=3), target)
BUDGET = Arm(rollouts=32 * 8 * 20)
SMALL = {"group": 4}
HARD, MILD = "5120 rollouts, 4 tokens, right .02", "5120 rollouts, 3 tokens, right .2"
TREE_RL, FR3E = plugin("tree_rl", forks=1, children=1), plugin("fr3e", anchors=2, children=2)
SEARCH, LATR = plugin("deep_search", stretch=1), plugin("latr", lookahead=2)
SCALE = "its values are not divided by the group's std, so that its steps are smaller at the same lr"
FEWER = "where right answers are rare, four first completions and what goes on from one of them hold fewer of them"

CLAIMS = [
    Claim("tree_rl, 4 trees, forks 1, children 1", HARD, RARE, BUDGET, TREE_RL, change=SMALL, why=SCALE),
    Claim("tree_rl, 4 trees, forks 1, children 1", MILD, COMMON, BUDGET, TREE_RL, change=SMALL, why=SCALE),
    Claim("fr3e, 4 answers, anchors 2, children 2", HARD, RARE, BUDGET, FR3E, change=SMALL, why=FEWER),
    Claim("fr3e, 4 answers, anchors 2, children 2", MILD, COMMON, BUDGET, FR3E, change=SMALL, why=FEWER),
    Claim("deep_search, 4 answers, stretch 1", HARD, RARE, BUDGET, SEARCH, change=SMALL, why=SCALE),
    Claim("deep_search, 4 answers, stretch 1", MILD, COMMON, BUDGET, SEARCH, change=SMALL, why=SCALE),
    Claim("latr, lookahead 2", HARD, RARE, BUDGET, LATR),
    Claim("latr, lookahead 2", MILD, COMMON, BUDGET, LATR),
]
