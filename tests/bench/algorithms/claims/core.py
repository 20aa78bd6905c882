"""The core's switches: aggregation, divergences, bounds for stale samples, several rewards, weights of tasks."""

from __future__ import annotations

import torch
from bench.algorithms.claim import Claim, over_run
from bench.algorithms.claims.data_side import APART
from bench.algorithms.claims.losses import SEQUENCES, SETTING, TASK, TIGHT
from bench.algorithms.claims.shaping import KINDS_OF_FOUR, divergence
from bench.algorithms.claims.tis import SECOND_BEST
from bench.algorithms.tabular import Arm, Result, Rows, Task, Tensor
from bench.algorithms.tasks import expected, first, start, target, uniform

from mmrl.scoring.difficulty import groups_by_pass_rate, mimo_score

SPEED = {"measure": "right, mean over the run", "score": over_run}


def wrong(rows: Rows) -> Tensor:
    return 1 - first(rows)


def wrong_length(result: Result) -> float:
    """Mean tokens of a wrong answer."""
    return expected(result, lambda rows: wrong(rows) * rows.mask_NC.sum(1)) / expected(result, wrong)


def hopeless(generator: torch.Generator) -> Tensor:
    """Answers that may end, of which few are right."""
    table = uniform(32, 5)(generator)
    table[:, 0, :, 0] -= 2.5
    return table


ENDING = Task(hopeless, first, end=3)
SHORT = Arm(steps=10, lr=0.5)
PUBLISHED = Arm(steps=10, lr=0.5, settings={"aggregation": "seq-mean-token-mean"})
LENGTH = {"measure": "tokens of a wrong answer", "score": wrong_length}
OPEN = "answers that may end, few right; GRPO with seq-mean-token-mean"
GSPO = Arm(steps=15, settings={"policy_loss": "gspo", "aggregation": "seq-mean-token-mean", "epochs_per_batch": 2})

KL = {"measure": "KL from the start", "score": divergence}
FORTY, MANY = Arm(steps=40), "4 right answers of 16"

OUTDATED = {"old_logprobs": "sampler", "dual_clip": None}
STALE = Arm(group=16, steps=60, lag=8, settings=OUTDATED)
UNCORRECTED, FRESHER = Arm(group=16, steps=60, lag=8), Arm(group=16, steps=60, lag=4)
LATE = "stale by 8 steps, a common answer worth .8 beside the rare best"
CUT = "the clip cuts the rare best answer, which has become much likelier since it was sampled, before the common one"
SMALL = (
    "no wrong answer's ratio passes it: what became so much likelier was better than the rest; nor in 4 or 16 passes"
)
WORTH = {"measure": "worth at the end"}


