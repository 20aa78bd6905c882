"""Self-play: verdicts on a pair in both orders, and questions that the policy asks itself."""

from __future__ import annotations

import re
from collections.abc import Sequence

import torch
from bench.algorithms.claim import Claim, plugin
from bench.algorithms.tabular import Arm, Result, Rows, Task, Tensor, every

from mmrl.data.sample import Sample

PAIRS = 16


def order(rows: Rows) -> Tensor:
    """A is right, token 0, for three of four pairs as the dataset has them; of a pair in the other order B."""
    a_is_right_N = (rows.prompt_N % PAIRS % 4 < 3) == (rows.prompt_N < PAIRS)
    return (rows.ids_NC[:, 0] == torch.where(a_is_right_N, 0, 1)).float()


def twin(sample: Sample) -> int:
    """The pair in the other order stands behind the pairs in the table."""
    found = PAIRS + int(sample.sample_id.removesuffix("~twin"))
    assert sample.answer == ("B" if found % 4 < 3 else "A")
    return found


def both_orders(result: Result) -> float:
    """Pairs that are judged rightly in both orders, by two verdicts."""
    rows = every(result.policy.own.shape)
    with torch.no_grad():
        chance_N = result.policy.logprobs(rows).sum(1).exp() * order(rows)
    right_P = torch.zeros(2 * PAIRS).index_add(0, rows.prompt_N, chance_N)
    return (right_P[:PAIRS] * right_P[PAIRS:]).mean().item()


def pairs(common: bool) -> Task:
    return Task(
        lambda generator: 0.5 * torch.randn(2 * PAIRS, 1, 2, 2, generator=generator),
        order,
        common=common,
        questions=PAIRS,
        asked=twin,
        of_prompt=lambda prompt: {"twin": "B, A", "twin_answer": "B" if prompt % 4 < 3 else "A"},
    )


DOCUMENTS, LETTERS = 8, 4
ASKED = DOCUMENTS
JUDGED = ASKED + DOCUMENTS * LETTERS**2


def question(ids: Sequence[int]) -> str:
    """A question by its letter, an answer, and a verdict: each role is read for its own."""
    asked, answer = "abcd"[ids[0]], "abcd"[ids[1]]
    return f"<question>{asked}</question> <answer>{answer}</answer> {'Yes' if ids[0] == 0 else 'No'}"


def role(sample: Sample) -> int:
    """A question by its document, its letter and the answer that its asker holds; a verdict by two answers."""
    document = int(sample.sample_id.split("~")[0])
    text = sample.messages[-1].parts[-1].text
    if "same" in sample.sample_id:
        given = re.findall(r"<answer>(.)</answer>", text)[0]
        held = re.findall(r"Another one is:\n(.)", text)[0]
        return JUDGED + LETTERS * "abcd".index(given) + "abcd".index(held)
    return ASKED + document * LETTERS**2 + LETTERS * "abcd".index(text.strip()) + "abcd".index(str(sample.answer))


def held(rows: Rows) -> Tensor:
    """A responder is right with the answer that the asker holds; all else is worth 1, as any form is."""
    wanted_N = (rows.prompt_N - ASKED) % LETTERS
    is_asked_N = (rows.prompt_N >= ASKED) & (rows.prompt_N < JUDGED)
    return torch.where(is_asked_N, (rows.ids_NC[:, 1] == wanted_N).float(), 1.0)


def difficulties(generator: torch.Generator) -> Tensor:
    """Question a is answered rightly nearly always, b every other time, c and d hardly ever."""
    table = 0.2 * torch.randn(JUDGED + LETTERS**2, 2, LETTERS, LETTERS, generator=generator)
    for prompt in range(ASKED, JUDGED):
        asked, answer = divmod((prompt - ASKED) % LETTERS**2, LETTERS)
        table[prompt, 1, :, answer] += (6.0, 1.1, -4.0, -4.0)[asked]
    return table


def middling(result: Result) -> float:
    """Share of the questions asked that were answered every other time at the start."""
    rows = every(result.policy.own.shape)
    with torch.no_grad():
        chance_N = result.policy.logprobs(rows).sum(1).exp()
    return chance_N[(rows.prompt_N < DOCUMENTS) & (rows.ids_NC[:, 0] == 1)].sum().item() / DOCUMENTS


ASKS = Task(difficulties, held, questions=DOCUMENTS, asked=role, shown=question)
BOTH = {"measure": "pairs judged rightly in both orders", "score": both_orders}
MIDDLE = {"measure": "questions answered every other time", "score": middling}
ONE_SIDED = "16 pairs of which 12 have the right one first"

CLAIMS = [
    Claim(
        "pair_agreement",
        f"{ONE_SIDED}, shared logits",
        pairs(True),
        Arm(steps=20, lr=0.1),
        plugin("pair_agreement"),
        **BOTH,
    ),
    Claim("pair_agreement", f"{ONE_SIDED}, own logits", pairs(False), Arm(steps=20), plugin("pair_agreement"), **BOTH),
    Claim(
        "spell",
        "8 documents; questions answered always, every other time, and never",
        ASKS,
        Arm(steps=10),
        plugin("spell"),
        **MIDDLE,
    ),
    Claim(
        "spell",
        "the same, 40 steps: what was hard at first is learnt",
        ASKS,
        Arm(steps=40),
        plugin("spell"),
        "?",
        **MIDDLE,
    ),
]
