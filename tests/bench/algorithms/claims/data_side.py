"""What is decided about the data: which prompts, in which order, in which mixture."""

from __future__ import annotations

import functools

import torch
from bench.algorithms.claim import Claim, over_run, plugin
from bench.algorithms.claims.coba_rl import MIXED
from bench.algorithms.tabular import Arm, Task, Tensor
from bench.algorithms.tasks import start, target
from bench.algorithms.trainer import train

from mmrl.data.mixture_fit import RunRecord, fitted, seed_mixtures

SPEED = {"measure": "right, mean over the run", "score": over_run}
BUDGET = Arm(rollouts=32 * 8 * 20)


def halves(generator: torch.Generator) -> Tensor:
    """Easy prompts, then hard ones."""
    return torch.cat([torch.full((16,), 0.3), torch.full((16,), 0.003)])


def by_half(prompt: int) -> str:
    return "easy" if prompt < 16 else "hard"


STAGES = {"stages": [["easy"], ["hard"]]}
RATED = {"of_prompt": lambda prompt: {"rate": 0.3 if prompt < 16 else 0.003}}
BANDS = plugin("difficulty_bands", column="rate")
SHARED = Task(start(halves, places=3), target, common=True, task_of=by_half, **RATED)
APART = Task(start(halves, places=3), target, task_of=by_half)
HARD_FIRST = {"stages": [["hard"], ["easy"]]}
EIGHT = Arm(steps=30, prompts=8, lr=0.05)

DROPPED = "of 8 answers to a prompt of .02 none is right in 85 of 100 cases, to one of .1 in 43: it is lost for good"

PARTS = ("solved", "useful", "hopeless")


def thirds(generator: torch.Generator) -> Tensor:
    return torch.cat([torch.full((12,), 0.98), torch.full((12,), 0.1), torch.full((12,), 0.0005)])


def clear(generator: torch.Generator) -> Tensor:
    return torch.cat([torch.full((12,), 0.9999), torch.full((12,), 0.3), torch.full((12,), 1e-5)])


CLEAR = Task(start(clear, prompts=36), target)
THIRDS = Task(start(thirds, prompts=36), target)
EVEN = Arm(steps=20, prompts=12, shares=(1 / 3, 1 / 3, 1 / 3))


@functools.cache
def suggested() -> tuple[float, ...]:
    """The mixture that MoDoMoDo's surrogate finds best, fitted to one run of each seed mixture."""
    records = []
    for weights in seed_mixtures(PARTS):
        shares = tuple(weights[name] / sum(weights.values()) for name in PARTS)
        found = train(THIRDS, Arm(steps=20, prompts=12, shares=shares), seed=100)
        records.append(RunRecord(weights, {"right": found.final}))
    return tuple(fitted(records, form="quadratic", ridge=1e-3).best().tolist())


def claims() -> list[Claim]:
    shares = ", ".join(f"{share:.2f}" for share in suggested())
    return [
        Claim(
            "mixture fit, suggest",
            f"prompts of .98, .1 and .0005; even shares, and the suggested ({shares})",
            THIRDS,
            EVEN,
            {},
            change={"shares": suggested()},
        ),
        Claim(
            "mixture fit, suggest",
            "the same, shares in proportion to what is left to learn (.01, .45, .54)",
            THIRDS,
            Arm(steps=20, prompts=12, shares=(0.01, 0.45, 0.54)),
            {},
            "?",
            change={"shares": suggested()},
        ),
    ]


CLAIMS = [
    Claim(
        "stage_order, easy first",
        "prompts of .3 and .003 that share logits",
        SHARED,
        EIGHT,
        plugin("stage_order", **STAGES),
        **SPEED,
    ),
    Claim("difficulty_bands, column", "prompts of .3 and .003 that share logits, rated", SHARED, EIGHT, BANDS, **SPEED),
    Claim(
        "stage_order, easy first",
        "the same, against hard first",
        SHARED,
        Arm(steps=30, prompts=8, lr=0.05, settings=plugin("stage_order", **HARD_FIRST)),
        plugin("stage_order", **STAGES),
    ),
    Claim(
        "stage_order, easy first",
        "prompts of .3 and .003, own logits",
        APART,
        Arm(steps=30, prompts=8),
        plugin("stage_order", **STAGES),
        "?",
    ),
    Claim(
        "offline filter (`mmrl rate`)",
        "5120 rollouts, prompts of .98, .3 and .02; 8 for rating each",
        MIXED,
        BUDGET,
        {},
        change={"rated": 8},
        why=DROPPED,
    ),
    Claim(
        "offline filter (`mmrl rate`)",
        "1728 rollouts, prompts of .9999, .3 and .00001; 8 for rating each",
        CLEAR,
        Arm(rollouts=36 * 8 * 6, prompts=12),
        {},
        change={"rated": 8},
    ),
    Claim(
        "offline filter (`mmrl rate`)",
        "5760 rollouts, prompts of .98, .1 and .0005; 8 for rating each",
        THIRDS,
        Arm(rollouts=36 * 8 * 20, prompts=12),
        {},
        change={"rated": 8},
        why=DROPPED,
    ),
    *claims(),
]
