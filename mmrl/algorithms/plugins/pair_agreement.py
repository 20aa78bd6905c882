"""Agreement over both orders of a pair: a judge's verdict counts where it is right in either order (J1).

    the prompt of a row with a column `twin` is asked again with that text in place of its last words: the same two
    answers in the other order, as many completions as its group has, scored against the column `twin_answer`
    R = r + coef (min(r, r') - r), r' the reward of the twin's completion of the same number; so for the twin's

With rewards of 0 and 1 and coef 1 both verdicts of a pair have 1 where both are right and 0 elsewhere: a judge that
goes by the place gains nothing. The twins are groups of their own and trained on in the same step. The maker `judge`
writes such rows with `both_orders: false` and `twin: true`. A row without the column keeps its reward.

coef 1. Source: J1 (2505.10320), whose abstract names the mitigation of position bias; that both orders stand in one
batch and that consistency is rewarded where both are right is from memory, which completions are paired is derived.
coef 0: GRPO.

r 1, 1, 0, twin 1, 0, 0: min 1, 0, 0; coef .5: 1, .5, 0 and, for the twin, 1, 0, 0.

Shape letters: N completions.
"""

from dataclasses import replace
from typing import Any

import torch

from mmrl.algorithms.parts import joined, outcome, rows_of_groups
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.section import Probability
from mmrl.data.sample import Sample, TextPart
from mmrl.errors import DataError

NEUTRAL: dict[str, Any] = {"coef": 0.0}
_OTHER = "pair_agreement.other"


class Plugin:
    """twin, answer: names of the columns with the prompt in the other order and its answer."""

    def __init__(self, *, coef: Probability = 1.0, twin: str = "twin", answer: str = "twin_answer") -> None:
        self._coef, self._twin, self._answer = coef, twin, answer

    def second_round(self, batch: RolloutBatch, generate: Any) -> RolloutBatch:
        if not self._coef:
            return batch
        groups, gids = rows_of_groups(batch), {}
        for gid in groups:
            sample = generate.sample(gid)
            if sample.columns.get(self._twin) is not None:
                twin = self._twin_of(sample)
                gids[f"{twin.dataset}/{twin.sample_id}"] = (gid, twin)
        most = max((len(groups[gid]) for gid, _ in gids.values()), default=0)
        more = generate.ask([twin for _, twin in gids.values()], n=most) if gids else None
        if more is None:
            return batch
        own_N, twin_N = outcome(batch).double(), outcome(more).double()
        other_N, of_twin_N = torch.full_like(own_N, torch.nan), torch.full_like(twin_N, torch.nan)
        for twins in rows_of_groups(more).values():
            gid, _ = gids[more.prompt_id[twins[0]]]
            for row, twin in zip(groups[gid], twins, strict=False):
                other_N[row], of_twin_N[twin] = twin_N[twin], own_N[row]
        return joined(_with(batch, other_N), _with(more, of_twin_N))

    def shape_rewards(self, batch: RolloutBatch, rewards_N: torch.Tensor) -> tuple[torch.Tensor, None]:
        if _OTHER not in batch.meta:
            return rewards_N, None
        other_N = batch.meta[_OTHER].to(rewards_N.dtype)
        both_N = torch.minimum(rewards_N, other_N)
        return torch.where(other_N.isnan(), rewards_N, rewards_N + self._coef * (both_N - rewards_N)), None

    def on_step_end(self, batch: RolloutBatch, rewards_N: torch.Tensor, metrics: dict[str, float]) -> None:
        if _OTHER in batch.meta:
            other_N, own_N = batch.meta[_OTHER], outcome(batch).double()
            known_N = ~other_N.isnan() & ~own_N.isnan()
            metrics["pair_agreement/same"] = (own_N == other_N)[known_N].double().mean().nan_to_num().item()

    def _twin_of(self, sample: Sample) -> Sample:
        *before, last = sample.messages
        text, answer = sample.columns[self._twin], sample.columns.get(self._answer)
        if not isinstance(text, str) or not isinstance(answer, str) or not isinstance(last.parts[-1], TextPart):
            raise DataError(
                f"{sample.where}: the columns {self._twin!r} and {self._answer!r} must be texts, and the prompt must"
                " end in words"
            )
        message = replace(last, parts=(*last.parts[:-1], TextPart(text)))
        return replace(sample, sample_id=f"{sample.sample_id}~twin", messages=(*before, message), answer=answer)


def _with(batch: RolloutBatch, other_N: torch.Tensor) -> RolloutBatch:
    return replace(batch, meta={**batch.meta, _OTHER: other_N})
