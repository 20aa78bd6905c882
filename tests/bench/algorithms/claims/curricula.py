"""Which prompts and which answers are trained on."""

import torch
from bench.algorithms.claim import Claim, over_run, plugin
from bench.algorithms.claims.coba_rl import MIXED
from bench.algorithms.claims.data_side import CLEAR
from bench.algorithms.tabular import Arm, Rows, Task, Tensor
from bench.algorithms.tasks import start, target


def voted(rows: Rows, true_N: Tensor, generator: torch.Generator) -> Tensor:
    """No verifier: 1 for the answer that most of a prompt's completions give."""
    found_N = torch.zeros(len(true_N))
    code_N = (rows.ids_NC * 8 ** torch.arange(rows.ids_NC.shape[1])).sum(1)
    for prompt in rows.prompt_N.unique().tolist():
        here_N = rows.prompt_N == prompt
        names, counts = code_N[here_N].unique(return_counts=True)
        found_N[here_N] = (code_N[here_N] == names[counts.argmax()]).float()
    return found_N


def sure(generator: torch.Generator) -> Tensor:
    """Half of the prompts answered rightly, half with a wrong answer that comes before the right one."""
    return torch.cat([torch.full((16,), 0.8), torch.full((16,), 0.05)])


SPEED = {"measure": "right, mean over the run", "score": over_run}


def scattered(generator: torch.Generator) -> Tensor:
    """Three quarters solved sometimes, a quarter hardly ever."""
    return torch.cat([torch.full((24,), 0.3), torch.full((8,), 0.01)])


VOTED = Task(start(sure, decoy=2.0), target, verdict=voted, common=True)
VOTED_APART = Task(start(sure, decoy=2.0), target, verdict=voted)
HOPELESS, CENTRED = Task(start(0.005), target), Arm(settings={"advantage": "dr_grpo"}, steps=60)
RARE, COMMON = Task(start(0.05), target), Task(start(0.3), target)
TWO_SORTS, TOGETHER = Task(start(scattered), target), Task(start(scattered), target, common=True)
ARM, SIXTEENS = Arm(steps=20), Arm(group=16, steps=20)
TENS, UNIT_TENS = Arm(group=10, steps=20), Arm(group=10, steps=20, unit=True, lr=0.1)
SOLVED = "with true rewards there is no doubt to be spared: the prompts it is sure of are the solved ones"
WEAKER = (
    "at ratio 1 a replayed answer has .0826 of the gradient of the fresh one whose place it takes: a loss where fresh"
    " right answers come"
)
FIVE = (
    "its reward is the score of five prompts, so chance in the others drowns what an answer was worth; its gain is in"
    " entropy and kinds of right answers, below"
)
STEP_BY_STEP = Arm(steps=20, prompts=16)

CLAIMS = [
    Claim(
        "success_filter",
        "prompts of .98, .3 and .02, groups of 16",
        MIXED,
        SIXTEENS,
        plugin("success_filter"),
        "?",
        **SPEED,
    ),
    Claim(
        "success_filter",
        "prompts .3",
        COMMON,
        ARM,
        plugin("success_filter"),
        "0",
        **SPEED,
        why="of 8 answers every mixed group is between .1 and .9, so that only groups without a signal go",
    ),
    Claim(
        "vi_curl",
        "no verifier, the majority is paid; half right .8, half .05 with a commoner wrong answer; shared logits",
        VOTED,
        Arm(steps=30, lr=0.1),
        plugin("vi_curl"),
        why="the claim is of training without a verifier: what it is sure of is mostly right, and teaches the rest",
    ),
    Claim("vi_curl", "the same, own logits", VOTED_APART, Arm(steps=30), plugin("vi_curl"), "?"),
    Claim(
        "vi_curl",
        "true rewards, prompts of .3 and .01, own logits",
        TWO_SORTS,
        ARM,
        plugin("vi_curl"),
        "?",
        **SPEED,
        why=SOLVED,
    ),
    Claim(
        "vi_curl",
        "true rewards, prompts of .3 and .01 that share logits",
        TOGETHER,
        Arm(steps=20, lr=0.1),
        plugin("vi_curl"),
        **SPEED,
        why=SOLVED,
    ),
    Claim(
        "exgrpo, start 0",
        "prompts .005, `dr_grpo` as in the source",
        HOPELESS,
        CENTRED,
        {"advantage": "dr_grpo", **plugin("exgrpo", start=0.0)},
        seeds=10,
        why="the claim is of rare successes: most groups fail, and one that was found once is seen again",
    ),
    Claim("exgrpo, start 0", "prompts .005", HOPELESS, Arm(steps=60), plugin("exgrpo", start=0.0), seeds=10),
    Claim("exgrpo", "prompts .05", RARE, ARM, plugin("exgrpo"), **SPEED, why=WEAKER),
    Claim("exgrpo, start 0", "prompts .05", RARE, ARM, plugin("exgrpo", start=0.0), **SPEED, why=WEAKER),
    Claim("exgrpo, start 0", "prompts .3", COMMON, ARM, plugin("exgrpo", start=0.0), **SPEED, why=WEAKER),
    Claim(
        "hard_mining",
        "prompts of .98, .3 and .02, half of them a step",
        MIXED,
        STEP_BY_STEP,
        plugin("hard_mining"),
        **SPEED,
    ),
    Claim("hard_mining", "prompts .3, half of them a step", COMMON, STEP_BY_STEP, plugin("hard_mining"), "?", **SPEED),
    Claim(
        "spo_draw",
        "prompts of .9999, .3 and .00001, 12 of 36 a step",
        CLEAR,
        Arm(steps=15, prompts=12),
        plugin("spo_draw"),
        **SPEED,
    ),
    Claim(
        "spo_draw",
        "the same, groups of one; against spo",
        CLEAR,
        Arm(steps=100, prompts=12, group=1, lr=0.3, settings=plugin("spo")),
        {"plugins": ("spo", "spo_draw")},
        **SPEED,
    ),
    Claim(
        "difficulty_bands",
        "prompts of .98, .3 and .02, half of them a step",
        MIXED,
        STEP_BY_STEP,
        plugin("difficulty_bands"),
        **SPEED,
        why="20 steps of 16 of 32 prompts leave little to order; see the column of ratings below",
    ),
    Claim(
        "difficulty_bands",
        "prompts of .3 and .01 that share logits, half of them a step",
        TOGETHER,
        Arm(steps=20, prompts=16, lr=0.1),
        plugin("difficulty_bands"),
        **SPEED,
        why="20 steps of 16 of 32 prompts leave little to order; see the column of ratings below",
    ),
    Claim("risk_po", "prompts of .98, .3 and .02", MIXED, TENS, plugin("risk_po"), **SPEED, why=FIVE),
    Claim("risk_po", "prompts .05", RARE, TENS, plugin("risk_po"), **SPEED, why=FIVE),
    Claim("risk_po", "prompts .05, steps of equal length", RARE, UNIT_TENS, plugin("risk_po"), **SPEED, why=FIVE),
    Claim(
        "risk_po, bundle_std",
        "prompts .05, steps of equal length",
        RARE,
        UNIT_TENS,
        plugin("risk_po", bundle_std=True),
        **SPEED,
        why=FIVE,
    ),
]
