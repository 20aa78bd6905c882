"""Policy losses, where four passes over each batch move the policy far from the one that sampled."""

from bench.algorithms.claim import Claim, over_run, plugin
from bench.algorithms.tabular import Arm, Task
from bench.algorithms.tasks import entropy, start, target

TASK, RARE = Task(start(0.2, places=3), target), Task(start(0.02, places=3), target)
FOUR = {"epochs_per_batch": 4}
PASSES = Arm(settings=FOUR, steps=15)
SYMMETRIC = Arm(settings={**FOUR, "clip_high": 0.2}, steps=15)
SEQUENCES = Arm(settings={**FOUR, "aggregation": "seq-mean-token-mean"}, steps=15)
SPEED = {"measure": "right, mean over the run", "score": over_run}
SETTING, OTHER = "right .2, 3 tokens, 4 passes over each batch", "the same, right .02"
TIGHT = {"clip_low": 3e-4, "clip_high": 4e-4}

CLAIMS = [
    Claim("clip-higher .28", f"{SETTING}; GRPO clips at .2", TASK, SYMMETRIC, {"clip_high": 0.28}, **SPEED),
    Claim("clip-higher .28", OTHER, RARE, SYMMETRIC, {"clip_high": 0.28}, **SPEED),
    Claim(
        "clip-higher .28",
        OTHER,
        RARE,
        SYMMETRIC,
        {"clip_high": 0.28},
        measure="entropy at the end",
        score=entropy,
        why="it has learnt more by then, and what is learnt is one answer",
    ),
    Claim("cispo", SETTING, TASK, PASSES, {"policy_loss": "cispo"}, **SPEED),
    Claim("cispo", OTHER, RARE, PASSES, {"policy_loss": "cispo"}, **SPEED),
    Claim(
        "cispo, cap 5", SETTING, TASK, PASSES, {"policy_loss": "cispo", "policy_loss_options": {"cap": 5.0}}, **SPEED
    ),
    Claim("sapo", SETTING, TASK, PASSES, {"policy_loss": "sapo"}, **SPEED),
    Claim("sapo", OTHER, RARE, PASSES, {"policy_loss": "sapo"}, **SPEED),
    Claim("gspo, its clips", SETTING, TASK, SEQUENCES, {"policy_loss": "gspo", **TIGHT}, "?", **SPEED),
    Claim("gspo, GRPO's clips", SETTING, TASK, SEQUENCES, {"policy_loss": "gspo"}, "?", **SPEED),
    Claim("gmpo", SETTING, TASK, SEQUENCES, {"policy_loss": "gmpo"}, **SPEED),
    Claim("gmpo", OTHER, RARE, SEQUENCES, {"policy_loss": "gmpo"}, **SPEED),
    Claim("vespo", SETTING, TASK, PASSES, {"policy_loss": "vespo"}, "?", **SPEED),
    Claim("vespo", OTHER, RARE, PASSES, {"policy_loss": "vespo"}, "?", **SPEED),
    Claim(
        "two-sided clip, delta 4",
        f"{SETTING}; GRPO without dual clip",
        TASK,
        Arm(settings={**FOUR, "dual_clip": None}, steps=15),
        {"policy_loss_options": {"delta": 4.0}},
        "0",
        **SPEED,
        why="no ratio of a wrong answer reaches 4: tried 4 and 16 passes",
    ),
    Claim(
        "dual clip 3",
        f"{SETTING}; GRPO without it",
        TASK,
        Arm(settings={**FOUR, "dual_clip": None}, steps=15),
        {"dual_clip": 3.0},
        "0",
        **SPEED,
        why="no ratio of a wrong answer reaches 3: tried 4 and 16 passes",
    ),
    Claim(
        "two-sided clip, delta 4",
        "the same, 16 passes",
        TASK,
        Arm(settings={"epochs_per_batch": 16, "dual_clip": None}, steps=8),
        {"policy_loss_options": {"delta": 4.0}},
        "0",
        **SPEED,
        why="as above",
    ),
    Claim("dynamic_sampling", "right .02, equal steps", RARE, Arm(steps=15), {"dynamic_sampling": True}, **SPEED),
    Claim(
        "dynamic_sampling",
        "right .02, 5120 rollouts",
        RARE,
        Arm(rollouts=32 * 8 * 20),
        {"dynamic_sampling": True},
        "?",
        why="what is refilled is paid for: its steps are full, but fewer",
    ),
    Claim(
        "dynamic_sampling and success_filter",
        "right .02, equal steps",
        RARE,
        Arm(steps=15),
        {"dynamic_sampling": True, **plugin("success_filter", low=0.01, high=0.99, strict=True)},
        **SPEED,
    ),
]
