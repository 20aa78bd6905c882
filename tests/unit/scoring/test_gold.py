"""Answers of datasets: what is none is an error that names the row, never a text that no completion can match."""

import pytest
from makers.scoring import answered

from mmrl.errors import RewardError
from mmrl.scoring.gold import gold_integers, gold_text, gold_texts
from mmrl.scoring.pool import RewardCall, run_call

NAN = float("nan")


@pytest.mark.parametrize("answer", [None, NAN, float("-inf"), True, "", " ", {"a": 1}, ["a"]])
def test_what_is_no_text(answer):
    with pytest.raises(RewardError, match=r"rows\.jsonl:7 .* is not a text or a number"):
        gold_text(answered(answer))


@pytest.mark.parametrize("answer", [[], [NAN], ["a", NAN], ["a", True], ["a", ""], ["a", None], [["a"]]])
def test_what_is_no_list_of_texts(answer):
    with pytest.raises(RewardError, match="is not a list of texts"):
        gold_texts(answered(answer))


@pytest.mark.parametrize("answer", [[], [[1, 2]], [True, 2], [1, "2"], [1.5], "1,x", NAN, None])
def test_what_is_no_list_of_integers(answer):
    with pytest.raises(RewardError, match="is not a list of integers"):
        gold_integers(answered(answer))


def test_what_is_one():
    assert gold_text(answered("<answer>B</answer>")) == "B" and gold_text(answered(2.5)) == "2.5"
    assert gold_texts(answered([" cat ", 3])) == ("cat", "3")
    assert gold_integers(answered([3, 1, 2])) == gold_integers(answered("3,1,2")) == (3, 1, 2)


@pytest.mark.parametrize("reward", ["anls", "exact_text", "ocr_cer", "open_ended", "string_match", "table_qa", "math"])
def test_an_answer_that_a_table_lacks_is_no_zero(reward):
    (outcome,) = run_call(RewardCall(reward, None, {}, ((answered(NAN), ("nan",)),)))
    assert outcome.event == "bad_answer" and "rows.jsonl:7" in outcome.message
