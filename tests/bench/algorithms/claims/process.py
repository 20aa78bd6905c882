"""Credit within a completion: the column says which token is right, so only wrong tokens are punished."""

import torch
from bench.algorithms.claim import Claim, over_run, plugin
from bench.algorithms.tabular import Arm, Result, Rows, Task, Tensor
from bench.algorithms.tasks import expected, first, start, steps_column, target, uniform

ARM = Arm(steps=25)
SPEED = {"measure": "right, mean over the run", "score": over_run}
SETTING = "4 tokens, right .02, exact scores of each"
RATE = start(0.02, places=4)


def _task(column: str) -> Task:
    return Task(RATE, target, columns=steps_column(column))


def values(rows: Rows, true_N: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
    """A prover's chance of success after each token: .5 for each that is still to come, 0 after a wrong one."""
    places = rows.ids_NC.shape[1]
    right_NC = (rows.ids_NC == 0).double().cumprod(1)
    value_NC = right_NC * 0.5 ** torch.arange(places - 1, -1, -1)
    return {"values": value_NC, "values.span": torch.arange(places).expand(rows.ids_NC.shape).double()}


def edits(rows: Rows, true_N: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
    column = steps_column("edits")(rows, true_N, generator)
    return {**column, "edits": 1 - column["edits"]}


def signed(name: str):
    """Log-ratios of a reward model: +2 for a right token, -2 for a wrong one."""

    def columns(rows: Rows, true_N: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        column = steps_column(name)(rows, true_N, generator)
        return {**column, name: 4 * column[name] - 2}

    return columns


def guess(rows: Rows, true_N: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
    """The first token is a guess, of value 1 where it is right."""
    value_NC = torch.where(torch.arange(rows.ids_NC.shape[1]) == 0, (rows.ids_NC == 0).double(), torch.nan)
    return {"guess": value_NC, "guess.span": torch.where(value_NC.isnan(), torch.nan, 0.0)}


def lucky(rows: Rows, true_N: Tensor, generator: torch.Generator) -> Tensor:
    """A verifier that sees the last token only."""
    return (rows.ids_NC[:, -1] == 0).float()


def share(rows: Rows, true_N: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
    return {"process": (rows.ids_NC == 0).double().mean(1)}


def roles(rows: Rows, true_N: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
    """Completions of two agents in turn."""
    return {"role": (torch.arange(len(true_N)) % 2).double(), "turn": torch.zeros(len(true_N))}


def unlike_agents(rows: Rows, true_N: Tensor, generator: torch.Generator) -> Tensor:
    """The second agent's rewards are higher by 2, whatever it does."""
    return true_N + 2.0 * (torch.arange(len(true_N)) % 2)


FLAWED = Task(start(0.1, places=3), target, verdict=lucky, parts=share)
AGENTS = Task(start(0.2), target, verdict=unlike_agents, parts=roles)
PLAIN, SHORT = Task(RATE, target), Task(start(0.2), target)


def key(rows: Rows, true_N: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
    """All of the progress is the first token's."""
    column = steps_column("progress")(rows, true_N, generator)
    return {**column, "progress": torch.where(torch.arange(rows.ids_NC.shape[1]) == 0, column["progress"], 0.0)}


def done(rows: Rows, true_N: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
    """Progress, and whether a step could be carried out."""
    column = steps_column("progress")(rows, true_N, generator)
    return {**column, "done": (rows.ids_NC < 2).double(), "done.span": column["progress.span"]}


def carried_out(result: Result) -> float:
    return expected(result, lambda rows: (rows.ids_NC < 2).double().mean(1))


KEY, DONE = Task(uniform(32, 4), first, columns=key), Task(start(0.001, places=4), target, columns=done)
UNIT, WIDE = Arm(steps=25, unit=True, lr=0.1), Arm(steps=25, unit=True, lr=0.2)
SHARED_OUT = (
    "alone it gives a token 1 / 4 at most, where GRPO's one right answer of eight has 2.47; and where all tokens of a"
    " right answer are needed there is nothing to attribute"
)
SCORED = Task(RATE, target, columns=signed("scores"))
SCORED_OFTEN = Task(start(0.2, places=4), target, columns=signed("scores"))
SIXTEENS, TWOS = Arm(steps=25, group=16, unit=True, lr=0.2), Arm(steps=25, group=2)
PAIRED = (
    "of a prompt's answers it trains on one right and one wrong; where all are wrong RLOO is 0, so that the token"
    " scores weigh nothing just where they would be needed"
)

CLAIMS = [
    Claim("tempo", "4 tokens, right .02", PLAIN, ARM, plugin("tempo"), **SPEED),
    Claim("tempo", "2 tokens, right .2", SHORT, ARM, plugin("tempo"), **SPEED),
    Claim("blockwise", SETTING, _task("blocks"), ARM, plugin("blockwise"), **SPEED),
    Claim("clip_delta", SETTING, _task("steps"), ARM, plugin("clip_delta"), **SPEED),
    Claim("clip_delta, coef .5", SETTING, _task("steps"), ARM, plugin("clip_delta", coef=0.5), **SPEED),
    Claim("pav", SETTING, Task(RATE, target, columns=values), ARM, plugin("pav"), **SPEED),
    Claim("prime", SETTING, Task(RATE, target, columns=signed("implicit")), ARM, plugin("prime"), **SPEED),
    Claim("span_rewards", SETTING, _task("spans"), ARM, plugin("span_rewards"), **SPEED),
    Claim(
        "spa",
        "4 tokens of which the first decides; progress says so; steps of equal length",
        KEY,
        UNIT,
        plugin("spa"),
        **SPEED,
        why="the claim is of steps that did not contribute: they get nothing",
    ),
    Claim(
        "spa, coef 4",
        "the same; against dr_grpo",
        KEY,
        Arm(steps=25, settings={"advantage": "dr_grpo"}),
        {"advantage": "grpo", **plugin("spa", coef=4.0)},
        **SPEED,
    ),
    Claim(
        "spa, grounding",
        "4 tokens, right .001, tokens 0 and 1 can be carried out; steps of equal length",
        DONE,
        WIDE,
        plugin("spa", grounding="done"),
        measure="steps that can be carried out",
        score=carried_out,
    ),
    Claim("spa", SETTING, _task("progress"), ARM, plugin("spa"), **SPEED, why=SHARED_OUT),
    Claim(
        "spa",
        "the same, right .2",
        Task(start(0.2, places=4), target, columns=steps_column("progress")),
        ARM,
        plugin("spa"),
        **SPEED,
        why=SHARED_OUT,
    ),
    Claim("spa, outcome 1", SETTING, _task("progress"), ARM, plugin("spa", outcome=1.0), **SPEED),
    Claim("srl", SETTING, _task("similarity"), ARM, plugin("srl"), **SPEED),
    Claim("sweet_rl", SETTING, _task("turns"), ARM, plugin("sweet_rl"), **SPEED),
    Claim("rlmec", SETTING, Task(RATE, target, columns=edits), ARM, plugin("rlmec"), **SPEED),
    Claim("oreal", SETTING, SCORED, ARM, plugin("oreal"), **SPEED, why=PAIRED),
    Claim("oreal", "the same, right .2", SCORED_OFTEN, ARM, plugin("oreal"), **SPEED, why=PAIRED),
    Claim(
        "oreal",
        f"{SETTING}; 16 answers as in the source, steps of equal length",
        SCORED,
        SIXTEENS,
        plugin("oreal"),
        **SPEED,
        why=PAIRED,
    ),
    Claim("oreal", "the same, right .2", SCORED_OFTEN, SIXTEENS, plugin("oreal"), **SPEED, why=PAIRED),
    Claim(
        "oreal",
        "4 tokens, right .02; GRPO is trained on as many answers (2 of 16 a prompt)",
        SCORED,
        TWOS,
        plugin("oreal"),
        "?",
        **SPEED,
        change={"group": 16},
        why="for eight times the rollouts",
    ),
    Claim(
        "gta",
        "4 tokens, right .02, the first is a labelled guess",
        Task(RATE, target, columns=guess),
        ARM,
        plugin("gta"),
        **SPEED,
    ),
    Claim(
        "prof",
        "the verifier sees the last of 3 tokens, the process score all",
        FLAWED,
        ARM,
        plugin("prof"),
        measure="all tokens right",
    ),
    Claim("turn_groups", "two agents whose rewards differ by 2", AGENTS, ARM, plugin("turn_groups"), **SPEED),
]
