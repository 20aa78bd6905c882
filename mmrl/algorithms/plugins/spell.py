"""SPELL: one policy asks about a picture, answers its questions and verifies the answers; each role has its own reward.

    questioner   a completion that holds a question and its answer (`pattern`); its reward, with s the mean reward of
                 the answers: exp(-(s - .5)^2 / (2 (.5 / 3)^2)) for 0 < s < 1, else 0; -1 where nothing is asked
    responder    `answers` completions of each question, prompts of `answer_task` whose answer is the questioner's;
                 max(the task's reward, 1 if most verdicts are Yes)
    verifier     `verdicts` completions that say Yes or No to an answer beside the questioner's: 1 with the majority, 0
                 against it, -1 for neither; learnt from where .51 to .99 of the verdicts are with the majority, which
                 is what the task's reward says too, and of those groups only `verifier_share`

Of the questions of a step `most` are asked, by chance; a question that is not has no reward. All rows are trained on in
the same step, each group by itself: questions of one picture are compared with each other.

most 16, answers 8, verdicts 8, verifier_share .125. Source: Tongyi-Zhiwen/Qwen-Doc@12489b0 (SPELL, 2509.23863), rewards
and numbers read in code. Different there: one question a prompt, whose rewards are scaled over the batch; longer
documents in the course of training, the questions solved lately in the questioner's prompt, and -.5 for a question that
is answered without the document. The wording is this project's. answers 0: GRPO on the questioner's own task.

s .5, .25, .125, 0, 1: 1, .3247, .0796, 0, 0. Verdicts Yes, Yes, No, ?: majority Yes, 2 of 3 with it; 1, 1, 0, -1.

Shape letters: N completions.
"""

import math
import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from mmrl.algorithms.made_prompts import asking, extended
from mmrl.algorithms.parts import joined, outcome, rows_of_groups
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.section import NonNegativeInt, PositiveInt, Probability
from mmrl.data.sample import Sample

NEUTRAL: dict[str, Any] = {"answers": 0}

PATTERN = r"<question>(.+?)</question>\s*<answer>(.+?)</answer>"
VERIFY = "\n\nOne answer to this is:\n{0}\n\nAnother one is:\n{1}\n\nDo both say the same? Answer Yes or No."
_REWARD = "spell.reward"
_VERDICT = re.compile(r"\b(yes|no)\b", re.IGNORECASE)
_AGREED = (0.51, 0.99)


