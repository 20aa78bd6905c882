"""Rewards of segments: a completion's stretches are judged one by one, by a model or by the policy's own critique.

    v   value of a span, the column `spans`: a segment's reward, or -1 for a stretch that a critique marks as wrong
    centred: A = GRPO on the outcome + coef * (v less its mean over the spans of the group)   segment-level rewards
    marks:   A = GRPO on the outcome + coef * v                                             self-critique's marks
    wrong:   as marks, but a completion with the outcome's advantage above 0 keeps it everywhere

Tokens of no span have the outcome's advantage alone. `marks` is for values around 0, that mean good and bad by
themselves.

coef .5, a guess. Source: this project's common form of segment-level credit (SPO's segments, MA-RLHF's macro actions)
and of critique-marked spans; no single source, so no claim. Spans .8 and .2, mean .5, coef .5: +.15 and -.15; a mark
-1: -.5; coef 0 is GRPO.

Shape letters: N completions, C completion tokens, S spans.
"""

from typing import Any, Literal

import torch

from mmrl.algorithms.advantages import grpo
from mmrl.algorithms.process import centred_in_group, steps_of, with_outcome
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.schema import AlgorithmSection

NEUTRAL: dict[str, Any] = {"coef": 0.0}


class Plugin:
    """spans: name of the column. mode: as above. coef: weight of the spans."""

    def __init__(
        self, *, spans: str = "spans", mode: Literal["centred", "marks", "wrong"] = "centred", coef: float = 0.5
    ) -> None:
        self._spans, self._mode, self._coef = spans, mode, coef

    def advantage(self, rewards_N: torch.Tensor, batch: RolloutBatch, settings: AlgorithmSection) -> torch.Tensor:
        steps = steps_of(batch, self._spans, option="span_rewards' option 'spans'")
        values_NS = steps.values_NS
        if self._mode == "centred":
            values_NS = centred_in_group(values_NS, batch.gid_N)
        found_NC = with_outcome(rewards_N, batch, settings, steps, values_NS, coef=self._coef)
        if self._mode != "wrong":
            return found_NC
        outcome_NC = grpo(rewards_N, batch, settings)
        return torch.where(outcome_NC > 0, outcome_NC, found_NC)
