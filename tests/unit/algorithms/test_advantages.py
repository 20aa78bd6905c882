import math
from dataclasses import replace

import pytest
import torch
from makers.batches import make_batch

from mmrl.algorithms.advantages import dr_grpo, group_stats, grpo, rloo
from mmrl.config.schema import AlgorithmSection
from mmrl.errors import PluginError

NAN = math.nan
SETTINGS = AlgorithmSection()


def per_row(estimator, rewards, *, gid=None, eps=1e-6):
    batch = make_batch([2] * len(rewards), gid=gid)
    grid = estimator(torch.tensor(rewards), batch, AlgorithmSection(std_eps=eps))
    assert torch.equal(grid[:, 0], grid[:, 1])
    return grid[:, 0].tolist()


@pytest.mark.parametrize(
    ("estimator", "rewards", "expected"),
    [
        (grpo, [1, 0, 0, 1], [0.8660, -0.8660, -0.8660, 0.8660]),
        (grpo, [1, 0, 0, 0, 0, 0, 0, 0], [2.4749] + [-0.3536] * 7),
        (grpo, [1, 1, 1, 1], [0.0] * 4),
        (dr_grpo, [1, 0, 0, 1], [0.5, -0.5, -0.5, 0.5]),
        (dr_grpo, [1, 0, 0, 0], [0.75, -0.25, -0.25, -0.25]),
        (rloo, [1, 0, 0, 1], [0.6667, -0.6667, -0.6667, 0.6667]),
        (rloo, [3, 1], [2.0, -2.0]),
        (rloo, [1, 0, 0, 0, 0, 0, 0, 0], [1.0] + [-0.1429] * 7),
    ],
)
def test_worked_numbers(estimator, rewards, expected):
    assert per_row(estimator, [float(r) for r in rewards]) == pytest.approx(expected, abs=5e-5)


def test_epsilon_is_a_setting():
    assert per_row(grpo, [1.0, 0.0, 0.0, 1.0], eps=1e-4)[0] == pytest.approx(0.86588, abs=1e-5)


@pytest.mark.parametrize("estimator", [grpo, dr_grpo, rloo])
@pytest.mark.parametrize("reward", [0.1, 1 / 3, -7.7, 1e30])
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_a_constant_group_gets_exactly_zero(estimator, reward, size):  # fault 65; a group of one included
    assert per_row(estimator, [reward] * size) == [0.0] * size


@pytest.mark.parametrize("estimator", [grpo, dr_grpo, rloo])
def test_unscored_rows_stay_out_of_the_statistics(estimator):
    with_nan = per_row(estimator, [1.0, NAN, 0.0, 0.0])
    without = per_row(estimator, [1.0, 0.0, 0.0])
    assert with_nan == pytest.approx([without[0], 0.0, without[1], without[2]])
    assert per_row(estimator, [NAN, NAN]) == [0.0, 0.0]
    assert per_row(estimator, [NAN, 1.0]) == [0.0, 0.0]


def test_binary_group_ratio_is_that_of_the_pass_rate():
    advantage = per_row(grpo, [1.0, 0.0, 0.0, 0.0, 0.0])
    assert advantage[0] / advantage[1] == pytest.approx(-(1 - 0.2) / 0.2, rel=1e-5)


def test_groups_are_those_of_gid_not_of_the_prompt():
    """Two rows of a dataset with the same question, even the same id, are two groups."""
    batch = make_batch([1] * 4, gid=[0, 0, 1, 1])
    same = torch.tensor([1.0, 0.0, 5.0, 3.0])
    batch = replace(batch, prompt_id=("q",) * 4)
    assert dr_grpo(same, batch, SETTINGS)[:, 0].tolist() == [0.5, -0.5, 1.0, -1.0]


def test_an_empty_completion_counts_in_the_group_and_owns_no_cell():
    """Its reward must not land on the last column of the grid (index -1)."""
    batch = make_batch([0, 3, 3])
    grid = dr_grpo(torch.tensor([1.0, 0.0, 0.5]), batch, SETTINGS)
    assert grid.tolist() == [[0.0] * 3, [-0.5] * 3, [0.0] * 3]


def test_token_rewards_are_not_dropped_silently():
    batch = make_batch([1, 1], token_rewards_NC=torch.ones(2, 1))
    with pytest.raises(PluginError, match=r"token_rewards_NC"):
        grpo(torch.tensor([1.0, 0.0]), batch, SETTINGS)


def test_group_stats_of_interleaved_groups():
    stats = group_stats(torch.tensor([1.0, 10.0, 0.0, 30.0]), torch.tensor([7, 3, 7, 3]))
    assert stats.mean_N.tolist() == [0.5, 20.0, 0.5, 20.0]
    assert stats.count_N.tolist() == [2, 2, 2, 2]


def test_stats_show_a_batch_without_signal():  # fault 65: std over the batch 0.58 although every group is constant
    stats = group_stats(torch.tensor([1.0, 1.0, 0.0, 0.0, NAN]), torch.tensor([0, 0, 1, 1, 2]))
    assert stats.constant_N.all()
    assert stats.std_N.tolist() == [0.0] * 5
    assert stats.count_N.tolist() == [2, 2, 2, 2, 0]
