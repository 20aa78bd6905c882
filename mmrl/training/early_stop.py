"""When a stage has learnt what it will: no score on the held-out rows has been better for a while. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mmrl.config.schema import EarlyStopSection
from mmrl.errors import ConfigError


def should_stop(rule: EarlyStopSection, validations: Sequence[Mapping[str, float]]) -> bool:
    """Whether the last `patience` scores of a stage all fail to beat the best one before by more than `min_delta`.

    A score that is higher by less neither counts as better nor raises the bar, so slow gains add up. NaN is no gain.
    Raises ConfigError for a score that validations do not give.

    >>> rule = EarlyStopSection(score="s", patience=2, min_delta=0.1)
    >>> [should_stop(rule, [{"s": v} for v in s]) for s in ([0.2, 0.5], [0.5, 0.55, 0.5], [0.5, 0.55, 0.61])]
    [False, True, False]
    """
    best, since = float("-inf"), 0
    for metrics in validations:
        if rule.score not in metrics:
            raise ConfigError(f"early_stop.score {rule.score!r} is not measured; validations give {', '.join(metrics)}")
        better = metrics[rule.score] > best + rule.min_delta
        best, since = (metrics[rule.score], 0) if better else (best, since + 1)
    return since >= rule.patience
