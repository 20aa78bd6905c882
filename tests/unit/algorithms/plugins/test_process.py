"""Methods that judge steps beside the outcome: Clip and Delta, PAV, SPA, SRL, SWEET-RL, span rewards."""

import pytest
import torch
from makers.plugin_values import advantages, per_token, plugin, scored_batch, with_spans

NAN = float("nan")


def found(name, column, rewards, rows, *, digits=4, batch=None, **options):
    """Advantages of one group whose rows are spans of (tokens, value)."""
    lengths = [sum(tokens for tokens, _ in row) for row in rows]
    batch = with_spans(batch or scored_batch(rewards, lengths=lengths), column, rows)
    return per_token(advantages(plugin(name, **options), batch), batch, digits)


P = [[(1, 0.9), (1, 0.4), (1, 0.7), (1, 0.2)]]


def step_terms(shape, rows=P, **options):
    """What Clip and Delta put on the steps of a row, less what they put on its last one (the mean drops out)."""
    values = found("clip_delta", "steps", [1.0] * len(rows), rows, shape=shape, coef=1.0, **options)
    return [round(value - values[0][-1], 4) for value in values[0]]


def test_delta_gives_each_step_its_own_score_and_the_last_none():
    assert step_terms("delta") == [0.9, 0.4, 0.7, 0.0]


def test_clip_sums_what_is_below_the_threshold():
    # r = [0, -0.1, 0, -0.3]: sums from each step on, less the last one's.
    assert step_terms("clip") == [-0.1, -0.1, 0.0, 0.0]
    assert step_terms("clip", eta=0.95) == [-0.85, -0.8, -0.25, 0.0]  # r = [-.05, -.55, -.25, -.75]


def test_both_is_delta_of_the_clipped():
    assert step_terms("both") == [0.0, -0.1, 0.0, 0.0]


def test_more_good_steps_earn_nothing():
    long = [[*P[0][:1], (1, 0.9), (1, 0.9), *P[0][1:]]]
    assert step_terms("clip", rows=long)[2:] == step_terms("clip")
    assert max(step_terms("delta", rows=long)) == max(step_terms("delta"))


def test_clip_delta_is_added_to_the_outcome_by_its_weight_and_centred_over_the_group():
    rows = [[(1, 0.9), (1, 0.4)], [(2, 0.5)]]  # delta sums: [.9, 0] and [0]; their mean is .3
    assert found("clip_delta", "steps", [1.0, 0.0], rows, shape="delta", coef=0.02) == [
        [0.7191, 0.7011],
        [-0.7131, -0.7131],
    ]


def test_pav_pays_the_change_of_the_provers_value():
    rows = [[(1, 0.7), (1, 0.7), (1, 0.4)], [(1, 0.3)]]  # V_0: the mean of the first values, .5
    assert found("pav", "values", [1.0, 1.0], rows) == [[0.2, 0.0, -0.3], [-0.2]]
    assert found("pav", "values", [1.0, 1.0], rows, alpha=0.0) == [[0.0] * 3, [0.0]]


def test_pav_takes_the_prompts_value_from_a_part():
    batch = scored_batch([1.0, 0.0], parts={"v0": [0.6, 0.6]}, lengths=[2, 1])
    rows = [[(1, 0.7), (1, 0.7)], [(1, 0.3)]]
    assert found("pav", "values", None, rows, batch=batch, start="v0", alpha=2.0) == [[0.9071, 0.7071], [-1.3071]]


@pytest.mark.parametrize(
    ("reward", "progress", "wanted"),
    [(1.0, [0.2, 0.6, 0.2], [0.2, 0.6, 0.2]), (1.0, [0.0, 0.0], [0.5, 0.5]), (0.5, [3.0, 1.0], [0.375, 0.125])],
)
def test_spa_shares_the_outcome_out(reward, progress, wanted):
    rows = [[(1, value) for value in progress], [(1, 0.0)]]
    values = found("spa", "progress", [reward, 0.0], rows)  # less the mean over all steps; the other row's is 0
    mean = sum(wanted) / (len(wanted) + 1)
    assert values == [[round(w - mean, 4) for w in wanted], [round(-mean, 4)]]


