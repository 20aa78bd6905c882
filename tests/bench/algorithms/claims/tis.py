"""TIS and its kin: samples of older weights do not drive the policy on into what it has already moved to."""

import torch
from bench.algorithms.claim import Claim
from bench.algorithms.tabular import Arm, Rows, Task, Tensor
from bench.algorithms.tasks import graded, start, target

WORTH = torch.tensor([1.0, 0.8, 0.0, 0.0])


def worth(rows: Rows) -> Tensor:
    """One token: the best answer is rare, a common one is worth .8."""
    return WORTH[rows.ids_NC[:, 0]]


def rare_best(generator: torch.Generator) -> Tensor:
    table = 0.5 * torch.randn(32, 1, 4, 4, generator=generator)
    table[..., 0] -= 2.5
    return table


GRADED = Task(start(0.1, places=3), graded)
SECOND_BEST, BINARY = Task(rare_best, worth), Task(start(0.1, places=3), target)
STALE, FAST = Arm(group=16, steps=60, lag=8), Arm(group=16, steps=60, lag=8, lr=2.0)
FRESHER, LONGER = Arm(group=16, steps=60, lag=4), Arm(group=8, steps=40, lag=8, lr=2.0)
TIS = {"rollout_correction": "truncate"}
SETTING = "stale by 8 steps, a common answer worth .8 beside the rare best"

CLAIMS = [
    Claim("TIS", SETTING, SECOND_BEST, STALE, TIS, measure="worth at the end", named=True),
    Claim("TIS", f"{SETTING}, lr doubled", SECOND_BEST, FAST, TIS, measure="worth at the end", named=True),
    Claim(
        "TIS",
        "the same, stale by 4 steps",
        SECOND_BEST,
        FRESHER,
        TIS,
        measure="worth at the end",
        why="half as stale, it overshoots less: the same sign within chance",
    ),
    Claim(
        "TIS",
        "stale by 8 steps, one right answer of three tokens",
        BINARY,
        LONGER,
        TIS,
        why="pushing on into the one right answer is no mistake: the uncorrected step overshoots to where it should go",
    ),
    Claim(
        "TIS",
        "stale by 8 steps, worth: the share of right tokens",
        GRADED,
        LONGER,
        TIS,
        measure="worth at the end",
        why="as above: every right token leads to the one best answer",
    ),
    Claim("MIS", SETTING, SECOND_BEST, STALE, {"rollout_correction": "mask"}, measure="worth at the end"),
    Claim(
        "rejection by token k3",
        SETTING,
        SECOND_BEST,
        STALE,
        {"rollout_rejection": "token_k3", "rollout_rejection_high": 0.5},
        measure="worth at the end",
    ),
    Claim("off_policy_delta .1", SETTING, SECOND_BEST, STALE, {"off_policy_delta": 0.1}, measure="worth at the end"),
]
