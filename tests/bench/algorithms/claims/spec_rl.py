"""SPEC-RL: completions of a prompt's last visit are kept as far as the policy of today would have drawn them."""

from bench.algorithms.claim import Claim, plugin
from bench.algorithms.tabular import Arm, Result, Task
from bench.algorithms.tasks import start, target

TASK = Task(start(0.1, places=3), target)
SHARED = Task(start(0.1, places=3), target, common=True)
VISITS, SLOW = Arm(steps=30, prompts=8), Arm(steps=30, prompts=8, lr=0.1)


def tokens(result: Result) -> float:
    return result.tokens


SETTING = "repeated prompts: 32, each in every fourth of 30 steps"
TOKENS = {"measure": "tokens sampled", "score": tokens}
EQUAL = Arm(tokens=1000, steps=200, prompts=8)
EXACT, SOURCE = plugin("spec_rl", lenience=1.0), plugin("spec_rl")
REDRAWN = plugin("spec_rl", lenience=1.0, redraw_equal=True)
STUCK = (
    "a group of equal rewards teaches nothing; with logits of its own its policy stays as it is, all of its drafts are"
    " kept, and it comes back unchanged for ever: see shared logits and `redraw_equal`"
)

CLAIMS = [
    Claim("spec_rl, lenience 1", SETTING, TASK, VISITS, EXACT, "-", **TOKENS, named=True),
    Claim("spec_rl, lenience e^.5", SETTING, TASK, VISITS, SOURCE, "-", **TOKENS, named=True),
    Claim("spec_rl, lenience 1", SETTING, TASK, VISITS, EXACT, "0", why=STUCK),
    Claim("spec_rl, lenience e^.5", SETTING, TASK, VISITS, SOURCE, "0", why=STUCK),
    Claim("spec_rl, lenience 1", f"{SETTING}, shared logits", SHARED, SLOW, EXACT, "-", **TOKENS, named=True),
    Claim(
        "spec_rl, lenience 1",
        f"{SETTING}, shared logits",
        SHARED,
        SLOW,
        EXACT,
        "0",
        seeds=10,
        why="as in a model, what other prompts teach moves this one's policy, so that its drafts are cut; but"
        " only one token in five is new",
    ),
    Claim("spec_rl, lenience 1, redraw_equal", SETTING, TASK, VISITS, REDRAWN, "-", **TOKENS),
    Claim("spec_rl, lenience 1, redraw_equal", SETTING, TASK, VISITS, REDRAWN, "0", seeds=10),
    Claim("spec_rl, lenience 1", "prompts as above, 1000 tokens sampled by both", TASK, EQUAL, EXACT),
    Claim("spec_rl, lenience e^.5", "prompts as above, 1000 tokens sampled by both", TASK, EQUAL, SOURCE),
]
