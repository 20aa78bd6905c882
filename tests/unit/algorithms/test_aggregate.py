from typing import get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mmrl.algorithms.aggregate import Denominator, Mode, aggregate, count, joined
from mmrl.config.schema import AlgorithmSection

MODES = get_args(Mode)
LOSS = torch.tensor([[1.0, 1.0, 0.0, 0.0], [2.0, 2.0, 2.0, 2.0]])
MASK = torch.tensor([[True, True, False, False], [True] * 4])


def test_the_config_knows_the_same_modes():
    assert get_args(AlgorithmSection.model_fields["aggregation"].annotation) == MODES


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("token-mean", 10 / 6),
        ("seq-mean-token-sum", 5.0),
        ("seq-mean-token-mean", 1.5),
        ("seq-sum-token-sum-norm", 2.5),
        ("seq-mean-token-sum-norm", 1.25),
        ("rank-token-mean", 10 / 6),  # in one process
    ],
)
def test_worked_numbers(mode, expected):
    assert aggregate(LOSS, MASK, mode=mode, denom=count(MASK, length=4)).item() == pytest.approx(expected)


def test_the_two_norm_modes_differ_by_the_number_of_sequences():
    mask = torch.arange(6) < torch.tensor([[2], [6]])
    ones, denom = torch.ones(2, 6), count(torch.arange(6) < torch.tensor([[2], [6]]), length=10)
    assert aggregate(ones, mask, mode="seq-mean-token-sum-norm", denom=denom).item() == pytest.approx(0.4)
    assert aggregate(ones, mask, mode="seq-sum-token-sum-norm", denom=denom).item() == pytest.approx(0.8)


def test_token_mean_over_micro_batches_is_not_the_mean_of_means():
    denom = count(MASK, length=4)
    parts = [aggregate(LOSS[i : i + 1], MASK[i : i + 1], mode="token-mean", denom=denom) for i in (0, 1)]
    assert sum(parts).item() == pytest.approx(1.6667, abs=5e-5)


@pytest.mark.parametrize("mode", MODES)
def test_masked_rows_columns_and_their_nan_change_nothing(mode):
    expected = aggregate(LOSS, MASK, mode=mode, denom=count(MASK, length=4))
    loss = torch.full((4, 7), torch.nan)
    mask = torch.zeros(4, 7, dtype=torch.bool)
    loss[:2, :4], mask[:2, :4] = torch.where(MASK, LOSS, torch.nan), MASK
    assert torch.equal(aggregate(loss, mask, mode=mode, denom=count(mask, length=4)), expected)


@pytest.mark.parametrize("mode", MODES)
def test_nothing_to_learn_from_is_zero(mode):
    mask = torch.zeros(2, 3, dtype=torch.bool)
    assert aggregate(torch.ones(2, 3), mask, mode=mode, denom=count(mask, length=3)).item() == 0.0


@given(
    lengths=st.lists(st.integers(0, 5), min_size=2, max_size=6),
    cut=st.integers(0, 6),
    mode=st.sampled_from(MODES),
    seed=st.integers(0, 99),
)
def test_any_split_gives_the_same_sum_also_over_processes(lengths, cut, mode, seed):
    mask = torch.arange(5) < torch.tensor(lengths)[:, None]
    loss = torch.randn(len(lengths), 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    denom = count(mask, length=5)
    whole = aggregate(loss, mask, mode=mode, denom=denom)
    parts = [slice(0, cut), slice(cut, None)]
    split = sum(aggregate(loss[part], mask[part], mode=mode, denom=denom) for part in parts)
    assert torch.as_tensor(split).item() == pytest.approx(whole.item(), abs=1e-12)
    if mode == "rank-token-mean":
        return  # whose point is that processes count alike
    owns = [count(mask[part], length=5) for part in parts]
    shares = [joined(owns, own=own) for own in owns]
    ranks = [aggregate(loss[part], mask[part], mode=mode, denom=d) for part, d in zip(parts, shares, strict=True)]
    assert torch.stack(ranks).sum().item() == pytest.approx(whole.item(), abs=1e-12)


def test_the_rank_token_mean_is_the_mean_of_the_means_of_processes():
    owns = [count(MASK[i : i + 1], length=4) for i in (0, 1)]
    shares = [
        aggregate(LOSS[i : i + 1], MASK[i : i + 1], mode="rank-token-mean", denom=joined(owns, own=owns[i]))
        for i in (0, 1)
    ]
    assert sum(shares).item() == pytest.approx(1.5)
    idle = count(torch.zeros(1, 4, dtype=torch.bool), length=4)
    assert joined([owns[1], idle], own=owns[1]).ranks == 1


def test_luspo_weighs_the_loss_of_a_sequence_by_its_length():
    loss = torch.tensor([[1.0], [2.0]]).expand(2, 4)
    value = aggregate(loss, MASK, mode="seq-mean-token-sum", denom=count(MASK, length=4))
    assert value.item() == pytest.approx((2 * 1.0 + 4 * 2.0) / 2)


def test_equal_lengths_make_token_mean_and_sequence_mean_equal():
    loss, mask = torch.rand(3, 4), torch.ones(3, 4, dtype=torch.bool)
    denom = count(mask, length=4)
    assert denom == Denominator(tokens=12, sequences=3, length=4, own_tokens=12)
    means = [aggregate(loss, mask, mode=mode, denom=denom) for mode in ("token-mean", "seq-mean-token-mean")]
    torch.testing.assert_close(*means)
