"""RiskPO: the risk measure of bundles, shares of members, and the quantile tracker with its state."""

import json

import pytest
import torch
from makers.plugin_values import advantages, end_step, per_row, plugin, scored_batch

from mmrl.errors import ConfigError


def at(*quantiles, **options):
    used = plugin("risk_po", **options)
    used.load_state_dict({"quantiles": list(quantiles)})
    return used


@pytest.mark.parametrize(("score", "wanted"), [(1, -3.0), (3, 0.6667), (5, 1.3333), (4, 1.3333)])
def test_the_risk_of_a_bundle(score, wanted):
    rewards = [1.0] * score + [0.0] * (5 - score)
    batch = scored_batch(rewards, gid=range(5))  # one answer each: equal shares
    found = per_row(advantages(at(2.0, 4.0), batch), 6)
    assert found == pytest.approx([wanted / 5] * 5, abs=1e-4)


def test_members_share_by_their_lead_over_their_own_prompt():
    used = at(0.0, 10.0, bundle=2, omega=0.0, low=0.2, high=0.7)  # A = 2 s
    batch = scored_batch([1.0, 0.0, 0.5, 0.5], gid=[0, 0, 1, 1], lengths=[1] * 4)
    found = per_row(advantages(used, batch))
    # The paper of the right answer scores 1.5, all of it its own lead; the other 0.5, all of it the wrong one's lag.
    assert found == [3.0, 1.0, 0.0, 0.0]


def test_shares_and_the_cut_of_those_that_blow_up():
    shares = plugin("risk_po", most_share=1000.0).holder._shares
    even = shares(torch.tensor([0.5, 0.25, 0.25, 0.0, 0.0], dtype=torch.float64))
    assert even.tolist() == [0.5, 0.25, 0.25, 0.0, 0.0]
    assert shares(torch.zeros(5)).tolist() == pytest.approx([0.2] * 5)
    wild = torch.tensor([0.5, -0.5, 0.01, 0.0, 0.0], dtype=torch.float64)
    assert shares(wild).tolist() == pytest.approx([50, -50, 1, 0, 0])
    assert plugin("risk_po").holder._shares(wild).tolist() == pytest.approx([1, -1, 1, 0, 0])
    assert plugin("risk_po", credit="uniform").holder._shares(wild).tolist() == pytest.approx([0.2] * 5)


def test_credit_by_the_spread_of_a_prompt():
    used = at(2.0, 4.0, bundle=2, credit="std")
    batch = scored_batch([1.0, 0.0, 5.0, 5.0, 0.0, 0.5], gid=[0, 0, 1, 1, 2, 2])
    found = per_row(advantages(used, batch))
    # Papers of the first bundle score 6 and 5, both above q_u: A = 1.3333, over the std .7071 of [1, 0]; the second
    # prompt's rewards are equal. The third, alone in its bundle, scores 0 and 1 of 2: A = -6 and -3 over .3536.
    assert sorted(found[:2]) == [1.8856, 1.8856]
    assert found[2:4] == [0.0, 0.0]
    assert found[4:] == [pytest.approx(-6 / 0.353554, abs=1e-3), pytest.approx(-3 / 0.353554, abs=1e-3)]


@pytest.mark.parametrize(("score", "wanted"), [(1, -4.3333), (3, -0.6667), (5, 0.0)])
def test_the_baseline_takes_the_highest_value_off(score, wanted):
    batch = scored_batch([1.0] * score + [0.0] * (5 - score), gid=range(5))
    found = per_row(advantages(at(2.0, 4.0, baseline=True), batch), 6)
    assert found == pytest.approx([wanted / 5] * 5, abs=1e-4)


def test_the_spread_of_a_bundles_papers_divides():
    used = at(0.0, 10.0, bundle=2, omega=0.0, low=0.2, high=0.7, bundle_std=True)  # A = 2 s / std
    batch = scored_batch([1.0, 0.0, 0.5, 0.5, 1.0, 1.0], gid=[0, 0, 1, 1, 2, 2], lengths=[1] * 6)
    # Papers of 1.5 and .5 have the std .7071; the last bundle's score alike.
    assert per_row(advantages(used, batch)) == pytest.approx([4.2426, 1.4142, 0.0, 0.0, 0.0, 0.0], abs=1e-4)


def test_quantiles_follow_the_scores():
    used = at(2.0, 4.0, bundle=1)
    metrics = end_step(used, scored_batch([1.0, 3.0, 3.0, 3.0], gid=range(4)))
    assert metrics["risk_po/quantile_low"] == pytest.approx(1.995)
    assert metrics["risk_po/quantile_high"] == pytest.approx(4.0 + 0.1 * (0.8 - 1.0))


def test_quantiles_begin_as_those_of_the_first_scores():
    used = plugin("risk_po", bundle=1)
    advantages(used, scored_batch([0.0, 1.0, 2.0, 3.0, 4.0, 5.0], gid=range(6)))
    assert used.state_dict()["quantiles"] == pytest.approx([1.0, 4.0])


def test_a_bundle_that_is_not_full_is_scaled_up_and_unscored_answers_stay_out():
    nan = float("nan")
    batch = scored_batch([1.0, 0.0, nan], gid=range(3))
    found = per_row(advantages(at(2.0, 4.0, bundle=4), batch))
    assert found == [0.0, 0.0, 0.0]  # score 4 * 0.5 = 2: at the lower quantile
    full = scored_batch([1.0, 1.0, nan], gid=range(3))
    assert per_row(advantages(at(2.0, 4.0, bundle=4), full)) == [0.6667, 0.6667, 0.0]  # score 4: 3.3333 / 2.5 / 2


def test_state_and_levels():
    used, resumed = plugin("risk_po"), plugin("risk_po")
    batch = scored_batch([1.0, 0.0, 0.5], gid=range(3))
    advantages(used, batch)
    end_step(used, batch)
    resumed.load_state_dict(json.loads(json.dumps(used.state_dict())))
    assert per_row(advantages(resumed, batch)) == per_row(advantages(used, batch))
    with pytest.raises(ConfigError, match=r"low \(0.9\) must be above 0 and below high \(0.8\)"):
        plugin("risk_po", low=0.9)
