"""FR3E: where a base is taken up again, and what each part of it weighs."""

from dataclasses import replace

import torch
from makers.forked import Engine, batch_of
from makers.plugin_values import plugin


def explored(rows, rewards, entropies, more, **options):
    batch = batch_of(rows, rewards, meta={"rollout_entropy": torch.tensor(entropies).double()})
    engine, used = Engine(more), plugin("fr3e", **options)
    return used.hooks["second_round"](batch, engine), engine, used


def weights(used, batch):
    grid = used.hooks["token_weight"](torch.zeros(batch.mask_NC.shape), batch)
    return [
        [round(v, 4) for v in row[:length]] for row, length in zip(grid.tolist(), batch.length_N.tolist(), strict=True)
    ]


def test_parts_weigh_by_the_gain_of_the_anchor_before_them():
    """The base is worth .5 at its start, its anchors 1, 1 and .5: gains .5, 0, -.5."""
    entropies = [[0.1, 0.9, 0.2, 0.8, 0.7]]
    found, engine, used = explored([[1, 2, 3, 4, 5]], [0.5], entropies, [1.0, 1.0, 0.5], anchors=3, children=1)
    assert [prefix for _, prefix in engine.asked] == [(1,), (1, 2, 3), (1, 2, 3, 4)]
    assert weights(used, found) == [
        [1.0, 0.6065, 0.6065, 1.0, 1.6487],
        [1.0, 0.6065, 0.6065],
        [1.0, 0.6065, 0.6065, 1.0, 1.0],
        [1.0, 0.6065, 0.6065, 1.0, 1.6487, 1.6487],
    ]


def test_four_anchors_of_four_children_are_sixteen_more_of_one_base():
    entropies = [[0.1] * 5] * 3
    found, engine, _ = explored([[n] * 5 for n in (1, 2, 3)], [0.0] * 3, entropies, [])
    assert len(found) == 19 and len(engine.asked) == 16
    assert len({prefix[:1] for _, prefix in engine.asked if prefix}) == 1


def test_a_short_base_has_fewer_anchors_and_unscored_children_weigh_one():
    found, _, used = explored([[7]], [0.5], [[0.3]], [float("nan")], children=1)
    assert weights(used, found) == [[1.0], [1.0, 1.0]]


def test_groups_of_equal_rewards_are_dropped():
    batch = batch_of([[1], [2], [3], [4]], [1.0, 1.0, 0.0, 1.0], gid=[0, 0, 1, 1])
    assert plugin("fr3e").hooks["keep"](batch, batch.rewards_NK[:, 0]).tolist() == [False, False, True, True]


def test_rows_from_elsewhere_weigh_one():
    batch = batch_of([[1, 2]], [1.0])
    batch = replace(batch, meta={"fr3e.weight": torch.tensor([[0.5, float("nan")]])})
    assert weights(plugin("fr3e"), batch) == [[0.5, 1.0]]
