"""The other advantages: without groups, without the std, by the best of k."""

from collections.abc import Callable

import torch
from bench.algorithms.claim import Claim, over_run, plugin
from bench.algorithms.tabular import Arm, Result, Rows, Task, Tensor
from bench.algorithms.tasks import every, first, graded, start, target, uniform

TASK, HARD = Task(start(0.2), target), Task(start(0.03), target)
EIGHTS, SINGLES = Arm(steps=20), Arm(group=1, steps=100, lr=0.3)
BUDGET = Arm(rollouts=32 * 8 * 10)
ENDING = Task(uniform(32, 5), first, end=3)
MEANS = Arm(settings={"aggregation": "seq-mean-token-mean"}, steps=40)
SPEED = {"measure": "right, mean over the run", "score": over_run}
ALONE = "groups of one, 100 steps, right .2"


def either(rows: Rows) -> Tensor:
    """Token 0 is right for 7 of 10 prompts, token 1 for the others."""
    return torch.where(rows.prompt_N % 10 < 7, rows.ids_NC[:, 0] == 0, rows.ids_NC[:, 0] == 1).float()


def brief(rows: Rows) -> Tensor:
    """Right answers end early; wrong ones are of all lengths."""
    return ((rows.ids_NC[:, 0] == 0) & (rows.mask_NC.sum(1) <= 2)).float()


def any_of(tries: int) -> Callable[[Result], float]:
    """Chance that one of so many answers is right, mean over prompts."""

    def measure(result: Result) -> float:
        rows = every(result.policy.own.shape)
        with torch.no_grad():
            chance_PS = result.policy.logprobs(rows).sum(1).exp().reshape(result.policy.own.shape[0], -1)
            right_P = (chance_PS * result.policy.task.truth(rows).reshape(chance_PS.shape)).sum(1)
        return (1 - (1 - right_P) ** tries).mean().item()

    return measure


BLIND = Task(lambda generator: torch.zeros(40, 1, 4, 4), either, own=False, common=True)
BLIND_SETTING = "40 prompts that the policy cannot tell apart, 28 with one right answer, 12 with another"
NO_TRADE = (
    "its signal comes from groups with exactly one right answer, rarer as answers get better; prompts of their own"
    " logits leave no diversity to be lost by right answers"
)
PAIRS = Arm(group=2, steps=40, settings={"advantage": "dr_grpo"})
BRIEF = Task(uniform(32, 5), brief, end=3)
SUMS = Arm(group=4, steps=30, lr=0.3, settings={"advantage": "dr_grpo", "aggregation": "seq-mean-token-sum"})
OPO_SUMS = {"advantage": "grpo", **plugin("opo")}
GRADED = Task(start(0.03), graded)
CLONES = "it pushes no answer away: a wrong one has weight near .4, so what is common is made commoner"

CLAIMS = [
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
        "rloo",
        "groups of 2, right .2; against dr_grpo, lr halved",
        TASK,
        PAIRS,
        {"advantage": "rloo"},
        "0",
        **SPEED,
        change={"lr": 0.5},
        why="A is 2 times dr_grpo's in groups of 2, and that is all",
    ),
    Claim(
        "pass_at_k",
        BLIND_SETTING,
        BLIND,
        Arm(lr=0.1),
        {"advantage": "pass_at_k"},
        measure="right in 8 tries",
        score=any_of(8),
        why="the trade of the paper: what helps one of many tries costs single ones",
    ),
    Claim("pass_at_k", BLIND_SETTING, BLIND, Arm(lr=0.1), {"advantage": "pass_at_k"}, "-", measure="right in one try"),
    Claim(
        "pass_at_k",
        "right .03",
        HARD,
        EIGHTS,
        {"advantage": "pass_at_k"},
        measure="right in 8 tries",
        score=any_of(8),
        why=NO_TRADE,
    ),
    Claim(
        "pass_at_k",
        "right .2",
        TASK,
        EIGHTS,
        {"advantage": "pass_at_k"},
        measure="right in 8 tries",
        score=any_of(8),
        why=NO_TRADE,
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
        why="less variance shows little where nothing else than variance is changed, and answers are of like lengths",
    ),
    Claim(
        "opo", "right answers end early, sums over tokens; against dr_grpo", BRIEF, SUMS, OPO_SUMS, **SPEED, seeds=10
    ),
    Claim("weighted_cloning", "right .2", TASK, EIGHTS, plugin("weighted_cloning"), "?", why=CLONES),
    Claim("weighted_cloning", "right .03", HARD, EIGHTS, plugin("weighted_cloning"), "?", why=CLONES),
    Claim(
        "weighted_cloning",
        "worth: the share of right tokens",
        GRADED,
        EIGHTS,
        plugin("weighted_cloning"),
        "?",
        measure="worth at the end",
        why="the source clones recorded robot data, where there is no group to compare in",
    ),
    Claim(
        "rover",
        "right .2",
        TASK,
        EIGHTS,
        plugin("rover"),
        "?",
        why="it leaves out the std; its claim is of kinds of right answers, below",
    ),
]
