"""Agent- and turn-wise groups."""

import pytest
from makers.plugin_values import advantages, per_row, plugin, scored_batch

from mmrl.errors import ConfigError

PARTS = {"role": [0.0, 0.0, 1.0, 1.0], "turn": [0.0] * 4}
REWARDS = [1.0, 0.0, 0.5, 0.5]


def test_only_the_same_agent_at_the_same_turn_is_compared():
    batch = scored_batch(REWARDS, parts=PARTS)
    assert per_row(advantages(plugin("turn_groups"), batch)) == [0.7071, -0.7071, 0.0, 0.0]
    assert per_row(advantages(plugin("turn_groups", role=None), batch)) == [1.2247, -1.2247, 0.0, 0.0]


def test_prompts_of_one_environment_are_one_group():
    parts = {"env": [7.0] * 4, "role": [0.0, 1.0] * 2, "turn": [0.0] * 4}
    batch = scored_batch([1.0, 0.5, 0.0, 0.5], parts=parts, gid=[0, 1, 2, 3])
    used = plugin("turn_groups", environment="env")
    assert per_row(advantages(used, batch)) == [0.7071, 0.0, -0.7071, 0.0]
    assert per_row(advantages(plugin("turn_groups"), batch)) == [0.0] * 4


@pytest.mark.parametrize(("name", "first"), [("dr_grpo", 0.5), ("rloo", 1.0)])
def test_other_estimators(name, first):
    batch = scored_batch(REWARDS, parts=PARTS)
    assert per_row(advantages(plugin("turn_groups", advantage=name), batch)) == [first, -first, 0.0, 0.0]


def test_rows_without_a_role_are_compared_with_each_other():
    nan = float("nan")
    batch = scored_batch([1, 0, 1, 0], parts={"role": [0.0, nan, nan, 0.0], "turn": [0.0] * 4})
    assert per_row(advantages(plugin("turn_groups"), batch)) == [0.7071, -0.7071, 0.7071, -0.7071]


def test_an_unknown_part_is_named():
    with pytest.raises(ConfigError, match=r"turn_groups' option 'role' is 'rôle'"):
        advantages(plugin("turn_groups", role="rôle"), scored_batch(REWARDS, parts=PARTS))
