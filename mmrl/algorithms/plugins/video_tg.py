"""VideoTG-R1: temporal grounding on clean rows, with hard clips made easier at first by masking what lies outside.

    reflection  rows whose column `timestamps` (seconds that another model finds fit the query) has one further than
                `slack` seconds outside the answer's interval are annotated in part only, and are never drawn
    hard        1 - the column `easiness` (mean temporal IoU of the model before training, `mmrl rate`'s mean_score) is
                at least `hard_from`
    masked      of a hard clip's frames outside the interval the share mask * max(0, 1 - progress / relaxed_at),
                rounded, black; which ones is decided by chance once a row, so that frames only come back. Frames inside
                the interval are never masked, and times stay as they are

mask .8, relaxed_at .5 of 1000 steps: .8 at step 0, .4 at 250, 0 from 500 on. Answer [10, 18], slack 1: 21.5 drops
the row, 18.6 does not.

Source: the abstract (2510.23397) and third parties; its repository is not public. Schedule, thresholds and black in
place of dropped frames are guesses. mask 0 without `timestamps` is GRPO.
"""

import random
from typing import Any

import numpy as np
import torch

from mmrl.config.section import NonNegativeFloat, Probability
from mmrl.data.pool import Pool
from mmrl.data.rendered import MediaEntry
from mmrl.data.sample import Sample
from mmrl.errors import DataError
from mmrl.scoring.geometry import convert_time

NEUTRAL: dict[str, Any] = {"mask": 0.0}


class Plugin:
    """interval: column with the start and end of the answer in seconds; None: the answer itself."""

    def __init__(
        self,
        *,
        easiness: str = "mean_score",
        interval: str | None = None,
        timestamps: str | None = None,
        hard_from: Probability = 0.7,
        mask: Probability = 0.8,
        relaxed_at: float = 0.5,
        slack: NonNegativeFloat = 1.0,
        seed: int = 0,
    ) -> None:
        self._easiness, self._interval, self._timestamps = easiness, interval, timestamps
        self._hard_from, self._mask, self._relaxed_at = hard_from, mask, relaxed_at
        self._slack, self._seed = slack, seed
        self._pool: Pool | None = None

    def draw(self, pool: Pool, count: int, chance: random.Random) -> list[int]:
        if self._timestamps is None:
            return pool.own_order(count)
        if self._pool is not pool:
            self._clean_R = np.array([self._is_clean(pool.rows[row]) for row in range(len(pool))])
            self._pool = pool
            if not self._clean_R.any():
                raise DataError(f"video_tg: every row has a time in {self._timestamps!r} that lies outside its answer")
        rows: list[int] = []
        while len(rows) < count:
            rows += [row for row in pool.own_order(count - len(rows)) if self._clean_R[row]]
        return rows

    def frames(self, sample: Sample, entry: MediaEntry, progress: float) -> torch.Tensor | None:
        share = self._share(progress)
        easiness = sample.columns.get(self._easiness)
        if not share or entry.kind != "video" or easiness is None or 1 - easiness < self._hard_from:
            return None
        low, high = self._seconds(sample, entry.duration_s)
        outside = [frame for frame, time in enumerate(entry.timestamps_s) if not low <= time <= high]
        random.Random(f"{self._seed}/{sample.prompt_id}").shuffle(outside)
        frames_F3HW = entry.frames_F3HW.clone()
        frames_F3HW[outside[: round(share * len(outside))]] = 0
        return frames_F3HW

    def _share(self, progress: float) -> float:
        return self._mask * max(0.0, 1 - progress / self._relaxed_at) if self._relaxed_at else 0.0

    def _is_clean(self, sample: Sample) -> bool:
        times = sample.columns.get(self._timestamps or "") or ()
        if not isinstance(times, list | tuple) or not all(isinstance(time, int | float) for time in times):
            raise DataError(f"{sample.where}: column {self._timestamps!r} must hold a list of seconds, or null")
        if not times:
            return True
        low, high = self._seconds(sample, None)
        return all(low - self._slack <= time <= high + self._slack for time in times)

    def _seconds(self, sample: Sample, duration_s: float | None) -> tuple[float, float]:
        """The annotated interval. The answer is in seconds as the row has it, in the model's space when it is shown."""
        span = sample.answer if self._interval is None else sample.columns.get(self._interval)
        if not isinstance(span, list | tuple) or len(span) != 2 or not all(isinstance(v, int | float) for v in span):
            where = "the answer" if self._interval is None else f"column {self._interval!r}"
            raise DataError(f"{sample.where}: for video_tg {where} must be a start and an end in seconds, not {span!r}")
        space = "seconds" if self._interval is not None else sample.answer_space or "seconds"
        if space == "seconds":
            return float(span[0]), float(span[1])
        if duration_s is None:
            raise DataError(f"{sample.where}: the answer is in {space!r}; name a column in seconds as `interval`")
        low, high = convert_time(span, space, "seconds", duration_s=duration_s)
        return low, high
