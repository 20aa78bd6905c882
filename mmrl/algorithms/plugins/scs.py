"""SCS: an answer is worth more if its beginning leads to the same answer again, from another look at the picture.

    of each completion the first `kept` of its tokens stay; `again` completions go on from there with a picture in noise
    of a level drawn from 1 to `noise` percent; of all are read the choices
    R + 4 coef (again + 1 - distinct choices) / again

The term is at least 4 coef / again and at most 4 coef: with 4 again and coef .3 the source's .3 (5 - distinct), which
with 8 again would pass below 0. It does not ask whether a choice is right; R does, so a wrong answer that is sure stays
below a right one that is not. A text without a choice counts as one more choice: as in the source, texts that all have
none are consistent, hence `none_is_one` (off: each such text is a choice of its own). What is sampled again is scored,
but not trained on.

kept .8 and 4 again with RLOO, .4 and 8 with GRPO; coef .3, noise 40, accuracy 1 and format .5. Source:
GenuineWWD/SCS@7014027, read in code; the even scale for other numbers is this project's.

B,B,B,B: 1.2; B,B,A,C: .6; A,B,C,D: .3. Right, formatted and consistent 2.7, scattered 1.8; wrong and consistent 1.7.

Shape letters: N completions.
"""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.section import NonNegativeFloat, PositiveInt, Probability
from mmrl.data.visual_prompts import noisy
from mmrl.scoring.parse import extract_prediction, parse_choice

NEUTRAL: dict[str, Any] = {"coef": 0.0}
BONUS = "scs.bonus"


class Plugin:
    """kept: share of a completion's tokens. noise: the highest level, in percent of the range of pixels."""

    def __init__(
        self,
        *,
        coef: NonNegativeFloat = 0.3,
        kept: Probability = 0.4,
        again: PositiveInt = 8,
        noise: PositiveInt = 40,
        none_is_one: bool = True,
        seed: int = 0,
    ) -> None:
        self._coef, self._kept, self._again, self._noise = coef, kept, again, noise
        self._none_is_one, self._seed = none_is_one, seed

    def second_round(self, batch: RolloutBatch, generate: Any) -> RolloutBatch:
        if not self._coef:
            return batch
        lengths, gids = batch.length_N.tolist(), batch.gid_N.tolist()
        looks = [self._look(batch, row, generate) for row in range(len(batch))]
        prefixes = [tuple(batch.ids_NC[row, : int(self._kept * lengths[row])].tolist()) for row in range(len(batch))]
        more = generate.others(gids, looks, n=self._again, prefix_ids=[(ids,) * self._again for ids in prefixes])
        choices = [_choice(generate.text(more, row)) for row in range(len(more))]
        of_row = [choices[n * self._again : (n + 1) * self._again] for n in range(len(batch))]
        bonus_N = torch.tensor([self._bonus(of_this) for of_this in of_row], dtype=torch.float64)
        return replace(batch, meta={**batch.meta, BONUS: bonus_N})

    def shape_rewards(self, batch: RolloutBatch, rewards_N: torch.Tensor) -> tuple[torch.Tensor, None]:
        bonus_N = batch.meta.get(BONUS)
        return rewards_N if bonus_N is None else rewards_N + bonus_N.to(rewards_N).nan_to_num(nan=0.0), None

    def on_step_end(self, batch: RolloutBatch, rewards_N: torch.Tensor, metrics: dict[str, float]) -> None:
        if BONUS in batch.meta and len(batch):
            metrics["scs/bonus"] = float(batch.meta[BONUS].nanmean())

    def _look(self, batch: RolloutBatch, row: int, generate: Any) -> Any:
        """The prompt of a row with noise in its pictures: no longer than it was."""
        chance = random.Random(f"{self._seed}/{batch.step}/{batch.prompt_id[row]}/{row}")
        level, seed = chance.randint(1, self._noise) / 100, chance.randrange(2**32)

        def frames(entry: Any) -> torch.Tensor:
            return noisy(entry.frames_F3HW, level, seed=seed)

        return generate.changed(int(batch.gid_N[row]), f"look{row}", frames=frames)

    def _bonus(self, choices: Sequence[str | None]) -> float:
        nothing = list(choices).count(None)
        distinct = len(set(choices)) if self._none_is_one or not nothing else len(set(choices)) - 1 + nothing
        return 4 * self._coef * (self._again + 1 - distinct) / self._again


def _choice(text: str) -> str | None:
    """The letter that a text chooses."""
    return parse_choice(extract_prediction(text, answer="auto") or "")
