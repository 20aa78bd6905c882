import pytest

from mmrl.config.schema import EarlyStopSection
from mmrl.errors import ConfigError
from mmrl.training.early_stop import should_stop


@pytest.mark.parametrize(
    ("patience", "min_delta", "scores", "stops"),
    [
        (2, 0.0, [], False),
        (2, 0.0, [0.5, 0.5], False),
        (2, 0.0, [0.5, 0.5, 0.5], True),
        (2, 0.0, [0.5, 0.4, 0.6, 0.6], False),
        (2, 0.0, [0.5, 0.4, 0.6, 0.6, 0.1], True),
        (2, 0.1, [0.5, 0.55, 0.58], True),
        (2, 0.1, [0.5, 0.58, 0.65], False),  # slow gains add up: 0.65 is measured against 0.5
        (1, 0.0, [0.5, float("nan")], True),
        (3, 0.0, [0.1, 0.0, 0.0], False),
    ],
)
def test_a_stage_stops_after_patience_validations_without_a_better_score(patience, min_delta, scores, stops):
    rule = EarlyStopSection(score="s", patience=patience, min_delta=min_delta)
    assert should_stop(rule, [{"s": score} for score in scores]) is stops


def test_a_score_that_is_not_measured_is_an_error_that_lists_those_that_are():
    rule = EarlyStopSection(score="val/task/x")
    with pytest.raises(ConfigError, match=r"'val/task/x' is not measured; validations give val/mean, val/task/t"):
        should_stop(rule, [{"val/mean": 1.0, "val/task/t": 1.0}])
