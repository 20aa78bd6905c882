"""Trees of answers: a beginning that is shared costs once, and shows what its next token is worth."""

import torch
from bench.algorithms.claim import Claim, plugin
from bench.algorithms.tabular import Arm, Task, Tensor
from bench.algorithms.tasks import start, target


def one_choice(generator: torch.Generator) -> Tensor:
    """Four tokens of which three are nearly sure, and the third is hardly ever right."""
    table = 0.3 * torch.randn(32, 4, 4, 4, generator=generator)
    table[:, [0, 1, 3], :, 0] += 5.0
    table[:, 2, :, 0] -= 1.5
    return table


RARE, COMMON, CHOICE = Task(start(0.02, places=4), target), Task(start(0.2, places=3), target), Task(one_choice, target)
ROLLOUTS = Arm(rollouts=32 * 8 * 20)
TOKENS, UNIT = Arm(tokens=10240), Arm(tokens=10240, unit=True, lr=0.2)
SMALL = {"group": 4}
TREE_RL, FR3E = plugin("tree_rl", forks=1, children=1), plugin("fr3e", anchors=2, children=2)
SEARCH, LATR = plugin("deep_search", stretch=1), plugin("latr", lookahead=2)
TREE, SEARCHED = "tree_rl, 4 trees, forks 1, children 1", "deep_search, 4 answers, stretch 1"
RARELY, OFTEN = "4 tokens, right .02", "3 tokens, right .2"
BUDGET, EQUAL = "5120 rollouts", "10240 tokens sampled by both, steps of equal length"
SCALE = (
    "the gain is of tokens, as shared beginnings cost once; its values are not divided by the group's std, so that at"
    " the same lr its steps are smaller too"
)
DEAD = (
    "here an answer is lost at its first wrong token, so that going on from beginnings of wrong answers, 12 of 16"
    " completions, finds few right ones"
)
PARTS = (
    "four first completions and what goes on from one of them hold fewer right answers than eight apart, where all"
    " tokens are alike uncertain"
)

FEW = "three tokens leave few places with a second likely token"

CLAIMS = [
    Claim(TREE, f"{EQUAL}; {RARELY}", RARE, UNIT, TREE_RL, change=SMALL),
    Claim(TREE, f"{EQUAL}; {OFTEN}", COMMON, UNIT, TREE_RL, change=SMALL),
    Claim(TREE, f"{BUDGET}; {RARELY}", RARE, ROLLOUTS, TREE_RL, change=SMALL, why=SCALE),
    Claim(TREE, f"{BUDGET}; {OFTEN}", COMMON, ROLLOUTS, TREE_RL, change=SMALL, why=SCALE),
    Claim(
        "fr3e, 4 answers, anchors 1, children 4",
        "10240 tokens sampled by both; one of four tokens is uncertain, right .06",
        CHOICE,
        TOKENS,
        plugin("fr3e", anchors=1, children=4),
        change=SMALL,
        why="the claim is of reasoning that hinges on few uncertain tokens",
    ),
    Claim(
        "fr3e, 4 answers, anchors 2, children 2", f"{BUDGET}; {RARELY}", RARE, ROLLOUTS, FR3E, change=SMALL, why=PARTS
    ),
    Claim(
        "fr3e, 4 answers, anchors 2, children 2", f"{BUDGET}; {OFTEN}", COMMON, ROLLOUTS, FR3E, change=SMALL, why=PARTS
    ),
    Claim(SEARCHED, f"{EQUAL}; {OFTEN}", COMMON, UNIT, SEARCH, change=SMALL),
    Claim(SEARCHED, f"{EQUAL}; {RARELY}", RARE, UNIT, SEARCH, change=SMALL),
    Claim(SEARCHED, f"{BUDGET}; {RARELY}", RARE, ROLLOUTS, SEARCH, change=SMALL, why=f"{SCALE}; {DEAD}"),
    Claim("latr, lookahead 2", f"{EQUAL}; {RARELY}", RARE, UNIT, LATR),
    Claim("latr, lookahead 2", f"{EQUAL}; {OFTEN}", COMMON, UNIT, LATR, why=FEW),
    Claim(
        "latr, lookahead 2",
        f"{BUDGET}; {RARELY}",
        RARE,
        ROLLOUTS,
        LATR,
        why="its gain is of tokens, which are not counted here",
    ),
]
