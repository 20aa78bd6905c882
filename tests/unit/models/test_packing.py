"""Rows and micro-batches: what a query sees, where log-probs belong, how rows are padded together."""

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from makers.rendered import make_clip, make_image, make_prompt

from mmrl.algorithms.batch import Row, Segment
from mmrl.models.packing import group_row, group_rows, pack, plan_micro_batches, separate_rows

PROCESSOR = SimpleNamespace(pad_token_id=99)
PAD_IDS = {"image": 90, "video": 91}


def prompt_of(*parts, family="qwen2_5_vl"):
    return make_prompt(parts, family=family, pad_ids=PAD_IDS)


def text_row(length: int) -> Row:
    return group_row(prompt_of(range(length)), [], [])


def test_a_group_holds_its_prompt_once_and_every_completion_restarts_after_it():
    micro = pack([group_row(prompt_of([1, 2, 3]), [[4, 5], [6]], [0, 1])], PROCESSOR)

    assert micro.ids_BT.tolist() == [[1, 2, 3, 4, 5, 6]]
    assert micro.positions_3BT[1, 0].tolist() == [0, 1, 2, 3, 4, 3]
    assert micro.predict_L.tolist() == [2, 3, 2]
    assert micro.target_L.tolist() == [4, 5, 6]
    assert micro.sequence_L.tolist() == [0, 0, 1]
    assert micro.token_L.tolist() == [0, 1, 0]


def test_a_completion_sees_the_prompt_and_itself_only():
    micro = pack([group_row(prompt_of([1, 2]), [[4, 5], [6]], [0, 1])], PROCESSOR)

    assert micro.mask_B1TT is not None
    assert micro.mask_B1TT[0, 0].int().tolist() == [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [1, 1, 1, 0, 0],
        [1, 1, 1, 1, 0],
        [1, 1, 0, 0, 1],
    ]


def test_a_deeper_segment_sees_all_of_its_ancestors_and_no_cousin():
    ids = [torch.tensor([i]) for i in range(4)]
    positions = torch.zeros(3, 1, dtype=torch.long)
    parents = [(-1, None), (0, 0), (1, 0), (0, 1)]
    row = Row(tuple(Segment(i, positions, p, s) for i, (p, s) in zip(ids, parents, strict=True)), ())
    micro = pack([row], PROCESSOR)

    assert micro.mask_B1TT is not None
    assert micro.mask_B1TT[0, 0].int().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 0, 0, 1]]
    assert micro.predict_L.tolist() == [0, 1, 0]


def test_rows_are_padded_on_the_right_and_padding_is_seen_by_nobody_else():
    short, long = group_row(prompt_of([1]), [[2], [3]], [0, 1]), group_row(prompt_of([4]), [[5, 6], [7, 8]], [2, 3])
    micro = pack([short, long], PROCESSOR)

    assert micro.ids_BT.tolist() == [[1, 2, 3, 99, 99], [4, 5, 6, 7, 8]]
    assert micro.mask_B1TT is not None
    assert not micro.mask_B1TT[0, 0, :3, 3:].any()
    assert micro.mask_B1TT[0, 0].any(-1).all()
    assert micro.predict_L.tolist() == [0, 0, 5, 6, 5, 8]
    assert micro.sequence_L.tolist() == [0, 1, 2, 2, 3, 3]


def test_separate_rows_and_single_completions_need_no_mask():
    prompt = prompt_of([1, 2])
    rows = separate_rows(prompt, [[3], [4, 5]], [0, 1])

    assert [row.num_tokens for row in rows] == [3, 4]
    assert pack(rows, PROCESSOR).mask_B1TT is None


def test_a_later_turn_says_where_its_tokens_belong():
    positions = torch.zeros(3, 2, dtype=torch.long)
    turn = Segment(torch.tensor([8, 9]), positions, parent=0, sequence=5, first_token=7)
    micro = pack([Row((Segment(torch.tensor([1, 2]), positions), turn), ())], PROCESSOR)

    assert micro.sequence_L.tolist() == [5, 5]
    assert micro.token_L.tolist() == [7, 8]


def test_an_empty_completion_gets_no_segment():
    row = group_row(prompt_of([1, 2]), [[], [3]], [0, 1])

    assert pack([row], PROCESSOR).sequence_L.tolist() == [1]


def test_rows_without_loss_give_empty_columns():
    assert pack([text_row(3)], PROCESSOR).predict_L.tolist() == []


def test_each_medium_is_listed_once_and_every_run_in_token_order():
    image = make_image("qwen3_vl", seed=1)
    clip = make_clip("qwen3_vl", seed=2, frames=4)
    first = prompt_of([1], image, [2], clip, family="qwen3_vl")
    second = prompt_of([1], clip, [2], image, family="qwen3_vl")
    micro = pack([group_row(first, [[3], [4]], [0, 1]), group_row(second, [[5]], [2])], PROCESSOR)

    assert micro.media == (image, clip)
    assert micro.media_order == ((0, 0, 4), (1, 0, 2), (1, 2, 2), (1, 0, 2), (1, 2, 2), (0, 0, 4))
    assert int((micro.ids_BT >= 90).logical_and(micro.ids_BT < 92).sum()) == sum(run[2] for run in micro.media_order)


@pytest.mark.parametrize(
    ("limit", "expected"),
    [(100, [[0, 1, 2, 3]]), (8, [[0, 1], [2], [3]]), (9, [[0, 1], [2, 3]]), (3, [[0], [1], [2], [3]])],
)
def test_a_group_above_the_limit_becomes_as_few_rows_as_fit(limit: int, expected: list[list[int]]):
    rows = group_rows(prompt_of([1, 2, 3, 4]), [[5, 5], [5, 5], [5, 5, 5], [5, 5]], [0, 1, 2, 3], max_tokens=limit)

    assert [[s.sequence for s in row.segments[1:]] for row in rows] == expected


@given(lengths=st.lists(st.integers(1, 40), min_size=1, max_size=30), limit=st.integers(1, 120))
def test_every_row_is_in_one_micro_batch_within_the_limit(lengths: list[int], limit: int):
    rows = [text_row(length) for length in lengths]
    batches = plan_micro_batches(rows, limit)

    assert sorted(id(row) for batch in batches for row in batch) == sorted(id(row) for row in rows)
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(row.num_tokens for row in batch) <= limit


def test_longest_rows_go_first_so_that_neighbours_are_alike():
    rows = [text_row(length) for length in (2, 10, 3, 9)]

    assert [[r.num_tokens for r in batch] for batch in plan_micro_batches(rows, 20)] == [[10, 9], [3, 2]]
