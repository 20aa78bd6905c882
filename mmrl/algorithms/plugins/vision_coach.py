"""VisionCoach: hard prompts are asked again with marks on their pictures, and good answers are learnt from.

    hard       the mean reward of a group is below `hard`, and its row says which marks help
    asked      as many completions again of the prompt with the marks drawn and a hint behind the question
    selected   the `most` best of them, if their outcome is above the mean outcome of the group
    loss       policy loss + coef * mean over all selected of their mean -log p per token

Selected answers have no advantage and no part in a group's statistics: their reward is NaN. Their log-probs are of the
prompt with the marks, as in the released code; `prompted` off: of the prompt as it is, so that the marks are not needed
later. The mean over the selected is exact with `aggregation: seq-mean-token-mean`, else in its proportions; they count
in the denominators. `outcome`: the part that judges answers; none: the whole reward.

The column `guide` of a row is {"marks": "darken", "circle" or "numbers", "boxes": [[x1, y1, x2, y2], ..], "space":
"original_px"}: darkened outside of the boxes, boxes circled, frames numbered. Boxes that move are a "track" in place of
"boxes": [{"from": seconds, "boxes": [..]}, ..], each from its time on until the next; a frame with none stays as it is.
In the source a classifier says which prompt helps, offline; without the column a prompt is left alone.

hard 2.21 (of rewards that sum to 7), most 2, coef .1, 4 answers, GSPO, KL .04, lr 1e-6. Source:
daeunni/VisionCoach@335bdd00, read in code; how marks look is this project's, the source's drawing is not released.

Two selected of mean log-prob -1 and -3: the term is .1 * 2 = .2.

Shape letters: N completions, C completion tokens.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from mmrl.algorithms.losses import LossInput, TokenStats
from mmrl.algorithms.parts import drawn_order, joined, outcome, part, rows_of_groups
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.section import NonNegativeFloat, PositiveInt
from mmrl.data.visual_prompts import circled, darkened, each_frame, from_times, numbered
from mmrl.errors import DataError
from mmrl.scoring.geometry import place
from mmrl.training.distributed import sum_over_ranks

NEUTRAL: dict[str, Any] = {"coef": 0.0}
SELECTED = "vision_coach.selected"
MARKS = ("darken", "circle", "numbers")
HINT = "\n\nThe picture is marked to show where to look."


class Plugin:
    """column: of the marks. outcome: a part of the reward; None: the whole."""

    def __init__(
        self,
        *,
        hard: float = 2.21,
        coef: NonNegativeFloat = 0.1,
        most: PositiveInt = 2,
        prompted: bool = True,
        column: str = "guide",
        outcome: str | None = None,
    ) -> None:
        self._hard, self._coef, self._most, self._prompted = hard, coef, most, prompted
        self._column, self._outcome = column, outcome

    def second_round(self, batch: RolloutBatch, generate: Any) -> RolloutBatch:
        if not self._coef:
            return batch
        reward_N, groups = outcome(batch), rows_of_groups(batch)
        asked = {}
        for gid, rows in groups.items():
            guide = generate.sample(gid).columns.get(self._column)
            if guide is not None and reward_N[rows].nanmean() < self._hard:
                frames = _frames(guide, where=generate.sample(gid).where, column=self._column)
                asked[gid] = generate.changed(gid, "guided", text=HINT, frames=frames)
        gids = [gid for gid, prompt in asked.items() if prompt is not None]
        if not gids:
            return batch
        more = generate.others(gids, [asked[gid] for gid in gids], n=max(len(groups[gid]) for gid in gids))
        rows = self._selected(batch, more)
        return joined(batch, self._learnt_from(more.select(torch.tensor(rows)), batch)) if rows else batch

    def columns(
        self, rewards_N: torch.Tensor, advantage_NC: torch.Tensor, batch: RolloutBatch
    ) -> dict[str, torch.Tensor]:
        is_selected_N = self._is_selected(batch)
        selected, rows = sum_over_ranks([float(is_selected_N.sum()), float(len(batch))])
        return {SELECTED: is_selected_N.double() * rows / max(selected, 1.0)}

    def regulariser(self, inputs: LossInput) -> tuple[torch.Tensor, TokenStats]:
        """-log p of the selected, weighted so that the mean over all completions is one over the selected."""
        weight_N1 = inputs.batch.meta[SELECTED].to(inputs.policy_NC)[:, None]
        return -self._coef * weight_N1 * inputs.policy_NC, {"guided": (weight_N1 > 0).expand_as(inputs.policy_NC)}

    def _selected(self, batch: RolloutBatch, more: RolloutBatch) -> list[int]:
        """Rows of `more` that are above the mean of their group, best first, at most so many of each."""
        before_N, after_N = self._judged(batch), self._judged(more)
        mean = {gid: float(before_N[rows].nanmean()) for gid, rows in rows_of_groups(batch).items()}
        chosen = []
        for gid, rows in rows_of_groups(more, drawn_order(more)).items():
            better = [row for row in rows if after_N[row] > mean[gid]]
            chosen += sorted(better, key=lambda row: -float(after_N[row]))[: self._most]
        return chosen

    def _judged(self, batch: RolloutBatch) -> torch.Tensor:
        return outcome(batch) if self._outcome is None else part(batch, self._outcome, option="vision_coach: outcome")

    def _learnt_from(self, rows: RolloutBatch, batch: RolloutBatch) -> RolloutBatch:
        """Rows whose reward is no part of their group's, of the prompt that they are trained with."""
        names = {int(gid): name for gid, name in zip(batch.gid_N, batch.prompt_id, strict=True)}
        own = tuple(names[gid] for gid in rows.gid_N.tolist())
        return replace(
            rows,
            prompt_id=rows.prompt_id if self._prompted else own,
            kind=("recycled",) * len(rows),
            rewards_NK=torch.full_like(rows.rewards_NK, torch.nan),
            combined_N=None if rows.combined_N is None else torch.full_like(rows.combined_N, torch.nan),
            meta={**rows.meta, SELECTED: torch.ones(len(rows), dtype=torch.float64)},
        )

    def _is_selected(self, batch: RolloutBatch) -> torch.Tensor:
        return batch.meta.get(SELECTED, torch.zeros(len(batch))).nan_to_num(nan=0.0) > 0


