"""RISE: which answers become items, and what their right scores are."""

from collections import Counter

import pytest
from makers.batches import make_batch
from makers.made_rounds import MadeRound
from makers.plugin_values import end_step, plugin

from mmrl.errors import ConfigError

NAN = float("nan")


def items(rewards, texts=None, **options):
    batch = make_batch([1] * len(rewards), rewards=rewards)
    given = MadeRound(texts)
    used = plugin("rise", **options)
    return given, used.hooks["second_round"](batch, given), used


@pytest.mark.parametrize(
    ("levels", "answers"), [((0.0, 1.0), ["1", "1", "0"]), ((-1.0, -0.5, 1.0), ["1", "1", "-0.5"])]
)
def test_the_right_score_is_the_nearest_level(levels, answers):
    given, _, _ = items([1.0, 0.9, 0.2], levels=levels)
    assert [item.answer for item in given.asked] == answers
    assert {item.task for item in given.asked} == {"verify"}


def test_an_item_shows_the_question_the_answer_and_the_scores():
    given, merged, used = items([1.0, 0.0], most=1, answers=3, levels=(-1.0, -0.5, 1.0))
    [item] = given.asked
    row = int(item.sample_id.removeprefix("s0~verify"))
    assert given.words(item) == (
        f"\n\nAn answer to this was:\nthought {row}\nanswer {row}\n\nCheck it step by step, then answer with its score,"
        " one of -1, -0.5, 1: the lowest is for a wrong answer, the highest for a right one."
    )
    assert item.answer_space is None
    assert Counter(merged.kind) == {"fresh": 2, "recycled": 3}
    assert sorted(set(merged.gid_N.tolist())) == [0, 100]
    assert end_step(used, merged) == {"rise/items": 1.0}


def test_unscored_and_empty_answers_are_not_scored_and_made_rows_neither():
    given, merged, _ = items([NAN, 1.0, 0.0], texts=["a", "b", " "])
    assert [item.sample_id for item in given.asked] == ["s0~verify1"]
    again = MadeRound()
    plugin("rise").hooks["second_round"](merged, again)
    assert [item.sample_id for item in again.asked] == ["s0~verify1", "s0~verify2"]


def test_levels_must_rise():
    with pytest.raises(ConfigError, match=r"rise: levels \[1.0, 0.0\] must be two or more that rise"):
        plugin("rise", levels=[1.0, 0.0])
