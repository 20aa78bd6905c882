"""Scaf-GRPO: where a whole group fails, the smallest hint that helps makes one right answer, which takes a place.

    no answer reaches `threshold`   hints are tried one after the other, `tries` answers each; the first that is right
                                    takes the place of one failure by chance
    one does, or no hint helps      the group stays as it is

Hints are the column `hints` of the row, a list of texts from the vaguest to the solution (in the source 12: knowledge
1-4, planning 5-8, solution 9-12). One is put behind the question, and its answer is trained on with it there: sampled,
old and trained log-probs are all of the hinted prompt. For the first `start` of the stage's steps there are no hints.

start .15, 8 answers, no KL, lr 1e-6. Source: dvlab-research/Scaf-GRPO@1085db5, read in code; the wording is this
project's. 8 failures give 0; with one right answer in a place A = [2.4749, -.3536, ...].

Shape letters: N completions.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from mmrl.algorithms.parts import drawn_order, joined, outcome, rows_of_groups
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.section import PositiveInt, Probability
from mmrl.errors import DataError

NEUTRAL: dict[str, Any] = {"start": 1.0}
HINT = "\n\nHint: {0}"


class Plugin:
    """column: of the hints. start: the share of steps before the first one."""

    def __init__(
        self,
        *,
        column: str = "hints",
        start: Probability = 0.15,
        tries: PositiveInt = 1,
        threshold: float = 0.5,
    ) -> None:
        self._column, self._start, self._tries, self._threshold = column, start, tries, threshold
        self._helped: list[int] = []

    def second_round(self, batch: RolloutBatch, generate: Any) -> RolloutBatch:
        self._helped = []
        if batch.step < self._start * batch.total_steps:
            return batch
        solved = set(batch.gid_N[outcome(batch) >= self._threshold].tolist())
        hints = {gid: self._hints(generate.sample(gid)) for gid in batch.gid_N.unique().tolist() if gid not in solved}
        for level in range(max(map(len, hints.values()), default=0)):
            asked = {
                gid: generate.changed(gid, f"hint{level + 1}", text=HINT.format(texts[level]))
                for gid, texts in hints.items()
                if level < len(texts)
            }
            gids = [gid for gid, prompt in asked.items() if prompt is not None]
            if not gids:
                continue
            more = generate.others(gids, [asked[gid] for gid in gids], n=self._tries)
            for gid, row in self._right(more).items():
                batch = _exchanged(batch, gid, more.select(torch.tensor([row])))
                del hints[gid]
                self._helped.append(level + 1)
        return batch

    def on_step_end(self, batch: RolloutBatch, rewards_N: torch.Tensor, metrics: dict[str, float]) -> None:
        metrics["scaf_grpo/helped"] = float(len(self._helped))
        if self._helped:
            metrics["scaf_grpo/level"] = sum(self._helped) / len(self._helped)

    def _hints(self, sample: Any) -> Sequence[str]:
        hints = sample.columns.get(self._column) or ()
        if isinstance(hints, str) or not all(isinstance(text, str) for text in hints):
            raise DataError(f"{sample.where}: the column {self._column!r} must be a list of texts, weakest hint first")
        return hints

    def _right(self, more: RolloutBatch) -> dict[int, int]:
        """The first right answer of each group, if any."""
        is_right = (outcome(more) >= self._threshold).tolist()
        rows = {gid: [row for row in rows if is_right[row]] for gid, rows in rows_of_groups(more).items()}
        return {gid: right[0] for gid, right in rows.items() if right}


def _exchanged(batch: RolloutBatch, gid: int, answer: RolloutBatch) -> RolloutBatch:
    """The batch with the answer in place of one row of the group."""
    leaving = next(row for row in drawn_order(batch) if int(batch.gid_N[row]) == gid)
    stays_N = torch.arange(len(batch)) != leaving
    return joined(batch.select(stays_N), replace(answer, gid_N=torch.tensor([gid])))
