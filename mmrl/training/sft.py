"""Supervised stage: imitate the demonstrations of the dataset, on the same data path as reinforcement learning.

Shape letters: N sequences, C completion tokens.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import torch

from mmrl.algorithms.batch import Row
from mmrl.config.schema import StageSection
from mmrl.data.loader import Loader
from mmrl.data.prepare import Prepared
from mmrl.data.sample import GeometryKind, Sample
from mmrl.data.thoughts import is_dropped, without_thought
from mmrl.errors import DataError
from mmrl.models.packing import group_row
from mmrl.scoring.geometry import format_geometry
from mmrl.training import distributed
from mmrl.training.feature_gap import feature_gap
from mmrl.training.prompts import next_prompts, rank_share
from mmrl.training.runtime import Runtime
from mmrl.training.step import Grids, optimizer_step


class SftStage:
    """Token-mean cross-entropy over the target and the end token.

    The target is the column `demonstration` where a row has one, else the answer; places are in the model's space. With
    `sft.thought_dropout` the thoughts of some rows are empty (mmrl/data/thoughts.py).
    """

    def __init__(self, run: Runtime, section: StageSection, loader: Loader) -> None:
        self.run, self.section, self.loader = run, section, loader
        self.settings = run.logprob_settings(temperature=1.0)

    def step(self, number: int) -> dict[str, float]:
        del number  # the loader knows where it is; nothing here depends on the step
        prepared = next_prompts(self.run, self.section, self.loader, count=rank_share(self.section.prompts_per_step))
        targets = distributed.together(lambda: [self._target_ids(item) for item in prepared])
        [global_tokens] = distributed.sum_over_ranks([sum(map(len, targets))])
        rows = [group_row(p.prompt, [t], [n]) for n, (p, t) in enumerate(zip(prepared, targets, strict=True))]
        longest = max(map(len, targets))
        gap = feature_gap(self.run, rows, self.settings, shape=(len(rows), longest))
        with self.run.watch.time("update"):
            stats = self._update(rows, longest=longest, global_tokens=global_tokens)
        self.run.updated()
        return {**stats, **gap, "tokens": global_tokens}

    def state_dict(self) -> dict[str, Any]:
        return {"loader": self.loader.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.loader.load_state_dict(state["loader"])

    def _update(self, rows: Sequence[Row], *, longest: int, global_tokens: float) -> dict[str, float]:
        def loss(policy_NC: torch.Tensor, sequences: torch.Tensor, extra: Grids) -> tuple[torch.Tensor, dict]:
            del sequences, extra  # cells off the target are 0, so the plain sum is the sum over target tokens
            return -policy_NC.sum() / global_tokens, {}

        return optimizer_step(self.run.trainer, rows, loss, settings=self.settings, num_tokens=longest)

    def _target_ids(self, item: Prepared) -> list[int]:
        """Token ids of the target and the end token; the text is never parsed for special tokens."""
        sample = item.sample
        target = sample.columns.get("demonstration", sample.answer)
        if target is None:
            raise DataError(f"{sample.where}: neither a demonstration nor an answer to imitate")
        text = target_text(target, kind=self.run.geometry_kind(sample.task))
        if self._drops_thought(sample):
            text = without_thought(text)
        return [*self.run.processor.encode_text(text), self.run.processor.eos_ids[0]]

    def _drops_thought(self, sample: Sample) -> bool:
        name = f"{self.run.config.seed}/{self.section.name}/{sample.prompt_id}"
        return is_dropped(name, share=self.section.sft.thought_dropout)


def target_text(target: Any, *, kind: GeometryKind | None) -> str:
    """How a target is written: text as it is, one place as numbers and blanks, several and anything else as JSON.

    >>> target_text("B", kind=None), target_text([3, 1, 6, 5], kind="box"), target_text(4, kind=None)
    ('B', '3 1 6 5', '4')
    """
    if isinstance(target, str):
        return target
    if kind is not None and isinstance(target, list | tuple) and all(isinstance(v, int | float) for v in target):
        return format_geometry(target, kind)
    return json.dumps(target, ensure_ascii=False)
