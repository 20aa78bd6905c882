"""Shaped rewards and regularisers: each moves what it is about, at a price in right answers that is measured too."""

import torch
from bench.algorithms.claim import Claim, plugin
from bench.algorithms.tabular import Arm, Result, Rows, Task, Tensor, every
from bench.algorithms.tasks import entropy, expected, first, length, multiple, right_kinds, start, target, uniform

ENDING, SEVERAL = Task(uniform(32, 4), first, end=3), Task(uniform(32, 2), multiple)
KINDS_OF_FOUR = SEVERAL
ONE = Task(start(0.2), target)
LESS = Arm(steps=40)
BINARY_KIND = {"measure": "kinds of right answers", "score": right_kinds}


def unended(result: Result) -> float:
    """Share of answers without their end token."""
    return expected(result, lambda rows: ~((rows.ids_NC == 3) & rows.mask_NC).any(1))


def repeated(result: Result) -> float:
    """Tokens of an answer that it has had before."""

    def count(rows: Rows) -> Tensor:
        is_same_NCC = (rows.ids_NC[:, :, None] == rows.ids_NC[:, None]) & rows.mask_NC[:, None]
        return (is_same_NCC.tril(-1).any(2) & rows.mask_NC).double().sum(1)

    return expected(result, count)


def divergence(result: Result) -> float:
    """KL of the policy from its start."""
    rows = every(result.policy.own.shape)
    return expected(result, lambda _: (result.policy.logprobs(rows) - result.start.logprobs(rows)).sum(1))


def kinds(rows: Rows, true_N: Tensor, generator: object) -> dict[str, Tensor]:
    return {"answer_class": rows.ids_NC[:, 0].double()}


KINDS = Task(uniform(32, 2), multiple, parts=kinds)
LENGTH, ENTROPY = (
    {"measure": "tokens of an answer", "score": length},
    {"measure": "entropy at the end", "score": entropy},
)


def spread_or_one(rows: Rows) -> Tensor:
    """The first half of the prompts has 4 right answers of 16, the others have one."""
    return torch.where(rows.prompt_N < 16, multiple(rows), target(rows))


def solved(generator: torch.Generator) -> Tensor:
    """The first half gives each of its right answers about as often, and hardly another."""
    table = uniform(32, 2)(generator)
    table[:16, 0] *= 0.2
    for before in range(4):
        table[:16, 1, before, -before % 4] += 7.0
    return table


def kinds_of_solved(result: Result) -> float:
    rows = every(result.policy.own.shape)
    with torch.no_grad():
        chance_PS = (result.policy.logprobs(rows).sum(1).exp() * multiple(rows)).reshape(32, -1)[:16]
        return torch.special.entr(chance_PS / chance_PS.sum(1, keepdim=True)).sum(1).exp().mean().item()


def third_decides(rows: Rows) -> Tensor:
    return (rows.ids_NC[:, 2] == 0).float()


def one_doubt(generator: torch.Generator) -> Tensor:
    """Four tokens, the third uncertain, the others nearly sure and of no weight."""
    table = uniform(32, 4)(generator)
    table[:, [0, 1, 3], :, 1] += 3.0
    return table


SOLVED = Task(solved, spread_or_one, common=True)
SLOW = Arm(steps=40, lr=0.1)
SOLVED_SETTING = "half of the prompts solved in 4 ways, half learnt, shared logits"
DECIDED, DECIDES = Task(one_doubt, third_decides), "4 tokens, the uncertain one decides"
SURELY = Task(start(0.1, decoy=2.0), target)
ONE_TOKEN = "of 512 tokens a step a share of 2e-4 is none or one"
OPEN, ENDS = "answers that may end, first token decides", "the same"
MANY = "4 right answers of 16"

