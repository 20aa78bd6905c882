"""VeriFree: no answer is checked; the reward of a thought is how likely it makes the reference answer.

    z  the completion up to and with the last `mark`       y  the row's answer, `close` and the end token, in its place
    p  = exp(sum of the sampling policy's log p(y_t | x, z, y_<t))            the reward; 0 without a mark
    loss = policy loss on z + coef * p * (-log policy) on y

A completion is generated anew with z and y as its forced tokens, so that the engine reports log p(y); the reward of the
reward functions is not used but for completions' logs. Use it with RLOO and without a limit on the ratio, one update a
batch. Where a token crosses the border of z, z's end is tokenized anew. A completion whose z and y are longer than
`rollout.max_new_tokens` gets 0.

coef 1, mark `<answer>`, close `</answer>`, RLOO, n 8, no KL. Source: 2505.21493; sail-sg/VeriFree@718b363 (run.sh:
reward p, supervised weight p), read in code. coef None: GRPO.

log p(y_t) -.5, -.5: p = .3679, loss .1839 on each, gradient -.3679. p = [.8, .4, 0]: RLOO .6, 0, -.6.

Shape letters: N completions, C completion tokens.
"""

from dataclasses import replace
from typing import Any

import torch

from mmrl.algorithms.losses import LossInput, TokenStats
from mmrl.algorithms.parts import joined
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.section import NonNegativeFloat
from mmrl.scoring.gold import gold_text

NEUTRAL: dict[str, Any] = {"coef": None}
_COLUMN = "verifree_reference"


class Plugin:
    """mark: where the thought ends. close: what follows the answer. coef: weight of learning y; None: does nothing."""

    def __init__(
        self, *, mark: str = "<answer>", close: str = "</answer>", coef: NonNegativeFloat | None = 1.0
    ) -> None:
        self._mark, self._close, self._coef = mark, close, coef

    def second_round(self, batch: RolloutBatch, generate: Any) -> RolloutBatch:
        if self._coef is None:
            return batch
        forced: dict[int, tuple[list[int], list[int]]] = {}
        for row, gid in enumerate(batch.gid_N.tolist()):
            thought = None if batch.kind and batch.kind[row] == "recycled" else generate.until(batch, row, self._mark)
            if thought is not None:
                reference = generate.encode(gold_text(generate.sample(gid)) + self._close, ends=True)
                if len(thought) + len(reference) <= generate.most_tokens:
                    forced[row] = (thought, reference)
        if not forced:
            return batch
        prefixes = [((*thought, *reference),) for thought, reference in forced.values()]
        again = generate(batch.gid_N[list(forced)].tolist(), n=1, prefix_ids=prefixes)
        reference_NC = torch.zeros(again.mask_NC.shape)
        for row, (thought, reference) in enumerate(forced.values()):
            reference_NC[row, len(thought) : len(thought) + len(reference)] = 1.0
        again = replace(again, meta={**again.meta, _COLUMN: reference_NC})
        return joined(batch.select(torch.tensor([row not in forced for row in range(len(batch))])), again)

    def shape_rewards(self, batch: RolloutBatch, rewards_N: torch.Tensor) -> tuple[torch.Tensor, None]:
        return (rewards_N if self._coef is None else _likelihood(batch)), None

    def token_weight(self, advantage_NC: torch.Tensor, batch: RolloutBatch) -> torch.Tensor:
        return torch.ones_like(advantage_NC).masked_fill(_reference(batch), 0.0)

    def regulariser(self, inputs: LossInput) -> tuple[torch.Tensor, TokenStats]:
        if self._coef is None:
            return torch.zeros_like(inputs.policy_NC), {}
        weight_N1 = _likelihood(inputs.batch).to(inputs.policy_NC.dtype)[:, None]
        loss_NC = torch.where(_reference(inputs.batch), -weight_N1 * inputs.policy_NC, 0.0)
        return self._coef * loss_NC, {"verifree": loss_NC}


def _reference(batch: RolloutBatch) -> torch.Tensor:
    """(N, C) bool: tokens of the reference answer."""
    if _COLUMN not in batch.meta:
        return torch.zeros_like(batch.mask_NC)
    return batch.mask_NC & (batch.meta[_COLUMN].nan_to_num(nan=0.0) > 0)


def _likelihood(batch: RolloutBatch) -> torch.Tensor:
    """(N,) float64: p of each completion, 0 where it has no reference."""
    reference_NC = _reference(batch)
    sum_N = torch.where(reference_NC, batch.rollout_NC.detach().double(), 0.0).sum(1)
    return torch.where(reference_NC.any(1), sum_N.exp(), 0.0)
