"""Benchmarks share the engine: each is at any time done to the same share."""

from hypothesis import given
from hypothesis import strategies as st

from mmrl.evaluate.ahead import interleaved


def test_a_small_benchmark_is_spread_over_a_large_one():
    assert list(interleaved([4, 2])) == [(0, 0), (1, 0), (0, 1), (0, 2), (1, 1), (0, 3)]
    assert list(interleaved([])) == [] and list(interleaved([0, 1])) == [(1, 0)]


@given(st.lists(st.integers(0, 20), max_size=4))
def test_every_question_comes_once_and_shares_stay_close(sizes):
    order = list(interleaved(sizes))
    assert sorted(order) == [(job, place) for job, size in enumerate(sizes) for place in range(size)]
    done = [0] * len(sizes)
    for job, place in order:
        assert place == done[job]
        done[job] += 1
        shares = [d - total * sum(done) / sum(sizes) for d, total in zip(done, sizes, strict=True)]
        assert all(abs(share) <= len(sizes) for share in shares)