def scales(rows: Rows, true_N: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
    """Whether the answer is right, and a style that pays ten times as much."""
    return {"right": (rows.ids_NC[:, 0] == 0).float(), "style": 10.0 * (rows.ids_NC[:, 1] == 0).float()}


def constant(rows: Rows, true_N: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
    return {"right": true_N, "format": torch.ones(len(true_N))}


UNLIKE = Task(start(0.05), first, parts=scales)
SUMMED = Arm(steps=20, combine="sum")
NORMALISED = {"combine": "normalised_sum"}
BATCH = {"advantage_options": {"scale": "batch"}}

RATES = (0.9, 0.5, 0.1)


def tests(strict: bool):
    def score(rows: Rows) -> Tensor:
        """Test k is passed where token k is right; later ones are harder."""
        groups = groups_by_pass_rate(RATES)
        flags = [[[bool(ids[i] == 0) for i in group] for group in groups] for ids in rows.ids_NC.tolist()]
        return torch.tensor([mimo_score(of_row, (1.0, 2.0, 4.0), strict=strict) for of_row in flags])

    return score


STRICT, SOFT = tests(True), tests(False)


def parts(rows: Rows, true_N: Tensor, generator: object) -> dict[str, Tensor]:
    return {"mimo_strict": STRICT(rows), "mimo_soft": SOFT(rows)}


CODE = Task(start(0.02, places=3), target, parts=parts)
RARE_CODE = Task(start(0.001, places=3), target, parts=parts)


def second_half(result: Result) -> float:
    """Right answers on the harder half."""
    return 2 * expected(result, lambda rows: (rows.prompt_N >= 16) * target(rows))


HARDER = {"measure": "right on the hard half", "score": second_half}
HALVES = "prompts of .3 and .003, own logits"

CLAIMS = [
    Claim(
        "dr_grpo",
        OPEN,
        ENDING,
        PUBLISHED,
        {"advantage": "dr_grpo", "aggregation": "seq-mean-token-sum-norm"},
        "-",
        **LENGTH,
    ),
    Claim("token-mean", OPEN, ENDING, PUBLISHED, {"aggregation": "token-mean"}, "-", **LENGTH),
    Claim("seq-mean-token-sum", OPEN, ENDING, PUBLISHED, {"aggregation": "seq-mean-token-sum"}, "-", **LENGTH),
    Claim(
        "seq-mean-token-sum-norm", OPEN, ENDING, PUBLISHED, {"aggregation": "seq-mean-token-sum-norm"}, "-", **LENGTH
    ),
    Claim(
        "rank-token-mean",
        "the same; against token-mean",
        ENDING,
        SHORT,
        {"aggregation": "rank-token-mean"},
        "0",
        **LENGTH,
        why="one process has all the tokens",
    ),
    Claim(
        "seq-sum-token-sum-norm",
        "the same; against seq-mean-token-sum-norm, lr / 256",
        ENDING,
        Arm(steps=10, lr=0.5, settings={"aggregation": "seq-mean-token-sum-norm"}),
        {"aggregation": "seq-sum-token-sum-norm"},
        "0",
        **LENGTH,
        change={"lr": 0.5 / 256},
        why="the two differ by the number of sequences, and that is all",
    ),
    Claim(
        "luspo",
        "answers that may end, first token decides, 2 passes; against gspo",
        Task(uniform(32, 5), first, end=3),
        GSPO,
        {"aggregation": "seq-mean-token-sum"},
        measure="tokens of an answer",
        score=lambda result: result.length,
    ),
    Claim(
        "gspo token form",
        f"{SETTING}; against gspo",
        TASK,
        Arm(settings={**SEQUENCES.settings, "policy_loss": "gspo"}, steps=15),
        {"policy_loss_options": {"token": True}},
        "0",
        **SPEED,
        why="the same gradient where all tokens of an answer have one advantage",
    ),
    Claim(
        "gspo token form",
        f"{SETTING}, its clips; against gspo",
        TASK,
        Arm(settings={**SEQUENCES.settings, "policy_loss": "gspo", **TIGHT}, steps=15),
        {"policy_loss_options": {"token": True}},
        "0",
        **SPEED,
    ),
    Claim(
        "ref_kl k1 in the loss, .1",
        MANY,
        KINDS_OF_FOUR,
        FORTY,
        {"ref_kl_coef": 0.1, "ref_kl_estimator": "k1"},
        "0",
        **KL,
        why="its gradient has the mean 0: it does not hold the policy",
    ),
    Claim(
        "ref_kl k2 in the loss, .1",
        MANY,
        KINDS_OF_FOUR,
        FORTY,
        {"ref_kl_coef": 0.1, "ref_kl_estimator": "k2"},
        "-",
        **KL,
    ),
    Claim(
        "ref_kl k3 in the loss, .1",
        MANY,
        KINDS_OF_FOUR,
        FORTY,
        {"ref_kl_coef": 0.1, "ref_kl_estimator": "k3"},
        "-",
        **KL,
    ),
    Claim("old_logprobs sampler", LATE, SECOND_BEST, UNCORRECTED, {"old_logprobs": "sampler"}, **WORTH, why=CUT),
    Claim(
        "old_logprobs sampler",
        "the same, 4 steps",
        SECOND_BEST,
        FRESHER,
        {"old_logprobs": "sampler"},
        **WORTH,
        why="half as stale, the clip cuts less, both ways",
    ),
    Claim(
        "two-sided clip, delta 4",
        f"{LATE}; old_logprobs sampler",
        SECOND_BEST,
        STALE,
        {"policy_loss_options": {"delta": 4.0}},
        **WORTH,
        why=SMALL,
    ),
    Claim("dual clip 3", f"{LATE}; old_logprobs sampler", SECOND_BEST, STALE, {"dual_clip": 3.0}, **WORTH, why=SMALL),
    Claim(
        "normalised_sum (GDPO)",
        "a style that pays 10 beside right answers that pay 1",
        UNLIKE,
        SUMMED,
        BATCH,
        change=NORMALISED,
        **SPEED,
    ),
    Claim(
        "normalised_sum (GDPO)",
        "a format that is always kept beside right .2",
        Task(start(0.2), target, parts=constant),
        Arm(steps=20, combine="sum"),
        {},
        "0",
        change=NORMALISED,
        **SPEED,
        why="a constant part changes nothing, whichever way they are put together",
    ),
    Claim(
        "mimo_strict",
        "3 tests of .9, .5 and .1, all passed .02; GRPO is paid for all",
        CODE,
        FORTY,
        {},
        change={"reward": "mimo_strict"},
        **SPEED,
    ),
    Claim(
        "mimo_soft",
        "the same",
        CODE,
        FORTY,
        {},
        change={"reward": "mimo_soft"},
        **SPEED,
        why="what is paid for easy tests alone is learnt first, and all of them later",
    ),
    Claim(
        "mimo_soft",
        "3 tests, all passed .001",
        RARE_CODE,
        FORTY,
        {},
        change={"reward": "mimo_soft"},
        **SPEED,
        why="what is paid for easy tests alone is learnt first, and all of them later",
    ),
    Claim("by_task advantage_scale 3", HALVES, APART, FORTY, {"by_task": {"hard": {"advantage_scale": 3.0}}}, **HARDER),
    Claim("by_task loss_weight 3", HALVES, APART, FORTY, {"by_task": {"hard": {"loss_weight": 3.0}}}, **HARDER),
    Claim(
        "by_dataset advantage_scale 3, loss_weight 1/3",
        HALVES,
        APART,
        FORTY,
        {"by_dataset": {"d": {"advantage_scale": 3.0, "loss_weight": 1 / 3}}},
        "0",
        **HARDER,
        why="the two cancel in a policy term",
    ),
]
