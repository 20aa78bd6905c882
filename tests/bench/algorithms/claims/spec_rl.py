"""SPEC-RL: completions of a prompt's last visit are kept as far as the policy of today would have drawn them."""

from bench.algorithms.claim import Claim, plugin
from bench.algorithms.tabular import Arm, Result, Task
from bench.algorithms.tasks import start, target

TASK = Task(start(0.1, places=3), target)
VISITS = Arm(steps=30, prompts=8)


def tokens(result: Result) -> float:
    return result.tokens


SETTING = "repeated prompts: 32, each in every fourth of 30 steps"
WHY = "visits are not independent of each other: a policy that moved little gets its old completions again, not others"

CLAIMS = [
    Claim(
        "spec_rl, lenience 1",
        SETTING,
        TASK,
        VISITS,
        plugin("spec_rl", lenience=1.0),
        "-",
        measure="tokens sampled",
        score=tokens,
        named=True,
    ),
    Claim(
        "spec_rl, lenience e^.5",
        SETTING,
        TASK,
        VISITS,
        plugin("spec_rl"),
        "-",
        measure="tokens sampled",
        score=tokens,
        named=True,
    ),
    Claim("spec_rl, lenience 1", SETTING, TASK, VISITS, plugin("spec_rl", lenience=1.0), "0", why=WHY),
    Claim("spec_rl, lenience e^.5", SETTING, TASK, VISITS, plugin("spec_rl"), "0", why=WHY),
    Claim(
        "spec_rl, lenience 1",
        f"{SETTING}; 180 steps with drafts",
        TASK,
        VISITS,
        plugin("spec_rl", lenience=1.0),
        change={"steps": 180},
    ),
    Claim(
        "spec_rl, lenience 1",
        f"{SETTING}; 180 steps with drafts",
        TASK,
        VISITS,
        plugin("spec_rl", lenience=1.0),
        "-",
        measure="tokens sampled",
        score=tokens,
        change={"steps": 180},
    ),
]
