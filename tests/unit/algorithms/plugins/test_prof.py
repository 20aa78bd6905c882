"""PROF: which completions stay."""

import torch
from makers.plugin_values import plugin, scored_batch

SCORES = [0.9, 0.4, 0.8, 0.7, 0.6, 0.3, 0.8, 0.2]


def kept(rewards, scores=SCORES, gid=None, **options):
    batch = scored_batch(rewards, parts={"process": scores}, gid=gid)
    keep_N = plugin("prof", **options).hooks["keep"](batch, torch.tensor(rewards, dtype=torch.float64))
    return [score for score, keep in zip(scores, keep_N.tolist(), strict=True) if keep]


RIGHT_5 = [1.0] * 5 + [0.0] * 3


def test_the_lowest_right_and_the_highest_wrong_go():
    assert kept(RIGHT_5) == [0.9, 0.8, 0.3, 0.2]


def test_one_kind_alone_fills_the_group():
    assert kept([1.0] * 8) == [0.9, 0.8, 0.7, 0.8]
    assert kept([0.0] * 8) == [0.4, 0.6, 0.3, 0.2]
    assert kept([1.0] + [0.0] * 7) == [0.9, 0.4, 0.3, 0.2]


def test_nothing_goes_at_a_share_of_one():
    assert kept(RIGHT_5, keep_share=1.0) == SCORES


def test_right_only_keeps_wrong_ones_by_chance():
    found = kept(RIGHT_5, mode="right_only")
    assert found[:2] == [0.9, 0.8] and len(found) == 4
    drawn = [
        kept(RIGHT_5, [*SCORES[:5], *wrong], mode="right_only")[2:] for wrong in ([0.1, 0.5, 0.9], [0.9, 0.5, 0.1])
    ]
    places = [[[0.1, 0.5, 0.9].index(v) for v in drawn[0]], [[0.9, 0.5, 0.1].index(v) for v in drawn[1]]]
    assert places[0] == places[1]  # the same rows stay whatever their scores


def test_mixed_ranks_nothing():
    same = [kept(RIGHT_5, scores, mode="mixed") for scores in (SCORES, [1 - s for s in SCORES])]
    assert [round(1 - s, 4) for s in same[1]] == same[0]


def test_groups_are_filtered_apart_and_unscored_completions_go_first():
    nan = float("nan")
    assert kept([1.0, 0.0, nan, nan, 1.0, 1.0, 0.0, 0.0], gid=[0] * 4 + [1] * 4) == [0.9, 0.4, 0.6, 0.2]
    assert kept([1.0, 1.0, 0.0, 0.0], [nan, 0.1, nan, 0.9]) == [0.1, 0.9]
