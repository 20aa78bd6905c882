"""Agreement over both orders: worked rewards, what is asked, rows without a twin."""

import pytest
import torch
from makers.batches import make_batch
from makers.made_rounds import MESSAGES, MadeRound
from makers.plugin_values import end_step, plugin, shaped

from mmrl.data.sample import MediaPart, TextPart
from mmrl.errors import DataError

TWIN = {"twin": "A: no. B: yes. Which?", "twin_answer": "B"}


def round_of(rewards, twins, *, columns=TWIN, **options):
    given = MadeRound(scores={"s0~twin": twins}, columns=columns)
    used = plugin("pair_agreement", **options)
    batch = make_batch([1] * len(rewards), rewards=rewards)
    return used, given, batch, used.hooks["second_round"](batch, given)


def test_a_verdict_counts_where_it_is_right_in_both_orders():
    used, given, _, merged = round_of([1.0, 1.0, 0.0], [1.0, 0.0, 0.0])
    assert shaped(used, merged) == [1.0, 0.0, 0.0, 1.0, 0.0, 0.0]
    assert end_step(used, merged) == {"pair_agreement/same": pytest.approx(2 / 3)}
    [asked] = given.asked
    assert (asked.task, asked.answer, asked.messages[0]) == ("math", "B", MESSAGES[0])
    assert asked.messages[1].parts == (MediaPart(0), TextPart(TWIN["twin"]))
    assert merged.gid_N.tolist() == [0, 0, 0, 100, 100, 100]


def test_half_of_it():
    used, _, _, merged = round_of([1.0, 1.0, 0.0], [1.0, 0.0, 0.0], coef=0.5)
    assert shaped(used, merged) == [1.0, 0.5, 0.0, 1.0, 0.0, 0.0]


def test_a_row_without_a_twin_or_an_unscored_one_keeps_its_reward():
    used, given, batch, merged = round_of([1.0, 0.0], [], columns={})
    assert merged is batch and given.asked == [] and shaped(used, batch) == [1.0, 0.0]
    used, _, _, merged = round_of([1.0, 0.0], [float("nan"), 1.0])
    assert shaped(used, merged)[:2] == [1.0, 0.0]
    assert torch.isnan(torch.tensor(shaped(used, merged)[2]))


def test_columns_of_another_form_are_refused():
    with pytest.raises(DataError, match="'twin' and 'twin_answer' must be texts"):
        round_of([1.0], [1.0], columns={"twin": "x", "twin_answer": 3})
