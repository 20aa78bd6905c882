"""RL-ZVP: entropy as the signal of groups that are all right or all wrong."""

from makers.plugin_values import advantages, grid, per_token, plugin, scored_batch

ENTROPY = grid([[1.0, 3.0, 0.5], [2.0, 2.0]])


def found(rewards, entropy_NC=ENTROPY, **options):
    batch = scored_batch(rewards, lengths=[3, 2], entropy_NC=entropy_NC)
    return per_token(advantages(plugin("rl_zvp", **options), batch), batch)


def test_all_right_and_all_wrong():
    assert found([1, 1]) == [[0.1, 0.3, 0.05], [0.2, 0.2]]
    assert found([0, 0]) == [[-0.2, 0.0, -0.25], [0.0, 0.0]]  # the second row's entropy is the same everywhere


def test_a_mixed_group_is_grpo():
    batch = scored_batch([1, 0, 0, 1], lengths=[2] * 4, entropy_NC=grid([[5.0, 1.0]] * 4))
    assert per_token(advantages(plugin("rl_zvp"), batch), batch) == [
        [0.866] * 2,
        [-0.866] * 2,
        [-0.866] * 2,
        [0.866] * 2,
    ]


def test_without_weight_there_is_no_signal():
    assert found([1, 1], alpha=0.0) == [[0.0] * 3, [0.0] * 2]


def test_an_unscored_row_has_none():
    assert found([1, float("nan")]) == [[0.1, 0.3, 0.05], [0.0, 0.0]]
