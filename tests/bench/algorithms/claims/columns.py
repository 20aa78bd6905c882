"""Methods that read a score of their own beside the outcome."""

import torch
from bench.algorithms.claim import Claim, plugin
from bench.algorithms.tabular import Arm, Result, Rows, Task, Tensor
from bench.algorithms.tasks import entropy, expected, first, start, target, uniform

ARM = Arm(steps=40)


def confidence(rows: Rows) -> Tensor:
    """The second token says how sure the answer is: 0, 1/3, 2/3 or 1."""
    return rows.ids_NC[:, 1].double() / 3


def brier(result: Result) -> float:
    return expected(result, lambda rows: (confidence(rows) - first(rows)) ** 2)


def second(token: int):
    """Share of answers whose second token is this."""
    return lambda result: expected(result, lambda rows: (rows.ids_NC[:, 1] == token).double())


def calls(result: Result) -> float:
    """Tool calls of an answer, two for each step of its second token."""
    return expected(result, lambda rows: 2.0 * rows.ids_NC[:, 1])


def tools(benefit: float):
    def parts(rows: Rows, true_N: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        return {"tool_calls": 2.0 * rows.ids_NC[:, 1], "tool_benefit": torch.full((len(true_N),), benefit)}

    return parts


def tricked(rows: Rows, true_N: Tensor, generator: torch.Generator) -> Tensor:
    """The verifier passes the right answer and every answer that begins with token 1."""
    return torch.maximum(true_N, (rows.ids_NC[:, 0] == 1).float())


def majority(rows: Rows, true_N: Tensor, generator: torch.Generator) -> Tensor:
    """1 for the answer, a second token, that most of a prompt's completions give (learning without labels)."""
    found_N = torch.zeros(len(true_N))
    for prompt in rows.prompt_N.unique().tolist():
        here_N = rows.prompt_N == prompt
        names, counts = rows.ids_NC[here_N, 1].unique(return_counts=True)
        found_N[here_N] = (rows.ids_NC[here_N, 1] == names[counts.argmax()]).float()
    return found_N


def camps(rows: Rows, true_N: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
    """The answer is the second token; the first is how it was found, new where few of the prompt's others share it."""
    novelty_N = torch.zeros(len(true_N))
    for prompt in rows.prompt_N.unique().tolist():
        here_N = rows.prompt_N == prompt
        way_G = rows.ids_NC[here_N, 0]
        novelty_N[here_N] = 1 - (way_G[:, None] == way_G[None]).float().mean(1)
    return {"answer_class": rows.ids_NC[:, 1].double(), "novelty": novelty_N}


SURE = Task(
    uniform(32, 2),
    first,
    parts=lambda rows, true_N, generator: {"correct": true_N, "confidence": confidence(rows)},
)
THINKS = Task(
    uniform(32, 2), first, parts=lambda rows, true_N, generator: {"thinking": (rows.ids_NC[:, 1] == 0).float()}
)
HELPS, HURTS = Task(uniform(32, 2), first, parts=tools(0.5)), Task(uniform(32, 2), first, parts=tools(-0.4))
TRICKS = Task(
    start(0.2),
    target,
    verdict=tricked,
    parts=lambda rows, true_N, generator: {"trip_first": (rows.ids_NC[:, 0] == 1).float()},
)
UNLABELLED = Task(uniform(32, 2), lambda rows: (rows.ids_NC[:, 1] == 0).float(), verdict=majority, parts=camps)
SAYS = "first token decides, the second is how sure"

CLAIMS = [
    Claim("rlcr", SAYS, SURE, ARM, plugin("rlcr"), "-", measure="Brier score", score=brier),
    Claim(
        "trust_grpo",
        "first token decides, thinking is good where the second is 0",
        THINKS,
        ARM,
        plugin("trust_grpo"),
        measure="good thinking",
        score=second(0),
    ),
    Claim(
        "tool_benefit, +.5",
        "tool calls in the second token, of benefit .5",
        HELPS,
        ARM,
        plugin("tool_benefit"),
        measure="tool calls",
        score=calls,
    ),
    Claim(
        "tool_benefit, -.4",
        "the same, of benefit -.4",
        HURTS,
        ARM,
        plugin("tool_benefit"),
        "-",
        measure="tool calls",
        score=calls,
    ),
    Claim(
        "trip_wires, caught -1",
        "right .2, a trick in the first token passes",
        TRICKS,
        ARM,
        plugin("trip_wires", caught_reward=-1.0),
        measure="truly right",
    ),
    Claim(
        "evol_rl",
        "no labels; GRPO on the majority's answer",
        UNLABELLED,
        ARM,
        plugin("evol_rl"),
        measure="entropy at the end",
        score=entropy,
    ),
]
