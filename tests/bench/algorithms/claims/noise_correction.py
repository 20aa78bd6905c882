"""Corrections of a noisy verifier: the corrected reward weighs against the divergence as the true one would."""

import torch
from bench.algorithms.claim import Claim, plugin
from bench.algorithms.tabular import Arm, Rows, Task, Tensor
from bench.algorithms.tasks import start, target

FALSE_POSITIVE, FALSE_NEGATIVE = 0.1, 0.2


def noisy(rows: Rows, true_N: Tensor, generator: torch.Generator) -> Tensor:
    """Passes a wrong answer with .1, refuses a right one with .2."""
    chance_N = torch.rand(len(true_N), generator=generator)
    return torch.where(true_N > 0.5, chance_N >= FALSE_NEGATIVE, chance_N < FALSE_POSITIVE).float()


TASK = Task(start(0.2), target, verdict=noisy)
KL = {"ref_kl_coef": 0.2, "ref_kl_estimator": "k2"}
CENTRED = Arm(settings={"advantage": "dr_grpo", **KL}, steps=100)
DIVIDED = Arm(settings=KL, steps=100)
SINGLE = Arm(settings={"advantage": "reinforce_pp", **KL}, steps=100)

CLAIMS = [
    Claim(
        "noise_correction backward",
        "label noise .1 and .2, GRPO without division by the std (`dr_grpo`), KL .2",
        TASK,
        CENTRED,
        plugin("noise_correction"),
        named=True,
        why="the noise takes .3 off the reward's weight against the divergence, the correction gives it back; without a"
        " divergence the gain would be one of step size alone",
    ),
    Claim(
        "noise_correction backward",
        "the same, GRPO with the std",
        TASK,
        DIVIDED,
        plugin("noise_correction"),
        "0",
        why="an affine change of the reward cancels in (r - mean) / std",
    ),
    Claim(
        "noise_correction forward",
        "label noise .1 and .2, `dr_grpo`, KL .2",
        TASK,
        CENTRED,
        plugin("noise_correction", form="forward"),
        "0",
        why="a constant taken off the reward cancels with the group's mean",
    ),
    Claim(
        "noise_correction forward",
        "label noise .1 and .2, `reinforce_pp`, KL .2",
        TASK,
        SINGLE,
        plugin("noise_correction", form="forward"),
        "0",
        why="nor is a constant left by the whitening over the step; tried besides: `dr_grpo`",
    ),
]
