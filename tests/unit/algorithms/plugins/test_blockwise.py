"""Blockwise advantages: own reward, own stratum, own tokens."""

import pytest
import torch
from makers.plugin_values import advantages, per_token, plugin, scored_batch, with_spans


def with_blocks(rewards, blocks, lengths):
    return with_spans(scored_batch(rewards, lengths=lengths), "blocks", blocks)


TWO = [[(2, 1.0), (1, 0.9)], [(2, 1.0), (1, 0.2)], [(2, 0.0), (1, 0.6)], [(2, 0.0), (1, 0.1)]]


def found(batch, **options):
    return per_token(advantages(plugin("blockwise", **options), batch), batch)


def test_each_block_against_its_own_kind():
    batch = with_blocks([1, 1, 0, 0], TWO, [3] * 4)
    assert found(batch) == [[0.5, 0.5, 0.35], [0.5, 0.5, -0.35], [-0.5, -0.5, 0.25], [-0.5, -0.5, -0.25]]


def test_the_group_mean_would_keep_the_outcome():
    rows = found(with_blocks([1, 1, 0, 0], TWO, [3] * 4), strata=False)
    assert [row[2] for row in rows] == [0.45, -0.25, 0.15, -0.35]


def test_a_single_stratum_is_the_group_mean_and_one_of_one_completion_has_nothing():
    assert [row[2] for row in found(with_blocks([1, 1, 1, 1], TWO, [3] * 4))] == [0.45, -0.25, 0.15, -0.35]
    assert [row[2] for row in found(with_blocks([1, 0, 0, 0], TWO, [3] * 4))] == [0.0, -0.1, 0.3, -0.2]


def test_a_missing_block_and_tokens_of_no_block_have_nothing():
    batch = with_blocks([1, 1], [[(1, 1.0), (1, 0.5)], [(1, 0.0)]], [3, 2])
    assert found(batch) == [[0.5, 0.0, 0.0], [-0.5, 0.0]]


def test_a_part_is_one_block_dr_grpo():
    batch = scored_batch([1, 0, 0, 0], parts={"blocks": [1.0, 0.0, 0.0, 0.0]}, lengths=[2, 1, 1, 1])
    assert found(batch) == [[0.75, 0.75], [-0.25], [-0.25], [-0.25]]


def test_weights_make_each_block_a_mean_of_its_tokens():
    batch = with_blocks([1, 1, 0, 0], TWO, [3] * 4)
    weight_NC = plugin("blockwise").hooks["token_weight"](torch.zeros(4, 3), batch)
    assert weight_NC.tolist() == [[1.5, 1.5, 3.0]] * 4
    assert (plugin("blockwise", block_mean=False).hooks["token_weight"](torch.zeros(4, 3), batch) == 1).all()


@pytest.mark.parametrize(("q", "c", "wanted"), [(0.9, 1, -0.01), (0.9, 0, -0.81)])
def test_the_reward_of_a_confidence_block(q, c, wanted):
    batch = with_blocks([1, 1], [[(1, 1.0), (1, -((q - c) ** 2))], [(1, 1.0), (1, 0.0)]], [2, 2])
    assert [row[1] for row in found(batch)] == [round(wanted / 2, 4), round(-wanted / 2, 4)]
