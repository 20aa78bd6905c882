"""The entropy gate: per completion and over the batch."""

import torch
from makers.plugin_values import grid, plugin, scored_batch


def found(rows, **options):
    batch = scored_batch([1.0] * len(rows), lengths=[len(row) for row in rows], entropy_NC=grid(rows))
    weight_NC = plugin("entropy_gate", **options).hooks["token_weight"](torch.ones(batch.mask_NC.shape), batch)
    return [row[: len(given)] for row, given in zip(weight_NC.tolist(), rows, strict=True)]


def test_the_top_fifth_of_a_completion():
    assert found([[0.1, 2.0, 0.5, 3.0, 0.2]]) == [[0, 0, 0, 1, 0]]
    assert found([[0.1, 2.0, 0.5, 3.0, 0.2]], share=1.0) == [[1] * 5]


def test_a_threshold_of_the_batch_may_drop_a_whole_completion():
    rows = [[1.0, 2.0, 3.0, 4.0], [0.1, 0.2, 0.3, 0.4]]
    assert found(rows, share=0.5) == [[0, 0, 1, 1], [0, 0, 1, 1]]
    assert found(rows, share=0.5, scope="batch") == [[1, 1, 1, 1], [0, 0, 0, 0]]


def test_padding_takes_no_part():
    assert found([[5.0], [1.0, 2.0, 3.0, 4.0]], share=0.5) == [[1], [0, 0, 1, 1]]
