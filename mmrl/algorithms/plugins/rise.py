"""RISE: the policy scores its own answers, and learns from both in the same step.

    item    the question, an answer to it, and the scores there are; right is the score that the answer got
    of all answers of the step at most `most`, by chance; each item is a group of its own with `answers` completions

A reward that is none of the `levels` counts as the nearest one. Items are prompts of the task `judge_task`, whose
reward compares with the score (`numeric`). The items' rows are trained on like any other, so with `gae` this is the
source's PPO, else each item is compared within its group.

most 128, answers 8, levels 0 and 1 (the source's are -1 without a box, -.5 wrong, 1 right, of both kinds of row), KL
.01. Source: 2505.13445 and xyliu-cs/RISE@3837783, whose rewards and numbers were read in code; the wording of the items
is this project's, and so are groups in place of the critic. most 0: GRPO.

levels 0 and 1, rewards [1, .9, .2]: items whose answers are 1, 1 and 0; levels -1, -.5, 1: 1, 1 and -.5 (.2 lies .7
from -.5, .8 from 1).

Shape letters: N completions.
"""

import random
from typing import Any

from mmrl.algorithms.made_prompts import answers_of, judging
from mmrl.algorithms.parts import joined
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.section import NonNegativeInt, PositiveInt
from mmrl.data.sample import Sample
from mmrl.errors import ConfigError

NEUTRAL: dict[str, Any] = {"most": 0}

ITEM = (
    "\n\nAn answer to this was:\n{0}\n\nCheck it step by step, then answer with its score, one of {1}: the lowest is"
    " for a wrong answer, the highest for a right one."
)


class Plugin:
    """judge_task: name of the items' task. levels: the scores an answer can have, rising."""

    def __init__(
        self,
        *,
        judge_task: str = "verify",
        levels: tuple[float, ...] | list[float] = (0.0, 1.0),
        most: NonNegativeInt = 128,
        answers: PositiveInt = 8,
        seed: int = 0,
    ) -> None:
        if len(levels) < 2 or list(levels) != sorted(set(levels)):
            raise ConfigError(f"rise: levels {list(levels)} must be two or more that rise")
        self._task, self._levels, self._most, self._answers = judge_task, tuple(levels), most, answers
        self._seed, self._made = seed, 0

    def second_round(self, batch: RolloutBatch, generate: Any) -> RolloutBatch:
        if not self._most:
            return batch
        chance = random.Random(f"{self._seed}/{batch.step}/{batch.prompt_id[:1]}")
        found, gids = answers_of(batch, generate), batch.gid_N.tolist()
        chosen = sorted(chance.sample(list(found), min(self._most, len(found))))
        items = [self._item(generate.sample(gids[row]), row, *found[row]) for row in chosen]
        self._made = len(items)
        more = generate.ask(items, n=self._answers) if items else None
        return batch if more is None else joined(batch, more)

    def on_step_end(self, batch: RolloutBatch, rewards_N: Any, metrics: dict[str, float]) -> None:
        metrics["rise/items"] = float(self._made)

    def _item(self, sample: Sample, row: int, text: str, reward: float) -> Sample:
        words = ITEM.format(text, ", ".join(f"{level:g}" for level in self._levels))
        nearest = min(self._levels, key=lambda level: abs(level - reward))
        return judging(sample, f"verify{row}", words, task=self._task, answer=f"{nearest:g}")
