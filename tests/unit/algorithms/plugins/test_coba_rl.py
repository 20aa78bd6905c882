"""CoBA-RL: the worked budgets, the value's shape, and state."""

import json

import pytest
from makers.plugin_values import end_step, plugin, scored_batch

from mmrl.errors import ConfigError

RATES = {"low": [0.0, 4], "half": [0.0, 0], "high": [4.0, 4]}  # pass rates 0.1, 0.5, 0.9
FIXED = {"scale": 1e-12, "most_share": 2.0}


def budget(a, b, **options):
    used = plugin("coba_rl", a_min=a, kappa=a + b, **{**FIXED, **options})
    used.load_state_dict({"rates": RATES, "failure": None})
    return used.hooks["budget"](["low", "half", "high"], 8).tolist()


@pytest.mark.parametrize(
    ("shape", "wanted"), [((2.0, 2.0), [4, 16, 4]), ((4.5, 6.5), [6, 16, 2]), ((6.5, 4.5), [2, 16, 6])]
)
def test_worked_budgets(shape, wanted):
    if shape[0] > shape[1]:  # a is at most kappa - a_min: reached by a large scale from the other side
        used = plugin("coba_rl", a_min=shape[1], kappa=sum(shape), scale=1e6, most_share=2.0)
        used.load_state_dict({"rates": RATES, "failure": 0.8})
        assert used.hooks["budget"](["low", "half", "high"], 8).tolist() == wanted
    else:
        assert budget(*shape) == wanted


def test_the_shape_follows_the_failure_rate():
    used = plugin("coba_rl")
    used.load_state_dict({"rates": {}, "failure": 0.8})
    assert used.holder._shape() == pytest.approx((8.2, 2.8))
    used.load_state_dict({"rates": {}, "failure": 0.3})  # sigmoid(-2) = 0.1192
    assert used.holder._shape() == pytest.approx((2.0728, 8.9272), abs=1e-4)


def test_equal_bounds_are_the_group_size():
    assert budget(2.0, 2.0, most_share=1.0, least_share=1.0) == [8, 8, 8]


def test_the_sum_is_exact_and_bounds_hold():
    used = plugin("coba_rl")
    names = [f"p{n}" for n in range(7)]
    used.load_state_dict({"rates": {name: [n, 7] for n, name in enumerate(names)}, "failure": 0.4})
    given = used.hooks["budget"](names, 8).tolist()
    assert sum(given) == 56
    assert min(given) >= 2 and max(given) <= 32


def test_pass_rates_and_the_failure_rate_are_tracked_and_saved():
    used, resumed = plugin("coba_rl", decay=0.5), plugin("coba_rl", decay=0.5)
    nan = float("nan")
    assert end_step(used, scored_batch([1.0, 0.0, 0.0, nan], gid=[0, 0, 1, 1])) == {
        "coba_rl/failure": pytest.approx(2 / 3)
    }
    end_step(used, scored_batch([1.0, 1.0], gid=[0, 0]))
    assert used.state_dict() == {"rates": {"s0": [3.0, 4], "s1": [0.0, 1]}, "failure": pytest.approx(1 / 3)}
    resumed.load_state_dict(json.loads(json.dumps(used.state_dict())))
    assert resumed.hooks["budget"](["s0", "s1"], 8).tolist() == used.hooks["budget"](["s0", "s1"], 8).tolist()


def test_bounds_that_exclude_the_group_size_are_refused():
    with pytest.raises(ConfigError, match=r"least_share \(2\) is at most 1"):
        plugin("coba_rl", least_share=2.0)
