"""Methods that ask questions of their own: about the policy's answers, or for the likelihood of a reference.

The prompts of these questions stand behind those of the dataset in the table: one for each answer that may be shown,
or pair of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import torch
from bench.algorithms.claim import Claim, final, over_run, plugin
from bench.algorithms.tabular import Arm, Result, Rows, Task, Tensor, every
from bench.algorithms.tasks import start, target

from mmrl.data.sample import Sample

QUESTIONS, LETTERS = 16, 4
ONE = QUESTIONS * LETTERS
SINGLE, PAIR, MEND = QUESTIONS, QUESTIONS + ONE, QUESTIONS + ONE + ONE * LETTERS
ALL = MEND + ONE


def asked(sample: Sample) -> int:
    """The prompt that a judging sample is: by its question, its kind and the answers it shows."""
    number, kind = sample.sample_id.split("~")
    shown = "".join(re.findall(r"^[a-d]$", sample.messages[-1].parts[-1].text, re.MULTILINE))
    places = ["abcd".index(letter) for letter in shown]
    if kind == "pairwise":
        first, second = places
        found, is_first_right = PAIR + int(number) * LETTERS**2 + LETTERS * first + second, first == 0
        assert sample.answer == ("A" if is_first_right else "B")
        return found
    if kind == "reflection":
        return MEND + int(number) * LETTERS + places[0]
    assert sample.answer in (("Yes", "1") if places[0] == 0 else ("No", "0"))
    return SINGLE + int(number) * LETTERS + places[0]


def first_is_right(rows: Rows) -> Tensor:
    """Of a question, and of one to be mended, token 0; of a judgement Yes or A, token 0, or No or B, token 1."""
    code_N = torch.where(
        rows.prompt_N < PAIR, (rows.prompt_N - SINGLE) % LETTERS, (rows.prompt_N - PAIR) // LETTERS % LETTERS
    )
    is_judged_N = (rows.prompt_N >= SINGLE) & (rows.prompt_N < MEND)
    wanted_N = torch.where(is_judged_N & (code_N != 0), 1, 0)
    return (rows.ids_NC[:, 0] == wanted_N).float()


def letter(ids: Sequence[int]) -> str:
    """An answer is its first token; a judgement of one says so of its only step in its second."""
    return "abcd"[ids[0]]


def verdict(ids: Sequence[int]) -> str:
    """The same of two tokens, as a text of steps too; an answer is read by its first line."""
    return f"Step 1: {'correct' if ids[1] == 0 else 'wrong'}\n{'abcd'[ids[0]]}"


def judges(result: Result) -> float:
    """How often an answer's judgement is right, mean over questions and answers."""
    rows = every(result.policy.own.shape)
    with torch.no_grad():
        chance_N = result.policy.logprobs(rows).sum(1).exp()
    is_single_N = (rows.prompt_N >= SINGLE) & (rows.prompt_N < PAIR)
    return (chance_N * first_is_right(rows))[is_single_N].sum().item() / ONE


def answers(places: int, shown) -> Task:
    return Task(
        lambda generator: 0.5 * torch.randn(ALL, places, LETTERS, LETTERS, generator=generator),
        first_is_right,
        questions=QUESTIONS,
        asked=asked,
        shown=shown,
    )


TEXTS, STEPS = answers(1, letter), answers(2, verdict)
ARM = Arm(steps=30)
JUDGES = {"measure": "answers judged rightly", "score": judges}
SPEED = {"measure": "right, mean over the run", "score": over_run}
ABOUT = "16 questions of 4 answers, and prompts for judging each"


def reference(rate: float):
    """The thought is two tokens; behind a right one the right answer is likely, behind another it is not."""

    def tables(generator: torch.Generator) -> Tensor:
        table = start(rate, places=3)(generator)
        table[:, 2] = 0.3 * torch.randn(table[:, 2].shape, generator=generator)
        table[:, 2, 0, 0] += 2.0
        table[:, 2, 1:, 0] -= 1.0
        return table

    return tables


def concludes(rows: Rows) -> Tensor:
    """The answer is the last token."""
    return (rows.ids_NC[:, 2] == 0).float()


WORDS = {"a</answer>": (0,)}


def thoughts(rate: float) -> Task:
    return Task(reference(rate), concludes, thought=2, words=WORDS)


RLOO = Arm(steps=20, settings={"advantage": "rloo"})
FLOW = plugin("rlfr", warmup_steps=5, lr=0.01, width=8, blocks=1)
STRONG = plugin("rlfr", warmup_steps=5, lr=0.01, width=8, blocks=1, coef=0.1)

MATCHES = (
    "it matches the verifier without having one; that its variance is less does not show, also in groups of 2 and 4"
    " (-.003, -.0003), as an answer of one token adds little chance of its own"
)
STATES = (
    "a table has no hidden states, and its logits say where an answer stands, not whether it is right: the flow finds"
    " nothing that only right answers have"
)
TURNS = "every second step is the verifier's, and nobody teaches the steps of a verdict"

CLAIMS = [
    Claim("spark", ABOUT, TEXTS, ARM, plugin("spark"), **JUDGES),
    Claim("spark", ABOUT, TEXTS, ARM, plugin("spark"), "?", **SPEED),
    Claim("rise", ABOUT, TEXTS, ARM, plugin("rise"), **JUDGES),
    Claim("rise", ABOUT, TEXTS, ARM, plugin("rise"), "?", **SPEED),
    Claim("tango", ABOUT, STEPS, ARM, plugin("tango"), **JUDGES),
    Claim("tango", ABOUT, STEPS, ARM, plugin("tango"), "?", **SPEED, why=TURNS),
    Claim(
        "verifree",
        "a thought of two tokens, right .1; RLOO",
        thoughts(0.1),
        RLOO,
        plugin("verifree"),
        score=final,
        why=MATCHES,
    ),
    Claim("verifree", "the same, .02", thoughts(0.02), RLOO, plugin("verifree"), score=final, why=MATCHES),
    Claim(
        "rlfr",
        "4 tokens, right .02, states are logits",
        Task(start(0.02, places=4), target),
        ARM,
        FLOW,
        **SPEED,
        why=STATES,
    ),
    Claim(
        "rlfr",
        "4 tokens, right .2, states are logits",
        Task(start(0.2, places=4), target),
        ARM,
        FLOW,
        **SPEED,
        why=STATES,
    ),
    Claim(
        "rlfr, coef .1",
        "4 tokens, right .02, states are logits",
        Task(start(0.02, places=4), target),
        ARM,
        STRONG,
        **SPEED,
        why=STATES,
    ),
]
