"""Scores in arrays come back as they were put."""

import math

import pytest

from mmrl.evaluate.kept_scores import KeptScores, Score


def test_scores_come_back_with_their_parts_whatever_these_are_called():
    put = {
        ("a", 0): Score(1.0, {"choice": 1.0}),
        ("a", 1): Score(0.25, {"plan": 0.25, "plan.l2": 3.5}, is_unread=True),
        ("b", 0): Score(0.5, {}),
        ("c", 0): Score(0.0, {"choice": 0.0}),
    }
    kept = KeptScores()
    for place, score in put.items():
        kept[place] = score
    assert dict(kept) == put and len(kept) == 4
    assert ("b", 1) not in kept and ("d", 0) not in kept
    with pytest.raises(KeyError):
        kept["c", 1]


def test_what_could_not_be_scored_stays_nan_and_a_second_score_replaces_the_first():
    kept = KeptScores()
    kept["a", 0] = Score(math.nan, {"judge": math.nan})
    assert math.isnan(kept["a", 0].value) and math.isnan(kept["a", 0].parts["judge"])
    kept["a", 0] = Score(1.0, {"judge": 1.0})
    assert dict(kept) == {("a", 0): Score(1.0, {"judge": 1.0})}
