"""Action tokens, their statistics, VLA-R1's form, and distances of actions and rollouts."""

import doctest
import types

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from makers.scoring import answered

from mmrl.errors import RewardError
from mmrl.scoring import robot_output as ro

STATS = {
    "bridge": {"q01": [-0.02, 0.0], "q99": [0.03, 1.0], "mask": [True, False]},
    "fractal": {"q01": [-1.0, 0.0], "q99": [1.0, 1.0], "mask": [True, False]},
}


def test_docstring_examples():
    result = doctest.testmod(ro)
    assert result.attempted > 0 and result.failed == 0


def test_openvla_tokens():
    action = [-1, -0.5, 0, 0.3, 1]
    tokens = ro.bins_to_tokens(ro.encode_bins(action), vocab_size=32000)
    assert tokens == [31999, 31936, 31872, 31834, 31744]
    bins = ro.tokens_to_bins(tokens, vocab_size=32000)
    assert ro.decode_bins(bins).round(4).tolist() == [-0.9961, -0.502, 0.0, 0.298, 0.9961]
    assert ro.tokens_to_bins([31743], vocab_size=32000) is None


@given(st.floats(-1, 1))
def test_a_round_trip_errs_by_less_than_a_bin(value):
    assert abs(ro.decode_bins(ro.encode_bins([value]))[0] - value) <= 0.003922


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=2))
def test_normalising_undoes_unnormalising(normal):
    stats = ro.action_stats(answered(None), key="bridge", given=STATS)
    assert stats.normalise(stats.unnormalise(normal)) == pytest.approx(normal, abs=1e-6)


def test_unnormalising():
    stats = ro.action_stats(answered(None), key="bridge", given=STATS)
    assert stats.unnormalise([0.3, 0.7]).tolist() == pytest.approx([0.0125, 0.7])


def test_another_dataset_s_statistics_are_never_taken():  # fault 79
    other = ro.action_stats(answered(None), key="fractal", given=STATS).unnormalise([0.3, 1.0])
    assert other.tolist() == pytest.approx([0.3, 1.0])  # 24 times what bridge would do
    with pytest.raises(RewardError) as error:
        ro.action_stats(answered(None, action_stats=STATS), key="bridge_orig", given=None)
    words = "rows.jsonl:7 (id=s1): no action statistics of 'bridge_orig'; there are: bridge, fractal"
    assert str(error.value).startswith(words)
    with pytest.raises(RewardError, match="no action statistics of ''; there are: bridge, fractal"):
        ro.action_stats(answered(None, action_stats=STATS), key=None, given=None)


def test_the_row_s_dataset_names_its_statistics():  # fault 79
    sample = types.SimpleNamespace(dataset="bridge", columns={"action_stats": STATS}, where="x")
    assert ro.action_stats(sample, key=None, given=None).q99_A.tolist() == [0.03, 1.0]


@pytest.mark.parametrize("entry", [{}, {"q01": [0], "q99": [1, 2]}, {"q01": [0], "q99": [1], "mask": [True] * 2}, 3])
def test_statistics_of_unequal_length(entry):
    with pytest.raises(RewardError, match="'a' need q01, q99 and mask of equal length"):
        ro.action_stats(answered(None), key="a", given={"a": entry})


def test_swapped_statistics():
    with pytest.raises(RewardError, match="'a' have a q01 above its q99"):
        ro.action_stats(answered(None), key="a", given={"a": {"q01": [0, 1], "q99": [0, 0]}})


@pytest.mark.parametrize(
    ("text", "bins"),
    [
        ("128 91 7", [128, 91, 7]),
        ("[128, 91, 7]", [128, 91, 7]),
        ("<action_128><action_91><action_7>", [128, 91, 7]),
        ("165", [165]),
        ("256", None),
        ("1.5 2", None),
        ("-1", None),
        ("go left", None),
        ("", None),
        ("1 " * 40000, None),
    ],
)
def test_bins_in_text(text, bins):
    assert ro.parse_bins(text) == bins


@pytest.mark.parametrize(
    ("text", "value", "in_form"),
    [
        ("<think>a</think><output>[1]</output>", [1], True),
        (" <Think>a</think>\n<OUTPUT>[1]</output>\n", [1], True),
        ("<output>[1]</output>", [1], False),
        ("<think> </think><output>[1]</output>", [1], False),
        ("<think>a</think><output>[1</output>", None, False),
        ("<think>a</think>so<output>[1]</output>", [1], False),
        ("<output>[1]</output><output>[2]</output>", None, False),
        ("<think>a<output>[1]</output></think>", None, False),
        ("", None, False),
    ],
)
def test_vla_r1_form(text, value, in_form):
    assert ro.read_output(text) == (value, in_form)


def test_vla_rft_rollouts():
    first, second = np.array([0.5, 0.5]), np.array([0.6, 0.4])
    assert ro.rollout_distance([np.abs(first - second).mean()], [0.08]) == pytest.approx(-0.18)
    assert ro.rollout_distance([1.0], [0.7]) == pytest.approx(-1.7)
    assert ro.rollout_distance([0.0], [0.0]) == 0
    frames = ([0.0, 1.0], [0.0, 0.0])
    assert ro.rollout_distance(*frames, over="last") == -1
    assert ro.rollout_distance(*frames, over="discount") == pytest.approx(-1 / 1.95)
