"""SPARK: rollouts become judging and reflection items, so that one model learns to answer, to judge and to mend.

    all answers right   one pointwise item on the first of them
    all wrong           one pointwise item on one by chance
    mixed               with `pointwise` a pointwise item on one by chance, else a pairwise one: a right and a wrong
                        answer in random order
    any wrong           one reflection item: the question with a wrong answer's whole text for prompts of the first half
                        of the batch, with its last line only for those of the second
    of each kind at most `most` a step, by chance

Pointwise items are answered by Yes or No, pairwise ones by A or B; they are prompts of the task `judge_task`, whose
reward compares with these words (`exact_text`). Reflections are prompts of the
question's own task. No label comes from anything but the rewards of the first answers. Every item is a group of its
own with `answers` completions, trained on like any other.

pointwise .3, most 32, answers 8, KL k3 .001, 64 prompts. Source: InternLM/Spark@bc47b93, read in code; the wording of
the items is this project's. Named after the policy-and-reward paper, not the step-level verifier of the same name.

64 prompts, 80% mixed: 35.8 pairwise and 28.2 pointwise items in the mean, at most 32 of each kept.

Shape letters: N completions.
"""

import random
from collections.abc import Callable, Iterator
from typing import Any

import torch

from mmrl.algorithms.made_prompts import extended, judging
from mmrl.algorithms.parts import joined, outcome, rows_of_groups
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.section import NonNegativeInt, PositiveInt, Probability
from mmrl.data.sample import Sample

NEUTRAL: dict[str, Any] = {"most": 0}

POINTWISE = "\n\nAn answer to this was:\n{0}\n\nIs it correct? Answer Yes or No."
PAIRWISE = "\n\nAnswer A:\n{0}\n\nAnswer B:\n{1}\n\nOne of them is correct. Which one? Answer A or B."
REFLECTION = "\n\nA wrong answer to this was:\n{0}\n\nFind what is wrong with it and answer correctly."


class Plugin:
    """judge_task: name of the task of judging items. threshold: the least reward of a right answer."""

    def __init__(
        self,
        *,
        judge_task: str = "judge",
        pointwise: Probability = 0.3,
        most: NonNegativeInt = 32,
        answers: PositiveInt = 8,
        threshold: float = 0.5,
        seed: int = 0,
    ) -> None:
        self._task, self._pointwise, self._most, self._answers = judge_task, pointwise, most, answers
        self._threshold, self._seed = threshold, seed
        self._made = dict.fromkeys(("pointwise", "pairwise", "reflection"), 0)

    def second_round(self, batch: RolloutBatch, generate: Any) -> RolloutBatch:
        if not self._most:
            return batch
        chance = random.Random(f"{self._seed}/{batch.step}/{batch.prompt_id[:1]}")
        kinds: dict[str, list[Sample]] = {name: [] for name in self._made}
        for kind, sample in self._items(batch, generate, chance):
            kinds[kind].append(sample)
        few = {kind: chance.sample(items, min(self._most, len(items))) for kind, items in kinds.items()}
        self._made = {kind: len(items) for kind, items in few.items()}
        samples = [sample for items in few.values() for sample in items]
        more = generate.ask(samples, n=self._answers) if samples else None
        return batch if more is None else joined(batch, more)

    def on_step_end(self, batch: RolloutBatch, rewards_N: torch.Tensor, metrics: dict[str, float]) -> None:
        metrics.update({f"spark/{kind}": float(count) for kind, count in self._made.items()})

    def _items(self, batch: RolloutBatch, generate: Any, chance: random.Random) -> Iterator[tuple[str, Sample]]:
        rewards, groups = outcome(batch).tolist(), rows_of_groups(batch)
        for number, (gid, rows) in enumerate(groups.items()):
            right = [row for row in rows if rewards[row] >= self._threshold]
            wrong = [row for row in rows if rewards[row] < self._threshold and generate.text(batch, row).strip()]
            sample = generate.sample(gid)
            if right or wrong:
                yield self._judging(sample, right, wrong, lambda row: generate.text(batch, row), chance)
            if wrong:
                text = generate.text(batch, chance.choice(wrong)).strip()
                shown = text if 2 * number < len(groups) else text.splitlines()[-1]
                yield "reflection", extended(sample, "reflection", REFLECTION.format(shown))

    def _judging(
        self, sample: Sample, right: list[int], wrong: list[int], text: Callable[[int], str], chance: random.Random
    ) -> tuple[str, Sample]:
        if not right or not wrong or chance.random() < self._pointwise:
            row = right[0] if not wrong else chance.choice([*right, *wrong])
            words, answer = POINTWISE.format(text(row).strip()), "Yes" if row in right else "No"
            return "pointwise", judging(sample, "pointwise", words, task=self._task, answer=answer)
        pair, is_first = [chance.choice(right), chance.choice(wrong)], chance.random() < 0.5
        texts = [text(row).strip() for row in (pair if is_first else pair[::-1])]
        answer = "A" if is_first else "B"
        return "pairwise", judging(sample, "pairwise", PAIRWISE.format(*texts), task=self._task, answer=answer)
