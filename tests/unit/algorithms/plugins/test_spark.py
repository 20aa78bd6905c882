"""SPARK: which items a group becomes, what they ask, and how many are kept."""

from collections import Counter

import pytest
import torch
from makers.batches import make_batch
from makers.made_rounds import MadeRound
from makers.plugin_values import end_step, plugin


def items(rewards, gid=None, texts=None, step=0, **options):
    batch = make_batch([1] * len(rewards), gid=gid, rewards=rewards, step=step)
    given = MadeRound(texts)
    used = plugin("spark", **options)
    merged = used.hooks["second_round"](batch, given)
    return given.asked, merged, used


words = MadeRound.words


def test_all_right_is_one_judging_item_on_the_first_answer():
    [item], merged, used = items([1.0] * 4)
    assert (item.sample_id, item.task, item.answer, item.answer_space) == ("s0~pointwise", "judge", "Yes", None)
    assert words(item) == ("\n\nAn answer to this was:\nthought 0\nanswer 0\n\nIs it correct? Answer Yes or No.")
    assert len(merged) == 12 and Counter(merged.kind) == {"fresh": 4, "recycled": 8}
    assert sorted(set(merged.gid_N.tolist())) == [0, 100]
    assert end_step(used, merged) == {"spark/pointwise": 1.0, "spark/pairwise": 0.0, "spark/reflection": 0.0}


def test_all_wrong_is_a_judging_item_and_a_reflection():
    pointwise, reflection = items([0.0] * 4)[0]
    assert (pointwise.answer, pointwise.task) == ("No", "judge")
    assert (reflection.sample_id, reflection.task, reflection.answer) == ("s0~reflection", "math", "4")
    assert reflection.answer_space == "0..1000"


def test_mixed_is_a_pair_in_random_order():
    found = [items([1.0, 0.0], texts=["right", "wrong"], step=step, pointwise=0.0)[0][0] for step in range(40)]
    assert {item.sample_id for item in found} == {"s0~pairwise"}
    orders = Counter((words(item).index("right") < words(item).index("wrong"), item.answer) for item in found)
    assert set(orders) == {(True, "A"), (False, "B")}
    assert min(orders.values()) >= 8


def test_the_label_of_a_pointwise_item_follows_its_answer():
    found = [items([1.0, 0.0], texts=["right", "wrong"], step=step, pointwise=1.0)[0][0] for step in range(20)]
    assert {("right" in words(item), item.answer) for item in found} == {(True, "Yes"), (False, "No")}


def test_reflections_show_the_reasoning_to_the_first_half_and_the_answer_to_the_second():
    found = [item for item in items([0.0] * 4, gid=[0, 1, 2, 3])[0] if item.sample_id.endswith("reflection")]
    shown = {item.sample_id[:2]: "thought" in words(item) for item in found}
    assert shown == {"s0": True, "s1": True, "s2": False, "s3": False}


def test_empty_wrong_answers_are_not_shown():
    assert items([0.0, 0.0], texts=["", " "])[0] == []
    found = items([1.0, 0.0], texts=["right", ""], pointwise=0.0)[0]
    assert [item.sample_id for item in found] == ["s0~pointwise"]


def test_kinds_are_as_many_as_the_source_expects():
    """Of 64 prompts 80% mixed: 35.84 pairwise and 28.16 pointwise items; here 10 times as many."""
    rewards = [r for n in range(640) for r in ((1.0, 0.0) if n % 5 else (1.0, 1.0))]
    asked, _, _ = items(rewards, gid=[n // 2 for n in range(1280)], most=10_000, answers=1)
    counts = Counter(item.sample_id.rpartition("~")[2] for item in asked)
    assert counts["pairwise"] + counts["pointwise"] == 640
    assert counts["pairwise"] == pytest.approx(358.4, abs=3 * (512 * 0.3 * 0.7) ** 0.5)
    assert counts["reflection"] == 512


def test_of_each_kind_at_most_so_many_are_kept_and_none_without_any():
    asked, merged, _ = items([1.0, 0.0] * 50, gid=[n // 2 for n in range(100)], most=5, answers=2)
    counts = Counter(item.sample_id.rpartition("~")[2] for item in asked)
    assert counts == {"pairwise": 5, "pointwise": 5, "reflection": 5}
    assert len(merged) == 100 + 15 * 2
    assert items([1.0, 0.0], most=0)[0] == []


def test_the_same_step_makes_the_same_items():
    first, second = (items([1.0, 0.0] * 9, gid=[n // 2 for n in range(18)])[0] for _ in range(2))
    assert [words(item) for item in first] == [words(item) for item in second]
    assert torch.equal(items([1.0] * 4)[1].gid_N, items([1.0] * 4)[1].gid_N)
