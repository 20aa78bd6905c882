"""What is lost by reading features in the place of pixels: log-probs of both, compared on the first batch of a run.

Shape letters: N sequences, C completion tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mmrl.algorithms.batch import Row
from mmrl.data.feature_cache import FeatureCache
from mmrl.data.rendered import with_pixels
from mmrl.errors import CacheError, MediaError
from mmrl.training import distributed
from mmrl.training.runtime import Runtime
from mmrl.training.step import LogprobSettings, logprob_pass

METRIC = "perf/feature_gap"


def feature_gap(run: Runtime, rows: Sequence[Row], settings: LogprobSettings, *, shape: tuple[int, int]) -> dict:
    """Once a run, with features: the largest difference of a log-prob, over all processes, as a metric.

    Each process compares its first row that shows a medium. Raises CacheError, on all, above `cache.max_feature_gap`.
    Where pixels are no longer there the comparison is left out, which is said. Called by all processes together.
    """
    known, run.feature_gap_known = run.feature_gap_known, True
    if known or not isinstance(run.cache, FeatureCache):
        return {}
    chosen = [row for row in rows if any(medium.features is not None for medium in row.media)][:1]
    pixels, problem = chosen, ""
    try:
        pixels = [replace(row, media=tuple(map(with_pixels, row.media))) for row in chosen]
    except (CacheError, MediaError) as error:
        problem = str(error)
    if problem:
        run.warnings.append(f"features are not compared with pixels: {problem}")
    if distributed.any_rank(problem):
        return {}
    both = [logprob_pass(run.trainer, part, settings=settings, shape=shape)[0] for part in (chosen, pixels)]
    gap = max(distributed.gather_objects(float((both[0] - both[1]).abs().max()) if chosen else 0.0))
    limit = run.config.cache.max_feature_gap
    if gap > limit:
        raise CacheError(
            f"log-probs with cached features differ from those with pixels by {gap:.2g}, above cache.max_feature_gap "
            f"({limit:g}); store more exactly (cache.feature_dtype, now {run.cache.stored}), set cache.level to "
            "pixels, or raise the limit"
        )
    return {METRIC: gap}
