"""Credit within a completion: the column says which token is right, so only wrong tokens are punished."""

import torch
from bench.algorithms.claim import Claim, over_run, plugin
from bench.algorithms.tabular import Arm, Rows, Task, Tensor
from bench.algorithms.tasks import start, steps_column, target

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

CLAIMS = [
    Claim("tempo", "4 tokens, right .02", PLAIN, ARM, plugin("tempo"), **SPEED),
    Claim("tempo", "2 tokens, right .2", SHORT, ARM, plugin("tempo"), **SPEED),
    Claim("blockwise", SETTING, _task("blocks"), ARM, plugin("blockwise"), **SPEED),
    Claim("clip_delta", SETTING, _task("steps"), ARM, plugin("clip_delta"), **SPEED),
    Claim("clip_delta, coef .5", SETTING, _task("steps"), ARM, plugin("clip_delta", coef=0.5), **SPEED),
    Claim("pav", SETTING, Task(RATE, target, columns=values), ARM, plugin("pav"), **SPEED),
    Claim("prime", SETTING, Task(RATE, target, columns=signed("implicit")), ARM, plugin("prime"), **SPEED),
    Claim("span_rewards", SETTING, _task("spans"), ARM, plugin("span_rewards"), **SPEED),
    Claim("spa", SETTING, _task("progress"), ARM, plugin("spa"), **SPEED),
    Claim(
        "spa",
        "the same, right .2",
        Task(start(0.2, places=4), target, columns=steps_column("progress")),
        ARM,
        plugin("spa"),
        **SPEED,
        why="alone it gives a token 1 / 4 at most, where GRPO's one right answer of eight has 2.47; it adds to that",
    ),
    Claim("spa, outcome 1", SETTING, _task("progress"), ARM, plugin("spa", outcome=1.0), **SPEED),
    Claim("srl", SETTING, _task("similarity"), ARM, plugin("srl"), **SPEED),
    Claim("sweet_rl", SETTING, _task("turns"), ARM, plugin("sweet_rl"), **SPEED),
    Claim("rlmec", SETTING, Task(RATE, target, columns=edits), ARM, plugin("rlmec"), **SPEED),
    Claim("oreal", SETTING, Task(RATE, target, columns=signed("scores")), ARM, plugin("oreal"), **SPEED),
    Claim(
        "oreal",
        "the same, right .2",
        Task(start(0.2, places=4), target, columns=signed("scores")),
        ARM,
        plugin("oreal"),
        **SPEED,
        why="it trains on two of eight answers, and clones with weight 1",
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
