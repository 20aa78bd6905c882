from dataclasses import fields, replace

import torch
from makers.batches import make_batch

from mmrl.algorithms.rollout_batch import Rewards, batch_from_groups, concatenate
from mmrl.data.rendered import RenderedPrompt
from mmrl.rollout.types import Completion, Group, Request, Sampling


def group(*completions, request_id="0"):
    prompt = RenderedPrompt.__new__(RenderedPrompt)  # nothing of it is read
    request = Request(request_id, prompt, n=len(completions), sampling=Sampling())
    return Group(request, tuple(Completion(ids, (-0.5,) * len(ids), reason, "", 0) for ids, reason in completions))


def rewards(*values):
    return Rewards(torch.tensor(values)[:, None], torch.ones(len(values), 1), ("r",))


def test_groups_become_rows():
    groups = [group(((5, 6), "stop"), ((7,), "length")), group(((), "stop"), ((8, 9, 1), "stop"))]
    batch = batch_from_groups(groups, ["a", "b"], rewards=rewards(1.0, 0.0, 1.0, 0.0), step=3, total_steps=9)
    assert batch.prompt_id == ("a", "a", "b", "b")
    assert batch.gid_N.tolist() == [0, 0, 1, 1]
    assert batch.ids_NC.tolist() == [[5, 6, 0], [7, 0, 0], [0, 0, 0], [8, 9, 1]]
    assert batch.length_N.tolist() == [2, 1, 0, 3]
    assert batch.rollout_NC[3].tolist() == [-0.5] * 3
    assert batch.truncated_N.tolist() == [False, True, False, False]
    assert (batch.step, batch.total_steps, len(batch)) == (3, 9, 4)


def test_staleness_is_counted_per_row_and_survives_joining():
    one = replace(make_batch([1, 2]), version_N=torch.tensor([3, 4]), policy_version=4)
    two = replace(make_batch([1]), version_N=torch.tensor([2]), policy_version=4)
    assert concatenate([one, two]).staleness_N.tolist() == [1, 0, 2]
    assert concatenate([one, two]).select(torch.tensor([2])).staleness_N.tolist() == [2]
    assert concatenate([one, make_batch([1])]).version_N is None
    assert make_batch([1, 2]).staleness_N.tolist() == [0, 0]


def test_joining_joins_every_column_of_rows():
    one, two = make_batch([1, 2], rewards=[1.0, 0.0]), make_batch([3], rewards=[5.0])
    columns = [item.name for item in fields(one) if item.name.endswith("_N")]
    filled = [
        replace(part, **{name: torch.arange(len(part)) for name in columns if getattr(part, name) is None})
        for part in (one, two)
    ]
    joined = concatenate(filled)
    assert {name: len(getattr(joined, name)) for name in columns} == dict.fromkeys(columns, 3)
    assert {"version_N", "combined_N"} <= set(columns)


def test_the_same_sample_twice_is_two_groups():
    groups = [group(((1,), "stop"), ((1,), "stop")), group(((1,), "stop"), ((1,), "stop"))]
    batch = batch_from_groups(groups, ["same", "same"], rewards=rewards(1.0, 0.0, 5.0, 3.0))
    assert batch.gid_N.tolist() == [0, 0, 1, 1]


def test_only_empty_completions():
    batch = batch_from_groups([group(((), "stop"), ((), "stop"))], ["a"], rewards=rewards(1.0, 0.0))
    assert batch.ids_NC.shape == (2, 0)


def test_select_takes_all_columns_along():
    batch = make_batch([1, 2, 3], gid=[0, 0, 1], rewards=[1.0, 2.0, 3.0], meta={"q": torch.tensor([7, 8, 9])})
    batch = replace(batch, kind=("fresh", "replay", "fresh"))
    by_mask = batch.select(torch.tensor([False, True, True]))
    by_index = batch.select(torch.tensor([2, 1]))
    assert by_mask.prompt_id == ("s0", "s1")
    assert by_mask.kind == ("replay", "fresh")
    assert by_mask.meta["q"].tolist() == [8, 9]
    assert by_mask.weights_NK.tolist() == [1.0]
    assert by_index.rewards_NK.flatten().tolist() == [3.0, 2.0]
    assert by_index.length_N.tolist() == [3, 2]


def test_concatenate_keeps_groups_apart_and_pads():
    first = make_batch([1, 2], gid=[4, 4], rewards=[1.0, 0.0])
    second = make_batch([3, 1, 1], gid=[4, 0, 4], rewards=[0.0, 1.0, 1.0])
    both = concatenate([first, second])
    assert both.gid_N.tolist() == [0, 0, 1, 2, 1]
    assert both.mask_NC.sum(1).tolist() == [1, 2, 3, 1, 1]
    assert both.weights_NK.shape == (5, 1)
    assert both.rewards_NK.flatten().tolist() == [1.0, 0.0, 0.0, 1.0, 1.0]
    assert both.entropy_NC is None
    assert len(both) == 5


def test_concatenate_with_a_batch_that_lost_all_its_rows():  # fault 66: a round in which no group has signal
    first = make_batch([1, 2]).select(torch.zeros(2, dtype=torch.bool))
    assert len(first) == 0
    assert concatenate([first, make_batch([3, 1])]).length_N.tolist() == [3, 1]
    assert concatenate([first]).gid_N.tolist() == []


def test_a_column_of_tokens_is_as_wide_as_the_joined_rows_though_the_longest_lack_it():
    of_tokens = make_batch([2, 1], meta={"c": torch.tensor([[1.0, 2.0], [3.0, torch.nan]])})
    steps = make_batch([2, 1], meta={"c": torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])})
    assert concatenate([make_batch([4]), of_tokens]).meta["c"].nan_to_num(-1).tolist() == [
        [-1, -1, -1, -1],
        [1, 2, -1, -1],
        [3, -1, -1, -1],
    ]
    assert concatenate([make_batch([4]), steps]).meta["c"].shape == (3, 3)
