"""Corrections for a noisy verifier: the worked values, their means, and the estimate by appeals."""

import json

import pytest
from makers.plugin_values import end_step, per_row, plugin, scored_batch, shaped

from mmrl.algorithms.algorithm import build_algorithm
from mmrl.config.schema import AlgorithmSection
from mmrl.errors import ConfigError


def corrected(**options):
    right, wrong = shaped(plugin("noise_correction", **options), scored_batch([1.0, 0.0]))
    return right, wrong


def test_backward_is_unbiased():
    right, wrong = corrected()
    assert (right, wrong) == (1.2857, -0.1429)
    assert 0.8 * right + 0.2 * wrong == pytest.approx(1.0, abs=1e-4)  # a right answer
    assert 0.1 * right + 0.9 * wrong == pytest.approx(0.0, abs=1e-4)  # a wrong one


def test_forward_needs_the_refusals_alone():
    right, wrong = corrected(form="forward", false_positive=0.0)
    assert (right, wrong) == (0.2, -0.8)
    assert 0.8 * right + 0.2 * wrong == pytest.approx(0.0)
    assert 0.1 * right + 0.9 * wrong == pytest.approx(-0.7)


def test_without_noise_nothing_changes():
    assert corrected(false_positive=0.0, false_negative=0.0) == (1.0, 0.0)
    assert corrected(false_positive=0.0, false_negative=0.0, form="forward") == (0.0, -1.0)


def test_division_by_the_std_cancels_it_and_dr_grpo_does_not():
    def advantage(name, plugins):
        section = AlgorithmSection(advantage=name, plugins=plugins)
        algorithm, batch = build_algorithm(section, max_new_tokens=4), scored_batch([1.0, 0.0, 0.0, 1.0])
        return per_row(algorithm.advantage(algorithm.shape_rewards(batch).rewards_N, batch))

    assert advantage("grpo", ("noise_correction",)) == advantage("grpo", ())
    assert advantage("dr_grpo", ("noise_correction",)) == [0.7143, -0.7143, -0.7143, 0.7143]


def test_appeals_estimate_the_rate_of_refusals():
    nan = float("nan")
    used = plugin("noise_correction", appeal="appeal", decay=0.5, false_positive=0.0)
    batch = scored_batch([1.0, 1.0, 0.0, 0.0], parts={"appeal": [nan, nan, 1.0, 0.0]})
    assert end_step(used, batch)["noise_correction/false_negative"] == pytest.approx(0.5 * 0.2 + 0.5 / 3)
    half = scored_batch([1.0, 1.0, 0.0, 0.0], parts={"appeal": [nan, nan, 1.0, nan]})  # half of the refused were asked
    fresh = plugin("noise_correction", appeal="appeal", decay=0.0, false_positive=0.0)
    assert end_step(fresh, half)["noise_correction/false_negative"] == pytest.approx(2 / 4)
    resumed = plugin("noise_correction", appeal="appeal", decay=0.5, false_positive=0.0)
    resumed.load_state_dict(json.loads(json.dumps(used.state_dict())))
    assert shaped(resumed, batch) == shaped(used, batch) != shaped(plugin("noise_correction"), batch)


def test_an_estimate_that_the_correction_could_not_divide_by_is_bounded():
    used = plugin("noise_correction", appeal="appeal", decay=0.0, false_positive=0.1)
    batch = scored_batch([0.0, 0.0], parts={"appeal": [1.0, 1.0]})
    assert end_step(used, batch)["noise_correction/false_negative"] == pytest.approx(0.89)


def test_rates_that_leave_nothing_are_refused():
    with pytest.raises(ConfigError, match=r"false_positive \+ false_negative is 1.1"):
        plugin("noise_correction", false_positive=0.5, false_negative=0.6)
