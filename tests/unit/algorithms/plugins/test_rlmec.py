"""RLMEC: weights by the minimal edit."""

import torch
from makers.plugin_values import plugin, scored_batch, with_spans


def weights(advantage, rows, **options):
    batch = with_spans(scored_batch([0.0], lengths=[sum(t for t, _ in rows)]), "edits", [rows])
    grid = torch.full(batch.mask_NC.shape, advantage)
    return [round(v, 4) for v in plugin("rlmec", **options).hooks["token_weight"](grid, batch)[0].tolist()]


def test_a_wrong_completion_is_taught_where_it_is_mended():
    assert weights(-1.0, [(1, 0.0), (1, 1.0), (1, 0.0)]) == [0.1, 1.0, 0.1]
    assert weights(-1.0, [(1, 0.5), (1, float("nan"))]) == [0.55, 0.1]
    assert weights(-1.0, [(2, 0.0)], rest=1.0) == [1.0, 1.0]


def test_a_right_one_and_one_without_an_edit_are_left_alone():
    assert weights(0.7, [(1, 0.0), (1, 1.0)]) == [1.0, 1.0]
    assert weights(-1.0, [(2, float("nan"))]) == [1.0, 1.0]
