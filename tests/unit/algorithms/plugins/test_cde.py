"""CDE's actor part: a bounded bonus for surprise that anneals."""

import pytest
import torch
from makers.plugin_values import plugin, scored_batch, shaped


def found(rewards, surprise, step=0, **options):
    old_NC = -torch.tensor([[s] for s in surprise])
    batch = scored_batch(rewards, old_NC=old_NC, step=step, total_steps=10)
    return shaped(plugin("cde", **options), batch)


def test_the_bonus_is_bounded_by_the_reward():
    assert found([1, 1, 0], [0.3, 2.0, 2.0]) == [1.3, 1.5, 0.0]
    assert found([-1, -1], [0.1, 2.0]) == [-0.9, -0.5]  # a confident error costs more


@pytest.mark.parametrize(("step", "wanted"), [(0, 1.5), (1, 1.5), (2, 1.4), (9, 1.1), (10, 1.0)])
def test_it_falls_in_stairs(step, wanted):
    assert found([1], [2.0], step=step) == [wanted]


def test_half_and_no_weight():
    assert found([1], [2.0], omega=0.5) == [1.25]
    assert found([1], [2.0], omega=0.0) == [1.0]


def test_surprise_is_the_mean_over_tokens():
    batch = scored_batch([1.0], lengths=[2], old_NC=torch.tensor([[-0.1, -0.3]]))
    assert shaped(plugin("cde"), batch) == [1.2]
