"""Rows made from rollouts for other roles of one model: it judges, compares, merges and asks. Pure.

    verify      "is this answer right?", labelled by the answer's score: SPELL's verifier, SPARK's pointwise items
    judge       a right and a wrong answer, "which is right?", in both orders: J1 (Whitehouse et al. 2025,
                arXiv:2505.10320); plug-in pair_agreement: a verdict counts that is right in either order
    aggregate   the question with several answers to it, the question's own answer as label: AggLM (Zhao et al. 2025,
                arXiv:2509.06870)
    reflect     the question with a wrong answer to be mended: SPARK
    questions   a completion that holds a question and its answer becomes a row for the responder: SPELL's questioner
                (Yang et al. 2025, arXiv:2509.23863); the plug-in spell trains all three roles, questioner included

SPARK's is from its code (InternLM/Spark@bc47b93), SPELL's roles too (Tongyi-Zhiwen/Qwen-Doc@12489b0). J1 and AggLM have
released none: theirs are from abstracts and summaries. AggLM calls a row hard where most answers are wrong, else easy,
and mixes both; the share of easy ones was not found. The wording of the prompts and the way questions are written are
this project's. No label comes from anything but the rewards of the first answers. A `grpo` stage trains on them; rows
of `verify` and `judge` belong to the task `task`, whose reward compares texts.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

from mmrl.config.section import PositiveInt, Probability
from mmrl.data.rollout_rows import MadeRow, Maker, SampledGroup, correct, damaged_pairs, format_pairs, reward_pairs

VERIFY = "\n\nAn answer to this was:\n{0}\n\nIs it correct? Answer Yes or No."
JUDGE = "\n\nAnswer A:\n{0}\n\nAnswer B:\n{1}\n\nOne of them is correct. Which one? Answer A or B."
AGGREGATE = (
    "\n\nSeveral answers to this were:\n{0}\n\nSome or all may be wrong. Compare them and give the correct answer."
)
REFLECT = "\n\nA wrong answer to this was:\n{0}\n\nFind what is wrong with it and answer correctly."
_QUESTION = re.compile(r"<question>(.+?)</question>\s*<answer>(.+?)</answer>", re.DOTALL)


def verify(
    group: SampledGroup,
    chance: random.Random,
    *,
    task: str = "judge",
    threshold: float = 0.5,
    most: PositiveInt = 1,
    balance: bool = True,
) -> Iterator[MadeRow]:
    """Rows that ask whether one answer is right. balance: as many right ones as wrong ones, `most` of each at most."""
    right, wrong = group.right(threshold), group.wrong(threshold)
    count = min(most, len(right), len(wrong)) if balance else most
    for numbers, answer in ((right, "Yes"), (wrong, "No")):
        for n in chance.sample(numbers, min(count, len(numbers))):
            yield MadeRow(append=VERIFY.format(group.texts[n].strip()), task=task, answer=answer)


def judge(
    group: SampledGroup,
    chance: random.Random,
    *,
    task: str = "judge",
    threshold: float = 0.5,
    most: PositiveInt = 1,
    both_orders: bool = True,
    twin: bool = False,
) -> Iterator[MadeRow]:
    """Rows that ask which of two answers is right. both_orders: each pair twice, so that the place tells nothing.

    twin: the other order stands in the columns `twin` and `twin_answer` of each row: for the plug-in pair_agreement.
    """
    right, wrong = group.right(threshold), group.wrong(threshold)
    count = min(most, len(right), len(wrong))
    for good, bad in zip(chance.sample(right, count), chance.sample(wrong, count), strict=True):
        texts = [group.texts[good].strip(), group.texts[bad].strip()]
        for is_first in (True, False) if both_orders else (chance.random() < 0.5,):
            shown, answers = (texts, "AB") if is_first else (texts[::-1], "BA")
            other = {"twin": JUDGE.format(*shown[::-1]), "twin_answer": answers[1]} if twin else {}
            yield MadeRow(append=JUDGE.format(*shown), task=task, answer=answers[0], columns=other)


def aggregate(
    group: SampledGroup,
    chance: random.Random,
    *,
    candidates: PositiveInt = 4,
    threshold: float = 0.5,
    easy: Probability = 0.5,
) -> Iterator[MadeRow]:
    """One row with `candidates` answers and the question's own answer as label.

    easy: chance of keeping a row where more than half of the answers shown are right, so that voting would do; rows
    without a right answer among them are kept: the answer is then to be found anew.
    """
    said = [n for n, text in enumerate(group.texts) if text.strip() and not group.cut[n]]
    if len(said) < candidates:
        return
    shown = chance.sample(said, candidates)
    is_easy = 2 * len(set(shown) & {*group.right(threshold)}) > candidates
    if is_easy and chance.random() >= easy:
        return
    texts = "\n\n".join(f"Answer {k}:\n{group.texts[n].strip()}" for k, n in enumerate(shown, start=1))
    yield MadeRow(append=AGGREGATE.format(texts))


def reflect(group: SampledGroup, chance: random.Random, *, threshold: float = 0.5) -> Iterator[MadeRow]:
    """One row with a wrong answer by chance, of a question that has one."""
    wrong = group.wrong(threshold)
    if wrong:
        yield MadeRow(append=REFLECT.format(group.texts[chance.choice(wrong)].strip()))


def questions(
    group: SampledGroup,
    chance: random.Random,
    *,
    task: str,
    most: PositiveInt = 1,
    form: str = "{question}",
) -> Iterator[MadeRow]:
    """Rows of the questions that completions hold as <question>...</question><answer>...</answer>, each question once.

    form: the responder's prompt around {question}; the media are those of the questioner's row.
    """
    found = {m[1].strip(): m[2].strip() for m in map(_QUESTION.search, group.texts) if m is not None}
    for question in chance.sample(sorted(found), min(most, len(found))):
        prompt = form.replace("{question}", question)
        yield MadeRow(question=prompt, task=task, answer=found[question])


ROW_MAKERS: dict[str, Maker] = {
    "correct": correct,
    "format_pairs": format_pairs,
    "damaged_pairs": damaged_pairs,
    "reward_pairs": reward_pairs,
    "verify": verify,
    "judge": judge,
    "aggregate": aggregate,
    "reflect": reflect,
    "questions": questions,
}
