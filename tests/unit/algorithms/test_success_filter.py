"""SimpleVLA-RL's filter on the groups of its worked numbers."""

import pytest
import torch
from makers.batches import make_batch

from mmrl.algorithms.advantages import group_stats
from mmrl.algorithms.hooks import load_plugin
from mmrl.errors import ConfigError

NAN = float("nan")


def kept(rewards, *, gid=None, options=None, **columns):
    batch = make_batch([1] * len(rewards), gid=gid, rewards=rewards, **columns)
    keep = load_plugin("success_filter", options=options).hooks["keep"]
    return keep(batch, torch.tensor(rewards, dtype=torch.float64)).tolist()


@pytest.mark.parametrize(("successes", "keeps"), [(0, False), (1, True), (2, True), (4, True), (7, True), (8, False)])
def test_groups_of_eight(successes, keeps):
    assert kept([1.0] * successes + [0.0] * (8 - successes)) == [keeps] * 8


@pytest.mark.parametrize(
    ("successes", "advantages"), [(2, (1.6202, -0.5401)), (4, (0.9354, -0.9354)), (7, (0.3536, -2.4749))]
)
def test_the_worked_advantages(successes, advantages):
    rewards = torch.tensor([1.0] * successes + [0.0] * (8 - successes), dtype=torch.float64)
    stats = group_stats(rewards, torch.zeros(8, dtype=torch.int64))
    found = (rewards - stats.mean_N) / (stats.std_N + 1e-6)
    assert (round(found[0].item(), 4), round(found[-1].item(), 4)) == pytest.approx(advantages, abs=1e-4)


def test_groups_are_judged_apart_and_unscored_rows_left_out():
    assert kept([1, 1, 0, NAN], gid=[0, 0, 1, 1]) == [False] * 4
    assert kept([1, 0, 1, NAN], gid=[0, 0, 1, 1]) == [True, True, False, False]
    assert kept([NAN, NAN]) == [False, False]


def test_success_can_be_a_part_and_bounds_are_options():
    columns = {
        "reward_names": ("r", "success"),
        "rewards_NK": torch.tensor([[5.0, 1.0], [0.2, 0.0]]),
        "weights_NK": torch.tensor([1.0, 0.0]),
    }
    assert kept([5.0, 0.2], options={"success": "success"}, **columns) == [True, True]
    assert kept([5.0, 0.2]) == [False, False]
    assert kept([1.0, 0.0], options={"low": 0.6, "high": 1.0}) == [False, False]
    with pytest.raises(ConfigError, match=r"low \(0.9\) must not be above high \(0.1\)"):
        load_plugin("success_filter", options={"low": 0.9, "high": 0.1})