def _frames(guide: Any, *, where: str, column: str) -> Callable[[Any], torch.Tensor]:
    """From a medium to its marked frames; DataError for a column of another form."""
    guide = guide if isinstance(guide, dict) else {}
    marks, boxes, track = guide.get("marks"), guide.get("boxes", ()), guide.get("track", ())
    if marks not in MARKS or (marks != "numbers" and bool(boxes) == bool(track)):
        raise DataError(
            f"{where}: the column {column!r} must say 'marks', one of {', '.join(MARKS)}, and 'boxes' or 'track'"
        )
    mark = darkened if marks == "darken" else circled

    def placed(entry: Any, boxes: Any) -> list[tuple[float, ...]]:
        space = {"source_space": guide.get("space", "original_px"), "target_space": "model_px", "rounded": False}
        return [place(box, entry, kind="box", **space) for box in boxes]

    def marked(entry: Any) -> torch.Tensor:
        frames_F3HW = entry.frames_F3HW
        if marks == "numbers":
            return numbered(frames_F3HW)
        try:
            if not track:
                return mark(frames_F3HW, placed(entry, boxes))
            begins = [float(part["from"]) for part in track]
            if begins != sorted(begins):
                raise ValueError("the times of a track must rise")
            of_parts = [placed(entry, part["boxes"]) for part in track]
            shown = from_times(begins, entry.timestamps_s or (0.0,) * len(frames_F3HW))
            return each_frame(mark, frames_F3HW, [() if part is None else of_parts[part] for part in shown])
        except (ValueError, TypeError, KeyError) as error:
            raise DataError(f"{where}: the column {column!r} does not fit the medium: {error}") from error

    return marked
