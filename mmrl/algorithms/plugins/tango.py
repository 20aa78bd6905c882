"""Tango: steps in which the policy learns take turns with steps in which the verifier does.

    verdict        the question with one answer to it, to be judged step by step (`Step 2: wrong`) and as a whole
    policy steps   every answer has one verdict, R = r + coef * share of the steps that it calls correct
    verifier steps `most` of the answers, by chance, are judged `answers` times each; only these rows are learnt from,
                   by whether Yes or No agrees with the answer's own reward: no step has a label

Of each `policy_steps` + `verifier_steps` steps the first are the policy's. Verdicts are prompts of the task
`judge_task`, whose reward compares with Yes or No (`exact_text`). A verdict without steps adds nothing. A step in which
no item can be made is the policy's. Dynamic sampling would ask for more groups in verifier steps: leave it off.

coef .5, policy_steps 1, verifier_steps 1, most 32, answers 8. Source: 2505.15034, abstract (rl-tango@ad06fc0 has no
code): two models there, one here that plays both parts; the coefficient, the share and the lengths of the turns are
derived, and the wording is this project's. coef 0 with verifier_steps 0: GRPO.

r = 1, steps correct, correct, wrong, coef .5: 1.3333; r = 0, all of two correct: .5; no step named: r.

Shape letters: N completions.
"""

import random
import re
from dataclasses import replace
from typing import Any

import torch

from mmrl.algorithms.made_prompts import answers_of, judging
from mmrl.algorithms.parts import joined
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.section import NonNegativeFloat, NonNegativeInt, PositiveInt

NEUTRAL: dict[str, Any] = {"coef": 0.0, "verifier_steps": 0}

VERDICT = (
    "\n\nAn answer to this was:\n{0}\n\nJudge each of its steps on a line of its own, as in `Step 1: correct` or"
    " `Step 1: wrong`. Then answer Yes if its result is right, else No."
)
_STEP = re.compile(r"^\W*step\s+\d+\W*:\W*(correct|wrong)\b", re.IGNORECASE | re.MULTILINE)
_COLUMN = "tango_share"


class Plugin:
    """judge_task: name of the task of verdicts. threshold: the least reward of a right answer."""

    def __init__(
        self,
        *,
        judge_task: str = "judge",
        coef: NonNegativeFloat = 0.5,
        policy_steps: PositiveInt = 1,
        verifier_steps: NonNegativeInt = 1,
        most: PositiveInt = 32,
        answers: PositiveInt = 8,
        threshold: float = 0.5,
        seed: int = 0,
    ) -> None:
        self._task, self._coef, self._turns = judge_task, coef, (policy_steps, verifier_steps)
        self._most, self._answers, self._threshold, self._seed = most, answers, threshold, seed

    def second_round(self, batch: RolloutBatch, generate: Any) -> RolloutBatch:
        items = self._items(batch, generate) if self._is_verifiers(batch) or self._coef else {}
        if not self._is_verifiers(batch):
            more = generate.ask(list(items.values()), n=1) if items else None
            return batch if more is None else _with_shares(batch, more, items, generate)
        chance = random.Random(f"{self._seed}/{batch.step}/{batch.prompt_id[:1]}")
        rows = sorted(chance.sample(list(items), min(self._most, len(items))))
        more = generate.ask([items[row] for row in rows], n=self._answers) if rows else None
        return batch if more is None else joined(batch, more)

    def shape_rewards(self, batch: RolloutBatch, rewards_N: torch.Tensor) -> tuple[torch.Tensor, None]:
        if _COLUMN not in batch.meta:
            return rewards_N, None
        return rewards_N + self._coef * batch.meta[_COLUMN].nan_to_num(nan=0.0), None

    def keep(self, batch: RolloutBatch, rewards_N: torch.Tensor) -> torch.Tensor:
        judged_N = torch.tensor([kind == "recycled" for kind in batch.kind or ("fresh",) * len(batch)])
        return judged_N if self._is_verifiers(batch) and judged_N.any() else torch.ones(len(batch), dtype=torch.bool)

    def _is_verifiers(self, batch: RolloutBatch) -> bool:
        return batch.step % sum(self._turns) >= self._turns[0]

    def _items(self, batch: RolloutBatch, generate: Any) -> dict[int, Any]:
        """The prompt of each row that is scored and has a text, by the row."""
        items, gids = {}, batch.gid_N.tolist()
        for row, (text, reward) in answers_of(batch, generate).items():
            answer = "Yes" if reward >= self._threshold else "No"
            sample = generate.sample(gids[row])
            items[row] = judging(sample, f"verdict{row}", VERDICT.format(text), task=self._task, answer=answer)
        return items


def _with_shares(batch: RolloutBatch, verdicts: RolloutBatch, items: dict[int, Any], generate: Any) -> RolloutBatch:
    """The batch with the share of correct steps of each row as a column: NaN without a verdict that names steps."""
    row_of = {f"{item.dataset}/{item.sample_id}": row for row, item in items.items()}
    share_N = torch.full((len(batch),), torch.nan, dtype=torch.float64)
    for verdict, name in enumerate(verdicts.prompt_id):
        if steps := [word.lower() == "correct" for word in _STEP.findall(generate.text(verdicts, verdict))]:
            share_N[row_of[name]] = sum(steps) / len(steps)
    return replace(batch, meta={**batch.meta, _COLUMN: share_N})
