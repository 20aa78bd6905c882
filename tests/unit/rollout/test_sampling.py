"""The sampled distribution, worked by hand and against a plain re-computation; the draw is exact."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mmrl.rollout.sampling import draw, entropy, top_alternatives, transform_logits, uniforms
from mmrl.rollout.types import Sampling

NONE = torch.tensor([], dtype=torch.long)
LOGITS = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log() + 3.0


def probabilities(sampling: Sampling, banned=NONE) -> list[float]:
    return transform_logits(LOGITS, sampling, banned).exp()[0].tolist()


@pytest.mark.parametrize(
    ("sampling", "expected"),
    [
        (Sampling(), [0.5, 0.3, 0.15, 0.05]),
        (Sampling(top_k=2), [0.625, 0.375, 0, 0]),
        (Sampling(top_k=9), [0.5, 0.3, 0.15, 0.05]),
        (Sampling(top_p=0.6), [0.625, 0.375, 0, 0]),
        (Sampling(top_p=0.5), [1, 0, 0, 0]),
        (Sampling(top_p=0.0), [1, 0, 0, 0]),
        (Sampling(min_p=0.4), [0.625, 0.375, 0, 0]),
        (Sampling(min_p=1.0), [1, 0, 0, 0]),
        (Sampling(top_k=3, top_p=0.6), [0.625, 0.375, 0, 0]),  # 0.5 / 0.95 = 0.526 < 0.6
        (Sampling(top_k=2, top_p=0.6), [1, 0, 0, 0]),  # 0.5 / 0.8 = 0.625 >= 0.6
        (Sampling(temperature=0.5), [x / 0.365 for x in (0.25, 0.09, 0.0225, 0.0025)]),
        (Sampling(temperature=0.5, top_p=0.1, greedy=True), [0.5, 0.3, 0.15, 0.05]),
    ],
)
def test_worked_distributions(sampling: Sampling, expected: list[float]):
    assert probabilities(sampling) == pytest.approx(expected, abs=1e-6)


def test_bans_come_before_the_filters():
    assert probabilities(Sampling(top_k=2), torch.tensor([0])) == pytest.approx([0, 2 / 3, 1 / 3, 0])
    assert probabilities(Sampling(greedy=True), torch.tensor([0, 1])) == pytest.approx([0, 0, 0.75, 0.25])


def reference(logits: list[float], sampling: Sampling, banned: set[int]) -> dict[int, float]:
    """The same distribution by sorting a list, in float64."""
    left = {i: z / sampling.temperature for i, z in enumerate(logits) if i not in banned}
    ranked = sorted(left, key=lambda i: -left[i])
    if sampling.top_k:
        ranked = [i for i in ranked if left[i] >= left[ranked[min(sampling.top_k, len(ranked)) - 1]]]
    total = sum(math.exp(left[i]) for i in ranked)
    kept, mass = [], 0.0
    for i in ranked:
        if kept and mass >= sampling.top_p and sampling.top_p < 1.0:
            break
        kept.append(i)
        mass += math.exp(left[i]) / total
    kept = [i for i in kept if math.exp(left[i] - left[ranked[0]]) >= sampling.min_p]
    total = sum(math.exp(left[i]) for i in kept)
    return {i: math.exp(left[i]) / total for i in kept}


@settings(deadline=None)
@given(
    logits=st.lists(st.integers(-40, 40), min_size=3, max_size=12, unique=True),
    top_k=st.integers(0, 14),
    top_p=st.sampled_from([0.0, 0.33, 0.77, 0.999, 1.0]),
    min_p=st.sampled_from([0.0, 0.017, 0.37]),
    temperature=st.sampled_from([0.3, 1.0, 1.7]),
    banned=st.sets(st.integers(0, 2), max_size=2),
)
def test_equals_a_plain_recomputation(logits, top_k, top_p, min_p, temperature, banned):
    sampling = Sampling(temperature=temperature, top_p=top_p, top_k=top_k, min_p=min_p)
    values = [z / 7 for z in logits]
    result = transform_logits(torch.tensor([values]), sampling, torch.tensor(sorted(banned), dtype=torch.long)).exp()[0]
    expected = reference(values, sampling, banned)

    assert {i for i, p in enumerate(result.tolist()) if p > 0} == set(expected)
    assert {i: result[i].item() for i in expected} == pytest.approx(expected, abs=2e-6)


@pytest.mark.parametrize(
    ("uniform", "token"), [(0.0, 1), (0.4999, 1), (0.5, 3), (0.7999, 3), (0.8, 4), (1 - 2**-53, 4)]
)
def test_draw_inverts_the_cumulative_distribution_and_never_draws_probability_0(uniform: float, token: int):
    logprobs = torch.tensor([[0.0, 0.5, 0.0, 0.3, 0.2, 0.0]], dtype=torch.float64).log()

    assert draw(logprobs, torch.tensor([uniform], dtype=torch.float64)).tolist() == [token]


def test_even_uniforms_draw_tokens_in_exact_proportion():
    """A grid of 1000 uniforms hits each token as often as its probability says."""
    logprobs = torch.tensor([0.123, 0.4, 0.077, 0.4], dtype=torch.float64).log().expand(1000, -1)
    tokens = draw(logprobs, (torch.arange(1000, dtype=torch.float64) + 0.5) / 1000)

    assert torch.bincount(tokens).tolist() == [123, 400, 77, 400]


def test_random_numbers_belong_to_seed_and_completion_and_do_not_depend_on_the_count():
    first = uniforms(7, completion=0, count=5)

    assert np.array_equal(uniforms(7, completion=0, count=50)[:5], first)
    assert not np.array_equal(uniforms(7, completion=1, count=5), first)
    assert not np.array_equal(uniforms(8, completion=0, count=5), first)


def test_entropy_counts_impossible_tokens_as_nothing():
    logprobs = torch.tensor([[0.5, 0.25, 0.25, 0.0], [1.0, 0.0, 0.0, 0.0]]).log()

    assert entropy(logprobs).tolist() == pytest.approx([1.5 * math.log(2), 0.0])


def test_alternatives_are_the_most_likely_first_and_only_possible_ones():
    [row] = top_alternatives(torch.tensor([[0.2, 0.0, 0.8]]).log(), 3)

    assert [i for i, _ in row] == [2, 0]
    assert [p for _, p in row] == pytest.approx([math.log(0.8), math.log(0.2)])
