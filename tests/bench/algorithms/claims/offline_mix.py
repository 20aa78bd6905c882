"""Offline-online mixing: where nothing right is sampled, a recorded right answer in the group shows what is."""

from bench.algorithms.claim import Claim, over_run, plugin
from bench.algorithms.tabular import Arm, Task
from bench.algorithms.tasks import start, target

SPEED = {"measure": "right, mean over the run", "score": over_run}
WRITTEN = {"demonstration": [0, 0, 0]}
RARE = Task(start(0.005, places=3), target, of_prompt=lambda prompt: WRITTEN)
MILD = Task(start(0.2, places=3), target, of_prompt=lambda prompt: WRITTEN)
UNLIKELY = Task(start(1e-6, places=3), target, of_prompt=lambda prompt: WRITTEN)
WRONG = Task(start(0.05, places=3), target, of_prompt=lambda prompt: {"demonstration": [1, 1, 1]})
ARM = Arm(steps=20)
SETTING, OTHER = "right .005, a recorded right answer to each", "right .2, a recorded right answer to each"

KNOWN = "where right answers are sampled a recorded one tells nothing new; it raises the mean that fresh ones must pass"

CLAIMS = [
    Claim("offline_mix, shaped", SETTING, RARE, ARM, plugin("offline_mix"), **SPEED),
    Claim("offline_mix, shaped", OTHER, MILD, ARM, plugin("offline_mix"), **SPEED, why=KNOWN),
    Claim("offline_mix, sft", SETTING, RARE, ARM, plugin("offline_mix", correction="sft"), **SPEED),
    Claim("offline_mix, none", SETTING, RARE, ARM, plugin("offline_mix", correction="none"), **SPEED),
    Claim(
        "offline_mix, importance",
        SETTING,
        RARE,
        ARM,
        plugin("offline_mix", correction="importance"),
        "?",
        **SPEED,
    ),
    Claim(
        "offline_mix, shaped",
        "recorded answers of tokens of .01 each; against `importance`, which learns from them by their probability",
        UNLIKELY,
        Arm(steps=40, settings=plugin("offline_mix", correction="importance")),
        plugin("offline_mix"),
        **SPEED,
    ),
    Claim(
        "offline_mix, only_unsolved", OTHER, MILD, ARM, plugin("offline_mix", only_unsolved=True), **SPEED, why=KNOWN
    ),
    Claim(
        "offline_mix, shaped",
        "right .05, the recorded answer is wrong",
        WRONG,
        ARM,
        plugin("offline_mix"),
        "?",
        **SPEED,
    ),
]
