"""The other advantages: without groups, without the std, by the best of k."""

import torch
from bench.algorithms.claim import Claim, final, over_run, plugin
from bench.algorithms.tabular import Arm, Result, Rows, Task, Tensor
from bench.algorithms.tasks import every, first, length, start, target, uniform

TASK, HARD = Task(start(0.2), target), Task(start(0.03), target)
EIGHTS, SINGLES = Arm(steps=20), Arm(group=1, steps=100, lr=0.3)
BUDGET = Arm(rollouts=32 * 8 * 10)
ENDING = Task(uniform(32, 5), first, end=3)
MEANS = Arm(settings={"aggregation": "seq-mean-token-mean"}, steps=40)
SPEED = {"measure": "right, mean over the run", "score": over_run}
ALONE = "groups of one, 100 steps, right .2"


def lengthy(rows: Rows) -> Tensor:
    """Long right answers and short ones: 1 where the first token is right."""
    return first(rows)


def any_of_four(result: Result) -> float:
    """Chance that one of four answers is right, mean over prompts."""
    rows = every(result.policy.own.shape)
    with torch.no_grad():
        chance_PS = result.policy.logprobs(rows).sum(1).exp().reshape(result.policy.own.shape[0], -1)
        right_P = (chance_PS * result.policy.task.truth(rows).reshape(chance_PS.shape)).sum(1)
    return (1 - (1 - right_P) ** 4).mean().item()


CLAIMS = [
    Claim(
        "dr_grpo, seq-mean-token-sum-norm",
        "answers that may end, first token decides; GRPO with seq-mean-token-mean",
        ENDING,
        MEANS,
        {"advantage": "dr_grpo", "aggregation": "seq-mean-token-sum-norm"},
        "-",
        measure="tokens of an answer",
        score=length,
    ),
    Claim(
        "dr_grpo",
        "right .2, same lr",
        TASK,
        EIGHTS,
        {"advantage": "dr_grpo"},
        "-",
        **SPEED,
        why="A is std times GRPO's",
    ),
    Claim(
        "rloo", "right .2, same lr", TASK, EIGHTS, {"advantage": "rloo"}, "-", **SPEED, why="A is 8/7 std times GRPO's"
    ),
    Claim(
        "grpo, scale batch", "right .03, same lr", HARD, EIGHTS, {"advantage_options": {"scale": "batch"}}, "?", **SPEED
    ),
    Claim(
        "pass_at_k",
        "right .03",
        HARD,
        EIGHTS,
        {"advantage": "pass_at_k"},
        measure="right in 4 tries",
        score=any_of_four,
    ),
    Claim(
        "pass_at_k",
        "right .2",
        TASK,
        EIGHTS,
        {"advantage": "pass_at_k"},
        measure="right in 4 tries",
        score=any_of_four,
        why="with rewards of 0 and 1 it has signal only from groups with exactly one right answer, which get rarer as"
        " answers get better",
    ),
    Claim(
        "gpg (advantage and loss)",
        "right .03, same lr",
        HARD,
        EIGHTS,
        {"advantage": "gpg", "policy_loss": "gpg"},
        **SPEED,
    ),
    Claim(
        "gpg (advantage and loss)",
        "right .2, same lr",
        TASK,
        EIGHTS,
        {"advantage": "gpg", "policy_loss": "gpg"},
        **SPEED,
    ),
    Claim(
        "reinforce_pp", ALONE, TASK, SINGLES, {"advantage": "reinforce_pp"}, why="GRPO learns nothing from one answer"
    ),
    Claim("reinforce_pp", "right .2, groups of 8", TASK, EIGHTS, {"advantage": "reinforce_pp"}, "?", **SPEED),
    Claim(
        "reinforce_pp_baseline",
        "right .03, groups of 8",
        HARD,
        EIGHTS,
        {"advantage": "reinforce_pp_baseline"},
        "?",
        **SPEED,
    ),
    Claim(
        "reinforce_pp_baseline",
        "right .2, groups of 8",
        TASK,
        EIGHTS,
        {"advantage": "reinforce_pp_baseline"},
        "?",
        **SPEED,
    ),
    Claim("gae", ALONE, TASK, SINGLES, {"advantage": "gae"}),
    Claim("spo", ALONE, TASK, SINGLES, plugin("spo")),
    Claim("mssr", ALONE, TASK, SINGLES, plugin("mssr")),
    Claim("remax", f"{ALONE}, one greedy answer more", TASK, SINGLES, plugin("remax")),
    Claim("remax", "2560 rollouts, right .2, groups of 8 and a greedy one", TASK, BUDGET, plugin("remax"), "?"),
    Claim(
        "opo",
        "answers that may end, first token decides",
        ENDING,
        MEANS,
        plugin("opo"),
        "?",
        **SPEED,
        why="it leaves out the std, so its step is smaller",
    ),
    Claim(
        "opo",
        "the same, against dr_grpo",
        ENDING,
        Arm(settings={"advantage": "dr_grpo"}, steps=40),
        {"advantage": "grpo", **plugin("opo")},
        **SPEED,
    ),
    Claim("weighted_cloning", "right .2", TASK, EIGHTS, plugin("weighted_cloning"), "?", score=final, why="as below"),
    Claim(
        "weighted_cloning",
        "right .03",
        HARD,
        EIGHTS,
        plugin("weighted_cloning"),
        "?",
        score=final,
        why="it pushes no answer away: a wrong one has weight near .4, so what is common is made commoner",
    ),
    Claim("rover", "right .2", TASK, EIGHTS, plugin("rover"), "?"),
]