def test_spa_adds_grounding_and_the_outcome_where_asked():
    batch = with_spans(scored_batch([1.0, 0.0], lengths=[2, 1]), "done", [[(1, 1.0), (1, 0.0)], [(1, 1.0)]])
    rows = [[(1, 0.5), (1, 0.5)], [(1, 0.3)]]  # r = [.5 + .5, .5], [0 + .5]; mean 2 / 3
    values = found("spa", "progress", None, rows, batch=batch, grounding="done")
    assert values == [[0.3333, -0.1667], [-0.1667]]
    values = found("spa", "progress", None, rows, batch=batch, coef=0.0, outcome=1.0)
    assert values == [[0.7071, 0.7071], [-0.7071]]


def test_srl_compares_the_same_step_of_the_group():
    rows = [[(2, 0.8), (1, 0.5)], [(1, 0.4), (1, 0.5)], [(1, NAN)]]
    assert found("srl", "similarity", [0.0, 0.0, 0.0], rows) == [[0.7071, 0.7071, 0.0], [-0.7071, 0.0], [0.0]]
    alone = [[(1, 0.8), (1, 0.9)], [(1, 0.8)]]
    assert found("srl", "similarity", [0.0, 0.0], alone) == [[0.0, 0.0], [0.0]]


def test_srl_keeps_groups_whose_similarities_differ():
    batch = scored_batch([0.0] * 4, parts={"similarity": [0.8, 0.4, 0.5, 0.5]}, gid=[0, 0, 1, 1])
    keeps = [plugin("srl", min_std=least).hooks["keep"](batch, torch.zeros(4)).tolist() for least in (0.0, 0.3, None)]
    assert keeps == [[True, True, False, False], [False] * 4, [True] * 4]


def test_sweet_rl_raises_the_better_half_of_a_turn():
    rows = [[(1, v), (1, w)] for v, w in zip([0.3, -0.1, 0.2, -0.4], [1.0, 1.0, 1.0, 1.0], strict=True)]
    assert found("sweet_rl", "turns", [0.0] * 4, rows) == [[1.0, 0.0], [-1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]]
    assert found("sweet_rl", "turns", [0.0] * 3, [[(1, v)] for v in (0.3, 0.1, 0.2)]) == [[1.0], [-1.0], [0.0]]
    assert found("sweet_rl", "turns", [0.0], [[(2, 0.7)]]) == [[0.0, 0.0]]


def test_sweet_rl_leaves_unscored_rows_out_of_the_median():
    assert found("sweet_rl", "turns", [0.0, 0.0, NAN], [[(1, 0.3)], [(1, 0.1)], [(1, 9.0)]]) == [[1.0], [-1.0], [0.0]]


def test_span_rewards_centred_marks_and_wrong():
    rows = [[(1, 0.8), (1, 0.2)], [(1, 0.5)]]
    assert found("span_rewards", "spans", [1.0, 1.0], rows) == [[0.15, -0.15], [0.0]]
    marks = [[(1, -1.0), (1, NAN)], [(1, -1.0)]]
    assert found("span_rewards", "spans", [1.0, 0.0], marks, mode="marks") == [[0.2071, 0.7071], [-1.2071]]
    assert found("span_rewards", "spans", [1.0, 0.0], marks, mode="wrong") == [[0.7071, 0.7071], [-1.2071]]


@pytest.mark.parametrize(
    ("name", "column"),
    [("clip_delta", "steps"), ("pav", "values"), ("spa", "progress"), ("srl", "similarity"), ("sweet_rl", "turns")],
)
def test_an_unscored_row_learns_nothing_from_its_steps(name, column):
    rows = [[(1, 0.9), (1, 0.1)], [(1, 0.2), (1, 0.3)], [(1, 0.7), (1, 0.8)]]
    assert found(name, column, [1.0, 0.0, NAN], rows)[2] == [0.0, 0.0]
