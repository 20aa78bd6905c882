"""Groups are added as they finish: the scores are those of all of them at the end, whatever the order."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from makers import slow_rewards
from makers.scoring import answered

from mmrl.config.schema import RewardsSection
from mmrl.errors import RewardError
from mmrl.scoring.router import Router
from mmrl.scoring.scores import Scores

FILE = slow_rewards.__file__
TASKS = {
    "one": [{"reward": f"{FILE}:score", "gate": True}, {"reward": f"{FILE}:with_parts", "weight": 0.5}],
    "group": [{"reward": f"{FILE}:group"}, {"reward": f"{FILE}:score", "name": "length"}],
    "batch": [{"reward": f"{FILE}:batch_size"}, {"reward": f"{FILE}:batch", "weight": 0.25}],
    "both": [{"reward": f"{FILE}:batch_size"}, {"reward": f"{FILE}:group"}, {"reward": f"{FILE}:score", "weight": 0}],
}
COMBINE = {"one": "ordered", "group": "normalised_sum", "both": "product"}
COMPLETIONS = st.sampled_from(["a", "bb", "ccc", "", "raise", "nan", "bad answer", "text"])
GROUPS = st.lists(st.tuples(st.sampled_from(sorted(TASKS)), st.lists(COMPLETIONS, max_size=40)), max_size=12)


def router(tasks=TASKS, **section) -> Router:
    return Router(RewardsSection.model_validate({"workers": 0, "tasks": tasks, **section}))


def numbered(groups):
    return [(answered("x", task=task, sample_id=f"s{n}"), texts) for n, (task, texts) in enumerate(groups)]


def expected_of(groups):
    return [(sample, len(texts)) for sample, texts in groups]


def assert_same(one: Scores, other: Scores) -> None:
    """Every field but the seconds."""
    for field in dataclasses.fields(Scores):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if isinstance(a, np.ndarray):
            assert field.name == "seconds_NK" or np.array_equal(a, b, equal_nan=True), field.name
        else:
            assert a == b, field.name
    assert list(one.events.items()) == list(other.events.items())
    assert np.array_equal(one.rewards_N, other.rewards_N, equal_nan=True)


@settings(max_examples=60, deadline=None)
@given(groups=GROUPS, size=st.integers(1, 99), on_error=st.sampled_from(["unscored", "leave_out"]), data=st.data())
def test_any_order_of_groups_gives_the_scores_of_all_at_once(groups, size, on_error, data):
    groups = numbered(groups)
    order = data.draw(st.permutations(range(len(groups))))
    asked = router(combine=COMBINE, on_error=on_error, batch_size=size)
    scoring = asked.start(expected_of(groups))
    for number in order:
        scoring.add({number: groups[number][1]})
    assert_same(scoring.finish(), asked.score(groups))


def test_workers_too_give_the_scores_of_all_at_once():
    groups = numbered([(task, ["a", "raise", "bb", "nan"]) for task in (*TASKS, *TASKS)])
    with router(combine=COMBINE, workers=2, timeout_s=60) as asked:
        scoring = asked.start(expected_of(groups))
        for number in (5, 0, 7, 2, 1, 6, 3, 4):
            scoring.add({number: groups[number][1]})
        assert_same(scoring.finish(), router(combine=COMBINE).score(groups))


@pytest.mark.parametrize("order", [range(20), reversed(range(20))])
def test_a_batch_reward_sees_blocks_of_prompts_in_their_order_whichever_finishes_first(order):
    groups = numbered([("batch", ["a"] * 8)] * 20)
    scoring = router().start(expected_of(groups))
    for number in order:
        scoring.add({number: groups[number][1]})
    sizes = scoring.finish().breakdown["batch_size"].reshape(20, 8)
    assert sizes[:, 0].tolist() == [64] * 8 + [64] * 8 + [32] * 4 and (sizes == sizes[:, :1]).all()


def test_blocks_are_of_one_task_and_hold_whole_groups():
    groups = numbered([("batch", ["a"] * 50), ("both", ["a"] * 3), ("batch", ["a"] * 50), ("batch", ["a"])])

    def sizes(**section):
        scores = router(**section).score(groups)
        return [scores.breakdown_of(n, 0)["batch_size"] for n in range(4)]

    assert sizes() == [100, 3, 100, 1]
    assert sizes(batch_size=50) == [50, 3, 50, 1]
    assert sizes(batch_size=1000) == [101, 3, 101, 101]


def test_the_first_failure_in_the_order_of_rows_stops_whichever_came_first():
    groups = [
        (answered("x", task="one", sample_id="first"), ["a", "raise"]),
        (answered("x", task="one", sample_id="second"), ["nan"]),
    ]
    scoring = router(on_error="error").start(expected_of(groups))
    scoring.add({1: groups[1][1]})
    scoring.add({0: groups[0][1]})
    with pytest.raises(RewardError, match=r"\(id=first\): task 'one', reward 'score': raised: KeyError"):
        scoring.finish()


def test_groups_that_do_not_fit_what_was_announced():
    scoring = router().start([(answered("x", task="one"), 2), (answered("x", task="one"), 0)])
    with pytest.raises(ValueError, match="1 groups were not added, the first is number 0"):
        scoring.finish()
    with pytest.raises(ValueError, match="group 0 has 1 completions, not 2"):
        scoring.add({0: ["a"]})
    scoring.add({0: ["a", "bb"]})
    with pytest.raises(ValueError, match="group 0 was added twice"):
        scoring.add({0: ["a", "bb"]})
    assert scoring.finish().group_sizes == (2, 0)
    with pytest.raises(RewardError, match="no reward for task 'other'"):
        router().start([(answered("x", task="other"), 1)])
