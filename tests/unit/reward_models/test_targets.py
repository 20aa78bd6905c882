"""Targets of reward models: the worked numbers of ReWiND, ARM, RL-VLM-F and DrS, and what holds for any input."""

import doctest
import importlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmrl.reward_models.targets import (
    arm_gains,
    arm_reconstruct,
    arm_weights,
    bradley_terry_loss,
    drs_reward,
    preferred_probability,
    rewind_targets,
)

STATES = st.lists(st.sampled_from((-1, 0, 1)), min_size=1, max_size=40)


@pytest.mark.parametrize("module", ["targets", "kinds"])
def test_docstring_examples(module):
    result = doctest.testmod(importlib.import_module(f"mmrl.reward_models.{module}"))
    assert result.attempted > 4 and result.failed == 0


@pytest.mark.parametrize(
    ("start", "end", "rewind", "progress"),
    [
        (0, 6, None, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]),
        (0, 6, 4, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.5, 0.4, 0.3]),
        (4, 8, None, [0.1667, 0.3333, 0.5, 0.6667]),
    ],
)
def test_rewind_targets(start, end, rewind, progress):
    frames, found = rewind_targets(10, start=start, end=end, rewind=rewind)
    assert found == pytest.approx(progress, abs=5e-5)
    assert len(frames) == len(found) and frames[: end - start] == list(range(start, end))


@given(length=st.integers(4, 60), data=st.data())
def test_rewound_progress_belongs_to_its_frame(length, data):
    start = data.draw(st.integers(0, length // 2))
    end = data.draw(st.integers(max(start + 2, length // 2), length))
    rewind = data.draw(st.none() | st.integers(2, end - start))
    frames, progress = rewind_targets(length, start=start, end=end, rewind=rewind)
    assert progress == [(frame - start + 1) / (length - start) for frame in frames]
    assert min(progress) > 0 and max(progress) <= 1


def test_arm_reconstruct():
    states = [1, 1, 0, -1, 1, 1]
    wanted = [0, 1 / 3, 2 / 3, 2 / 3, 1 / 3, 2 / 3, 1]
    assert arm_reconstruct(states, scale=1 / 3) == pytest.approx(wanted)
    assert arm_reconstruct(states) == pytest.approx([0, 1 / 3, 2 / 3, 2 / 3, 1 / 3, 2 / 3, 1])
    with pytest.raises(ValueError, match="a net gain of -1"):
        arm_reconstruct([1, -1, -1])


@given(STATES)
def test_reconstructed_progress_ends_at_one_and_steps_by_its_states(states):
    progress = arm_reconstruct(states, scale=0.25)
    assert progress[-1] == 1.0
    assert np.diff(progress) == pytest.approx(0.25 * np.array(states))


@pytest.mark.parametrize(("ratio", "gain"), [(0.5, 0.1), (1, 0.2), (2, 0.4)])
def test_arm_gains(ratio, gain):
    assert arm_gains([0.1, 0.3, 0.5], horizon=1, length_ratio=ratio) == pytest.approx([gain, gain])
    assert arm_gains([0.1, 0.3, 0.5], horizon=2, length_ratio=ratio) == pytest.approx([2 * gain])


def test_arm_weights():
    assert arm_weights([-0.2, 0, 0.1, 0.2, 0.4]) == pytest.approx([0.125, 0.375, 0.5, 0.625, 0.875])
    weights = arm_weights([0.0] * 9 + [10.0])
    assert weights[:9] == pytest.approx(0.4167, abs=5e-5) and weights[9] == 1.0
    assert arm_weights([0.3, 0.3]) == pytest.approx([0.0, 0.0])  # no spread: nothing to tell apart


@pytest.mark.parametrize(
    ("first", "second", "probability", "loss"),
    [(0, 0, 0.5, 0.6931), (0.2, 0.8, 0.6457, 0.4375), (0.8, 0.2, 0.3543, 1.0375)],
)
def test_bradley_terry_loss(first, second, probability, loss):
    assert preferred_probability(first, second) == pytest.approx(probability, abs=5e-5)
    assert bradley_terry_loss(first, second, label=1) == pytest.approx(loss, abs=5e-5)
    assert bradley_terry_loss(second, first, label=0) == pytest.approx(loss, abs=5e-5)
    assert bradley_terry_loss(-1e4, 1e4, label=0) == pytest.approx(2e4)


@pytest.mark.parametrize(
    ("stage", "value", "reward"),
    [(0, -5, -2.1111), (0, 0, -2), (0, 5, -1.8889), (1, -5, -1.7778), (1, 5, -1.5556), (2, 0, -1.3333), (3, 0, -1)],
)
def test_drs_reward(stage, value, reward):
    assert drs_reward(stage, value, stages=3) == pytest.approx(reward, abs=5e-5)


@given(st.integers(0, 6), st.floats(-50, 50), st.floats(-50, 50))
def test_any_state_of_a_stage_outscores_every_state_before_it(stage, low, high):
    assert drs_reward(stage + 1, low, stages=8) > drs_reward(stage, high, stages=8)
