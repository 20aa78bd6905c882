"""SimpleVLA-RL's filter on the groups of its worked numbers."""

import pytest
import torch
from makers.batches import make_batch

from mmrl.algorithms.advantages import group_stats
from mmrl.algorithms.algorithm import build_algorithm
from mmrl.algorithms.hooks import load_plugin
from mmrl.config.schema import AlgorithmSection
from mmrl.errors import ConfigError, MmrlError

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


EASYR1 = {"low": 0.01, "high": 0.99, "strict": True}


def test_the_rule_of_easyr1_keeps_what_dynamic_sampling_does_for_rewards_of_zero_and_one():
    """Accuracies 0, .25, 1 and .75: the second and the fourth; with partial credit the rules differ."""
    rewards = [0.0] * 4 + [1.0, 0.0, 0.0, 0.0] + [1.0] * 4 + [1.0, 1.0, 1.0, 0.0]
    gid = [n // 4 for n in range(16)]
    sampled = build_algorithm(AlgorithmSection(dynamic_sampling=True), max_new_tokens=8)
    batch = make_batch([1] * 16, gid=gid, rewards=rewards)
    expected = [group in (1, 3) for group in gid]
    assert kept(rewards, gid=gid, options=EASYR1) == expected
    assert sampled.keep(batch, torch.tensor(rewards)).tolist() == expected
    assert kept([0.5] * 4, options=EASYR1) == [True] * 4
    assert kept([0.02, 0.0], options=EASYR1) == [False] * 2  # the bounds themselves are outside
    assert kept([0.02, 0.0], options={"low": 0.01}) == [True] * 2
    assert kept([0.98, 1.0], options=EASYR1) == [False] * 2


def test_groups_that_it_drops_are_generated_anew_for_at_most_so_many_rounds():
    options = {"plugins": ("success_filter",), "plugin_options": {"success_filter": EASYR1}}
    section = AlgorithmSection(dynamic_sampling=True, max_generation_rounds=20, **options)
    algorithm = build_algorithm(section, max_new_tokens=8)
    batch = make_batch([1] * 4, gid=[0, 0, 1, 1], rewards=[1.0, 0.99, 1.0, 0.0])
    assert algorithm.refills
    assert algorithm.keep(batch, batch.rewards_NK[:, 0]).tolist() == [False, False, True, True]
    assert algorithm.missing_groups(1, wanted=2, rounds=19) == 1
    with pytest.raises(MmrlError, match="after 20 rounds of generation only 1 of 2 groups"):
        algorithm.missing_groups(1, wanted=2, rounds=20)
