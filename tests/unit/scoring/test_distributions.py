"""The table of `mmrl score`: one line a part, with numbers worked out by hand."""

import numpy as np
import pytest
from makers import slow_rewards
from makers.scoring import answered

from mmrl.config.schema import RewardsSection
from mmrl.scoring.distributions import distributions, histogram, summary
from mmrl.scoring.router import Router

FILE = slow_rewards.__file__


def scored(tasks, groups):
    with Router(RewardsSection.model_validate({"workers": 0, "tasks": tasks})) as router:
        scores = router.score(groups)
    return [sample.task for sample, completions in groups for _ in completions], scores


def test_a_task_has_a_line_for_its_reward_and_one_a_part():
    parts = [{"reward": "choice"}, {"reward": "format", "weight": 0.5, "is_format": True}]
    tagged = "<think>x</think><answer>B</answer>"
    groups = [(answered("B", task="quiz"), [tagged, "B", "A", "A"])]
    lines = [line.split() for line in summary(*scored({"quiz": parts}, groups)).splitlines()]
    assert [line[:8] for line in lines[1:]] == [
        ["quiz", "(reward)", "0.625", "0.500", "0.250", "0.000", "0.500", "1.350"],
        ["quiz", "choice", "0.500", "0.500", "0.500", "0.000", "0.500", "1.000"],
        ["quiz", "format", "0.250", "0.750", "0.250", "0.000", "0.000", "0.700"],
    ]
    assert all(line[-4:-1] == ["4", "0", "0"] for line in lines[1:])


def test_failures_are_counted_and_named():
    groups = [(answered("x"), ["ok", "raise", "nan"])]
    tasks, scores = scored({"t": [{"reward": f"{FILE}:score"}]}, groups)
    (found,) = distributions(tasks, scores)
    assert (found.errors, found.timeouts, found.scored_N.tolist()) == (2, 0, [2.0])
    assert "score/raised: 1 (first: rows.jsonl:7 (id=s1): task 't'" in summary(tasks, scores)


def test_a_task_without_a_score_has_dashes():
    tasks, scores = scored({"t": [{"reward": f"{FILE}:score"}]}, [(answered("x"), ["raise"])])
    assert summary(tasks, scores).splitlines()[1].split()[:8] == ["t", "score", *["-"] * 6]


@pytest.mark.parametrize(
    ("values", "bars"),
    [([], ""), ([0.0] * 8 + [1.0], "█        ▁"), ([-1.0, 1.0], "█        █"), ([0.05, 0.15, 0.15], "▄█        ")],
)
def test_histogram(values, bars):
    assert histogram(np.array(values)) == bars