CLAIMS = [
    Claim("length_penalty", OPEN, ENDING, LESS, plugin("length_penalty"), "-", **LENGTH),
    Claim("length_penalty, target 1", ENDS, ENDING, LESS, plugin("length_penalty", target=1), "-", **LENGTH),
    Claim("overlong_buffer 3", ENDS, ENDING, LESS, {"overlong_buffer": 3}, "-", **LENGTH),
    Claim(
        "mask_truncated",
        ENDS,
        ENDING,
        LESS,
        {"mask_truncated": True},
        "?",
        measure="answers without an end",
        score=unended,
    ),
    Claim("end_bonus", ENDS, ENDING, LESS, plugin("end_bonus"), "-", measure="answers without an end", score=unended),
    Claim(
        "repetition_penalty, size 1",
        ENDS,
        ENDING,
        LESS,
        plugin("repetition_penalty", size=1),
        "-",
        measure="repeated tokens of an answer",
        score=repeated,
    ),
    Claim("entropy_coef .05", MANY, SEVERAL, LESS, {"entropy_coef": 0.05}, **ENTROPY),
    Claim(
        "ref_kl_coef .1", MANY, SEVERAL, LESS, {"ref_kl_coef": 0.1}, "-", measure="KL from the start", score=divergence
    ),
    Claim(
        "ref_kl_coef .1 in the reward",
        MANY,
        SEVERAL,
        LESS,
        {"ref_kl_coef": 0.1, "ref_kl_in": "reward"},
        "-",
        measure="KL from the start",
        score=divergence,
    ),
    Claim(
        "ref_kl_target .05",
        f"{MANY}, ref_kl_coef .1",
        SEVERAL,
        Arm(settings={"ref_kl_coef": 0.1}, steps=40),
        {"ref_kl_target": 0.05, "ref_kl_horizon": 1000},
        "-",
        measure="KL from the start",
        score=divergence,
    ),
    Claim("diversity_bonus, size 1", MANY, SEVERAL, LESS, plugin("diversity_bonus", size=1), **BINARY_KIND),
    Claim(
        "diversity_bonus, size 1, coef .5",
        MANY,
        SEVERAL,
        LESS,
        plugin("diversity_bonus", size=1, coef=0.5),
        **BINARY_KIND,
    ),
    Claim("submodular", MANY, KINDS, LESS, plugin("submodular"), **BINARY_KIND),
    Claim(
        "kl_cov, ratio .05",
        MANY,
        SEVERAL,
        Arm(settings={"epochs_per_batch": 4}, steps=10),
        plugin("kl_cov", ratio=0.05),
        **ENTROPY,
    ),
    Claim(
        "kl_cov, its ratio 2e-4",
        MANY,
        SEVERAL,
        Arm(settings={"epochs_per_batch": 4}, steps=10),
        plugin("kl_cov"),
        **ENTROPY,
        why=ONE_TOKEN,
    ),
    Claim("clip_cov, ratio .05, low .1", MANY, SEVERAL, LESS, plugin("clip_cov", ratio=0.05, low=0.1), **ENTROPY),
    Claim("clip_cov, its ratio 2e-4", MANY, SEVERAL, LESS, plugin("clip_cov"), **ENTROPY, why=ONE_TOKEN),
    Claim("lp_reg, share .1", MANY, SEVERAL, LESS, plugin("lp_reg", share=0.1), **ENTROPY),
    Claim(
        "lp_reg, share .1, 4 passes",
        MANY,
        SEVERAL,
        Arm(settings={"epochs_per_batch": 4}, steps=10),
        plugin("lp_reg", share=0.1),
        **ENTROPY,
        why="the proxy of four tokens differs from the policy only where one is below .02 of the likeliest",
    ),
    Claim("cde", MANY, SEVERAL, LESS, plugin("cde"), **BINARY_KIND),
    Claim("cde, alpha .1", MANY, SEVERAL, LESS, plugin("cde", alpha=0.1), **BINARY_KIND),
    Claim(
        "dph_rl",
        SOLVED_SETTING,
        SOLVED,
        SLOW,
        plugin("dph_rl"),
        measure="kinds of right answers to solved prompts",
        score=kinds_of_solved,
    ),
    Claim(
        "dph_rl, coef .05",
        SOLVED_SETTING,
        SOLVED,
        SLOW,
        plugin("dph_rl", coef=0.05),
        measure="kinds of right answers to solved prompts",
        score=kinds_of_solved,
    ),
    Claim(
        "dph_rl",
        MANY,
        SEVERAL,
        LESS,
        plugin("dph_rl"),
        "+",
        **BINARY_KIND,
        why="no prompt is solved at its first visit, so none is recorded",
    ),
    Claim("rover", MANY, SEVERAL, LESS, plugin("rover"), **BINARY_KIND, seeds=10),
    Claim("risk_po", MANY, SEVERAL, LESS, plugin("risk_po"), **ENTROPY),
    Claim("risk_po", MANY, SEVERAL, LESS, plugin("risk_po"), **BINARY_KIND),
    Claim(
        "entropy_gate, share .25",
        DECIDES,
        DECIDED,
        LESS,
        plugin("entropy_gate", share=0.25),
        "-",
        measure="KL from the start",
        score=divergence,
    ),
    Claim(
        "entropy_gate, share .25",
        DECIDES,
        DECIDED,
        LESS,
        plugin("entropy_gate", share=0.25),
        "0",
        why="once the token that decides is learnt, others are less certain, and the gate leaves it",
    ),
    Claim(
        "entropy_gate",
        "right .2: both tokens are needed, one learns",
        ONE,
        Arm(steps=20),
        plugin("entropy_gate"),
        "?",
        why="half of what must be learnt is gated off",
    ),
    Claim(
        "conf_clip",
        "right .1, a confident wrong answer",
        SURELY,
        Arm(steps=20),
        plugin("conf_clip"),
        why="a group's confidences are alike, and dividing by its std takes most of their difference back",
    ),
    Claim(
        "conf_clip",
        "right .2",
        ONE,
        Arm(steps=20),
        plugin("conf_clip"),
        "?",
        why="GRPO has learnt nearly all; what is left is confident and right",
    ),
    Claim(
        "conf_clip",
        MANY,
        SEVERAL,
        LESS,
        plugin("conf_clip"),
        "?",
        **ENTROPY,
        why="the surest right answer is paid most",
    ),
]
