"""Stages of tasks: when each begins, the order by backward transfer, reviews, what is refused."""

import json
import re

import pytest
from makers.plugin_values import plugin
from makers.pools import drawing, loader_of, numbers

from mmrl.errors import ConfigError
from mmrl.plugins import resolve_module

TASKS = ["a"] * 4 + ["b"] * 3 + ["c"] * 3
STAGES = [["a"], ["b"], ["c"]]
ACCURACIES = [[0.60, 0.0, 0.0], [0.55, 0.70, 0.0], [0.50, 0.72, 0.9]]


def staged(folder, **options):
    return drawing(loader_of(folder, [None] * 10, tasks=TASKS), plugin("stage_order", **options).hooks["draw"])


def tasks(loader, progress, count=4):
    loader.at(progress)
    return "".join(sample.task for sample in loader.next(count))


def test_stages_follow_each_other_in_proportion_to_their_rows(tmp_path):
    loader = staged(tmp_path, stages=STAGES)
    assert [tasks(loader, progress, 1) for progress in (0.0, 0.39, 0.4, 0.69, 0.7, 0.99)] == list("aabbcc")


def test_shares_say_when_a_stage_begins(tmp_path):
    loader = staged(tmp_path, stages=STAGES, shares=[0.5, 0.25, 0.25])
    assert [tasks(loader, progress, 1) for progress in (0.49, 0.5, 0.74, 0.75)] == list("abbc")


def test_the_order_is_by_backward_transfer():
    transfer = resolve_module("stage_order", kind="algorithms")[0]._backward_transfer
    assert [round(value, 4) for value in transfer(ACCURACIES)] == [0.0, -0.05, -0.04]
    order = plugin("stage_order", stages=STAGES, transfer=ACCURACIES).holder._stages
    assert [list(names) for names in order] == [["a"], ["c"], ["b"]]


def test_every_row_of_a_stage_comes_once_a_pass_and_file_order_stays(tmp_path):
    rows = numbers(staged(tmp_path, stages=STAGES).next(8))
    assert sorted(rows[:4]) == sorted(rows[4:]) == [0, 1, 2, 3]
    assert numbers(staged(tmp_path, stages=STAGES, shuffle="none").next(8)) == [0, 1, 2, 3, 0, 1, 2, 3]
    loader = staged(tmp_path, stages=STAGES, shuffle="first")
    loader.at(0.5)
    assert numbers(loader.next(6)) == [4, 5, 6, 4, 5, 6]


def test_a_review_is_of_the_stages_before(tmp_path):
    loader = staged(tmp_path, stages=STAGES, review=0.5)
    assert set(tasks(loader, 0.0, 200)) == {"a"}
    drawn = tasks(loader, 0.5, 400)
    assert set(drawn) == {"a", "b"} and drawn.count("a") / 400 == pytest.approx(0.5, abs=0.1)


def test_neutral_is_the_order_of_the_loader(tmp_path):
    plain = numbers(loader_of(tmp_path, [None] * 10, tasks=TASKS).next(25))
    assert numbers(staged(tmp_path).next(25)) == plain


def test_a_resumed_run_draws_the_same_rows(tmp_path):
    used, resumed = plugin("stage_order", stages=STAGES), plugin("stage_order", stages=STAGES)
    loader = drawing(loader_of(tmp_path, [None] * 10, tasks=TASKS), used.hooks["draw"])
    loader.next(6)
    again = drawing(loader_of(tmp_path, [None] * 10, tasks=TASKS), resumed.hooks["draw"])
    again.load_state_dict(json.loads(json.dumps(loader.state_dict())))
    resumed.load_state_dict(json.loads(json.dumps(used.state_dict())))
    assert numbers(again.next(9)) == numbers(loader.next(9))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stages": [["a"], ["b"]]}, "rows are of 'c', which is in no stage"),
        ({"stages": [["a", "b"], ["c"], ["d"]]}, r"no row is of the stage ['d']; there are: a, b, c"),
        ({"stages": [["a"], ["a"]]}, "a value stands twice"),
        ({"stages": STAGES, "shares": [0.5, 0.5]}, "shares are one for each of 3 stages"),
        ({"stages": STAGES, "transfer": [[0.5]]}, "a row and a column for each of the 3 stages"),
    ],
)
def test_what_does_not_fit_is_said(tmp_path, options, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        staged(tmp_path, **options).next(1)