class Plugin:
    """form: the responder's prompt around {question}. pattern: of two groups, a question and its answer."""

    def __init__(
        self,
        *,
        answer_task: str = "answer",
        judge_task: str = "judge",
        form: str = "{question}",
        pattern: str = PATTERN,
        most: PositiveInt = 16,
        answers: NonNegativeInt = 8,
        verdicts: NonNegativeInt = 8,
        verifier_share: Probability = 0.125,
        threshold: float = 0.5,
        seed: int = 0,
    ) -> None:
        self._tasks, self._form, self._pattern = (answer_task, judge_task), form, re.compile(pattern, re.DOTALL)
        self._most, self._answers, self._verdicts = most, answers, verdicts
        self._share, self._threshold, self._seed = verifier_share, threshold, seed

    def second_round(self, batch: RolloutBatch, generate: Any) -> RolloutBatch:
        if not self._answers:
            return batch
        chance = random.Random(f"{self._seed}/{batch.step}/{batch.prompt_id[:1]}")
        found = {n: m for n in range(len(batch)) if (m := self._pattern.search(generate.text(batch, n))) is not None}
        chosen = sorted(chance.sample(list(found), min(self._most, len(found))))
        gids = batch.gid_N.tolist()
        items = {
            f"{sample.dataset}/{sample.sample_id}": (row, sample)
            for row in chosen
            for sample in [self._question(generate.sample(gids[row]), row, *found[row].groups())]
        }
        answered = generate.ask([sample for _, sample in items.values()], n=self._answers) if items else None
        reward_N = torch.tensor([torch.nan if row in found else -1.0 for row in range(len(batch))], dtype=torch.float64)
        if answered is None:
            return _with(batch, reward_N)
        answer_N, judged = self._judged(answered, items, generate, chance)
        for rows in rows_of_groups(answered).values():
            row, _ = items[answered.prompt_id[rows[0]]]
            reward_N[row] = question_reward(float(answer_N[rows].nanmean()))
        merged = joined(_with(batch, reward_N), _with(answered, answer_N))
        return merged if judged is None else joined(merged, judged)

    def shape_rewards(self, batch: RolloutBatch, rewards_N: torch.Tensor) -> tuple[torch.Tensor, None]:
        if _REWARD not in batch.meta:
            return rewards_N, None
        return batch.meta[_REWARD].to(rewards_N.dtype), None

    def on_step_end(self, batch: RolloutBatch, rewards_N: torch.Tensor, metrics: dict[str, float]) -> None:
        own_N = torch.tensor([kind != "recycled" for kind in batch.kind or ("fresh",) * len(batch)])
        asked_N = rewards_N[own_N & ~rewards_N.isnan()]
        if self._answers and len(asked_N):
            metrics["spell/malformed"] = (asked_N < 0).double().mean().item()
            metrics["spell/questioner"] = asked_N.double().mean().item()

    def _question(self, sample: Sample, row: int, question: str, answer: str) -> Sample:
        words = self._form.replace("{question}", question.strip())
        return asking(sample, f"question{row}", words, task=self._tasks[0], answer=answer.strip())

    def _judged(
        self, answered: RolloutBatch, items: dict[str, tuple[int, Sample]], generate: Any, chance: random.Random
    ) -> tuple[torch.Tensor, RolloutBatch | None]:
        """The rewards of the answers, with the verdicts on them, and the verdicts that are learnt from."""
        answer_N, prompts = outcome(answered).double(), {}
        for row, name in enumerate(answered.prompt_id):
            text = generate.text(answered, row).strip()
            if self._verdicts and text and answer_N[row] == answer_N[row]:
                _, question = items[name]
                asked = extended(question, f"same{row}", VERIFY.format(text, question.answer))
                asked = replace(asked, task=self._tasks[1], answer="Yes")
                prompts[f"{asked.dataset}/{asked.sample_id}"] = (row, asked)
        said = generate.ask([asked for _, asked in prompts.values()], n=self._verdicts) if prompts else None
        if said is None:
            return answer_N, None
        reward_N, groups = torch.zeros(len(said), dtype=torch.float64), []
        for rows in rows_of_groups(said).values():
            row, _ = prompts[said.prompt_id[rows[0]]]
            votes = [vote_of(generate.text(said, n)) for n in rows]
            majority, rewards, agreed = verdict_rewards(votes)
            reward_N[rows] = torch.tensor(rewards, dtype=torch.float64)
            is_right = bool(answer_N[row] >= self._threshold)
            if agreed is not None and _AGREED[0] <= agreed <= _AGREED[1] and bool(majority) == is_right:
                groups.append(rows)
            if majority == 1.0:
                answer_N[row] = max(float(answer_N[row]), 1.0)
        taken = chance.sample(groups, math.ceil(self._share * len(groups)))
        kept = sorted(n for rows in taken for n in rows)
        return answer_N, _with(said, reward_N).select(torch.tensor(kept)) if kept else None


def question_reward(solved: float) -> float:
    """Of the mean reward of the answers to a question; NaN where none is scored."""
    if 0.0 < solved < 1.0:
        return math.exp(-((solved - 0.5) ** 2) / (2 * (0.5 / 3) ** 2))
    return solved if solved != solved else 0.0


def vote_of(text: str) -> float:
    """1 for Yes, 0 for No, -1 where it says neither, or both."""
    words = {word.lower() for word in _VERDICT.findall(text)}
    return {("yes",): 1.0, ("no",): 0.0}.get(tuple(words), -1.0)


def verdict_rewards(votes: Sequence[float]) -> tuple[float, list[float], float | None]:
    """The commonest vote, the reward of each, and the share of Yes and No that is with it; None where it is neither."""
    majority = Counter(votes).most_common(1)[0][0]
    if majority < 0:
        return majority, [-1.0] * len(votes), None
    valid = [vote for vote in votes if vote >= 0]
    return majority, [-1.0 if v < 0 else float(v == majority) for v in votes], valid.count(majority) / len(valid)


def _with(batch: RolloutBatch, reward_N: torch.Tensor) -> RolloutBatch:
    return replace(batch, meta={**batch.meta, _REWARD: reward_N})
