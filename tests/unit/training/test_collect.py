"""What a round logs of its rewards: value, shares, failures and seconds of every part, and what shaping changed."""

from collections import defaultdict
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from makers import slow_rewards
from makers.batches import make_batch
from makers.scoring import answered

from mmrl.algorithms.shaping import Shaped
from mmrl.config.schema import RewardsSection
from mmrl.scoring.router import Router
from mmrl.training.collect import log_rollouts, log_shaping
from mmrl.training.metrics import means_over_ranks
from mmrl.training.rollouts import ScoredRollouts

FILE = slow_rewards.__file__


def test_seconds_shares_and_failures_are_logged_per_task_and_part():
    parts = [{"reward": f"{FILE}:score", "name": "length"}, {"reward": "exact_text"}]
    tasks = {"caption": parts, "quiz": parts[:1]}
    samples = [answered("a", task="caption"), answered("x", task="quiz")]
    scores = Router(RewardsSection.model_validate({"workers": 0, "tasks": tasks})).score(
        [(samples[0], ["a", "raise"]), (samples[1], [""])]
    )
    assert (scores.seconds_NK[scores.applies_NK] > 0).all()
    scores = replace(scores, seconds_NK=np.array([[0.25, 1.0], [0.5, 2.0], [4.0, 0.0]]))
    prepared: Any = tuple(SimpleNamespace(sample=sample) for sample in samples)
    values: dict[str, list[float]] = defaultdict(list)
    log_rollouts(
        ScoredRollouts(prepared, (), scores),
        make_batch([2, 3, 1], gid=[0, 0, 1]),
        torch.from_numpy(scores.rewards_N),
        values=values,
    )
    assert {key: numbers for key, numbers in values.items() if key.startswith("perf/")} == {
        "perf/reward_seconds/caption/length": [0.25, 0.5],
        "perf/reward_seconds/caption/exact_text": [1.0, 2.0],
        "perf/reward_seconds/quiz/length": [4.0],
    }
    assert values["reward/errors/caption/length"] == [0.0, 1.0]
    assert values["reward/at_1/caption/length"] == [1.0] and values["reward/at_0/quiz/length"] == [1.0]
    assert values["reward/event/length/raised"] == [1.0]
    assert values["completion/length"] == [2.0, 3.0, 1.0]


def test_what_is_trained_on_is_logged_per_task_with_the_change_of_each_step():
    nan = float("nan")
    batch = make_batch([1] * 4, gid=[0, 0, 1, 1])
    shaped = Shaped(
        torch.tensor([0.5, -1.0, 0.75, nan]),
        changes={
            "overlong_buffer": torch.tensor([-0.5, 0.0, 0.0, nan]),
            "trip_wires": torch.tensor([0.0, -2.0, 0.0, nan]),
        },
    )
    values: dict[str, list[float]] = defaultdict(list)
    log_shaping(batch, shaped, {"s0": "quiz", "s1": "box"}, values=values)
    assert means_over_ranks(values) == {
        "reward_shaped/mean": 0.25 / 3,
        "reward_shaped/task/quiz": -0.25,
        "reward_shaped/task/box": 0.75,
        "reward_shaped/change/quiz/overlong_buffer": -0.25,
        "reward_shaped/change/quiz/trip_wires": -1.0,
        "reward_shaped/change/box/overlong_buffer": 0.0,
        "reward_shaped/change/box/trip_wires": 0.0,
    }


def test_a_run_that_shapes_nothing_logs_nothing_of_it():
    values: dict[str, list[float]] = defaultdict(list)
    log_shaping(make_batch([1]), Shaped(torch.ones(1)), {"s0": "quiz"}, values=values)
    assert values == {}
