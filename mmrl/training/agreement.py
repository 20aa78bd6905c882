"""Whether trainer and sampler agree: how far apart their log-probs of the same completion tokens are in a step.

Both mean the distribution after bans and temperature. Where top-k, top-p or min-p are on, the sampler's are of what
these leave, so the distance is no fault of either and has another name.

Shape letters: N sequences (completions), C completion tokens, U of which measured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.schema import RolloutSection
from mmrl.training import distributed


@dataclass(frozen=True, slots=True)
class Gap:
    """One completion token that trainer and sampler see differently. token: its place in the completion, from 0."""

    size: float
    prompt_id: str
    token: int
    token_id: int
    trainer: float
    sampler: float

    def __str__(self) -> str:
        values = f"log-prob {self.trainer:.4f} by the trainer, {self.sampler:.4f} by the sampler"
        return f"{self.prompt_id}: completion token {self.token} (id {self.token_id}): {values}, {self.size:.4g} apart"


class GapMeter:
    """Sums the distances of a step's micro-batches. Rows that were sampled by an earlier policy are left out."""

    def __init__(self, rollout: RolloutSection) -> None:
        is_filtered = rollout.top_k > 0 or rollout.top_p < 1 or rollout.min_p > 0
        self.name = "policy/filtered_gap" if is_filtered else "policy/rollout_gap"
        self._total, self._tokens = 0.0, 0
        self._worst: Gap | None = None

    def add(self, trainer_NC: torch.Tensor, rows: RolloutBatch) -> None:
        """trainer_NC: log-probs before the update of these rows' completion tokens."""
        is_fresh_N = torch.tensor([kind == "fresh" for kind in rows.kind or ("fresh",) * len(rows)])
        mask_NC = rows.mask_NC & (is_fresh_N & (rows.staleness_N == 0))[:, None]
        gap_U = (trainer_NC.detach().cpu().double() - rows.rollout_NC.double()).abs()[mask_NC]
        if not len(gap_U):
            return
        self._total += gap_U.sum().item()
        self._tokens += len(gap_U)
        worst = int(gap_U.nan_to_num(nan=torch.inf).argmax())
        n, c = mask_NC.nonzero()[worst].tolist()
        self._keep(
            Gap(
                size=gap_U[worst].item(),
                prompt_id=rows.prompt_id[n],
                token=c,
                token_id=int(rows.ids_NC[n, c]),
                trainer=trainer_NC[n, c].item(),
                sampler=rows.rollout_NC[n, c].item(),
            )
        )

    def take(self) -> tuple[dict[str, float], Gap | None]:
        """Mean and maximum over the tokens of all ranks since the last call, and the worst token; nothing of none."""
        gathered = distributed.gather_objects((self._total, self._tokens, self._worst))
        self._total, self._tokens, self._worst = 0.0, 0, None
        tokens = sum(count for _, count, _ in gathered)
        for _, _, worst in gathered:
            self._keep(worst)
        worst, self._worst = self._worst, None
        if worst is None:
            return {}, None
        mean = math.fsum(total for total, _, _ in gathered) / tokens
        return {self.name: mean, f"{self.name}_max": worst.size}, worst

    def _keep(self, gap: Gap | None) -> None:
        if gap is not None and (self._worst is None or _rank(gap) > _rank(self._worst)):
            self._worst = gap


def gap_problem(worst: Gap | None, rollout: RolloutSection) -> str | None:
    """What to say of a step's worst token; None where it is within `rollout.max_logprob_gap`. NaN is never within."""
    if rollout.max_logprob_gap is None or worst is None or worst.size <= rollout.max_logprob_gap:
        return None
    remedy = "look at both by tools/compare_logprobs.py, or raise the limit"
    return f"{worst}, more than rollout.max_logprob_gap ({rollout.max_logprob_gap:g}); {remedy}"


def _rank(gap: Gap) -> float:
    return math.inf if math.isnan(gap.size) else gap.size
