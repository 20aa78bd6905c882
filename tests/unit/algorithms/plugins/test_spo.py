"""SPO and MSSR: the tracker's worked numbers, the batch's scale, the entropy bonus, and their state."""

import json
from dataclasses import replace

import pytest
import torch
from makers.plugin_values import advantages, end_step, grid, per_row, per_token, plugin, scored_batch

from mmrl.algorithms.beta_tracker import BetaTracker

SCALED = [1.1479, -1.0386, 0.492, -0.6013]


def tracker_at_half():
    """a = b = 4, as after a first visit of one completion worth 0.5."""
    tracker = BetaTracker(half=0.06)
    tracker.update("p", [0.5], total=0.0)
    return tracker


def test_the_tracker_forgets_as_the_policy_moves():
    tracker = tracker_at_half()
    assert tracker.state_dict() == {"p": [4.0, 4.0, 0.0]}
    tracker.update("p", [1.0], total=0.06)
    assert tracker.state_dict() == {"p": [4.5, 3.5, 0.06]}
    assert tracker.value("p") == 0.5625
    tracker.update("p", [0.0], total=0.063)
    assert round(tracker.value("p"), 4) == 0.4977


def test_forgetting_is_bounded():
    tracker = BetaTracker(half=0.06)
    assert [tracker.forgetting(d) for d in (0.06, 0.003, 0.0)] == [0.875, 0.96, 0.96]


@pytest.mark.parametrize(("drift", "count"), [(1.0, 8.0), (0.0, 25.0)])
def test_the_count_settles_at_the_window(drift, count):
    tracker = tracker_at_half()
    for _ in range(400):
        tracker.update("p", [1.0], total=0.0, drift=drift)
    a, b, _ = tracker.state_dict()["p"]
    assert (round(a + b, 4), round(tracker.value("p"), 4)) == (count, 1.0)


def test_a_new_prompt_starts_at_one_half():
    tracker = BetaTracker(half=0.06)
    assert tracker.value("new") == 0.5
    tracker.update("new", [1.0], total=0.0)
    assert tracker.value("new") == 0.75  # (1 + 0.5) / 2


def spo_with(name, **options):
    """A plug-in whose four prompts have v = 0.5."""
    used = plugin(name, **options)
    end_step(used, scored_batch([0.5] * 4, gid=[0, 1, 2, 3]))
    return used


def test_spo_normalises_over_the_batch():
    batch = scored_batch([1.0, 0.0, 0.7, 0.2], gid=[0, 1, 2, 3])
    assert per_row(advantages(spo_with("spo"), batch)) == SCALED


def test_spo_leaves_an_unscored_row_out():
    batch = scored_batch([1.0, 0.0, 0.7, 0.2, float("nan")], gid=[0, 1, 2, 3, 4])
    assert per_row(advantages(spo_with("spo"), batch)) == [*SCALED, 0.0]


def test_spo_forgets_by_the_drift_of_the_steps_since_the_last_visit():
    used = plugin("spo")
    end_step(used, scored_batch([0.5]), {"policy/old_kl": -0.06})
    end_step(used, scored_batch([1.0]), {"policy/old_kl": 0.0})
    assert used.state_dict() == {"tracker": {"s0": [4.5, 3.5, 0.06]}, "total": 0.06}


def test_spo_goes_on_from_its_state():
    used, resumed = spo_with("spo"), plugin("spo")
    end_step(used, scored_batch([1.0, 0.0], gid=[0, 1]), {"policy/old_kl": 0.1})
    resumed.load_state_dict(json.loads(json.dumps(used.state_dict())))
    batch = scored_batch([1.0, 0.0, 0.7, 0.2], gid=[0, 1, 2, 3])
    assert torch.equal(advantages(used, batch), advantages(resumed, batch))
    assert per_row(advantages(used, batch)) != SCALED


def test_mssr_adds_for_entropy_up_to_half_the_advantage():
    batch = scored_batch([1.0, 0.0, 0.7, 0.2], gid=[0, 1, 2, 3], lengths=[2, 1, 1, 1])
    entropy_NC = grid([[0.5, 9.0], [9.0], [0.0], [0.1]])
    used = spo_with("mssr")
    found = advantages(used, replace(batch, entropy_NC=entropy_NC))
    assert per_token(found, batch) == [[1.3479, 1.7219], [-0.5193], [0.492], [-0.5613]]
    plain = spo_with("mssr", entropy_coef=0.0)
    assert per_row(advantages(plain, replace(batch, entropy_NC=entropy_NC))) == SCALED


def test_mssr_forgets_by_a_window_of_steps():
    used = plugin("mssr", window=2)
    for value in (0.5, 0.04, 0.02):
        end_step(used, scored_batch([0.5]), {"policy/old_kl": value})
    assert used.state_dict()["window"] == [0.04, 0.02]
    end_step(used, scored_batch([1.0]), {"policy/old_kl": 0.0})
    a, b, _ = used.state_dict()["tracker"]["s0"]
    assert a == pytest.approx(0.875 * (0.875 * (0.875 * 4 + 0.5) + 0.5) + 1.0)
    assert b == pytest.approx(a - 1.0)


def test_mssr_goes_on_from_its_state():
    used, resumed = plugin("mssr"), plugin("mssr")
    end_step(used, scored_batch([1.0]), {"policy/old_kl": 0.03})
    resumed.load_state_dict(json.loads(json.dumps(used.state_dict())))
    for each in (used, resumed):
        end_step(each, scored_batch([0.0]), {"policy/old_kl": 0.01})
    assert used.state_dict() == resumed.state_dict()
