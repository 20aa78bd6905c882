"""What is kept of the completions of a prompt, maker by maker, and that made rows are read over their sources."""

import json
import math
import random
from dataclasses import replace
from pathlib import Path

import pytest
from makers.rows import read, write_jsonl

from mmrl.data.rollout_roles import aggregate, judge, questions, reflect, verify
from mmrl.data.rollout_rows import (
    MadeRow,
    SampledGroup,
    as_json,
    correct,
    damaged_pairs,
    format_pairs,
    mean_form,
    read_made_rows,
    reward_pairs,
)
from mmrl.data.sample import MediaPart, MediaRef, Message, Sample, TextPart
from mmrl.errors import DataError

SAMPLE = Sample("s", "t", "image", (Message("user", (MediaPart(0), TextPart("Why?"))),), answer="42", dataset="d")
SAMPLE = replace(SAMPLE, media=(MediaRef("image", Path("/a.png")),))


def group(scores, *, texts=None, forms=None, lengths=None, cut=()) -> SampledGroup:
    texts = tuple(texts or (f"text {n}" for n in range(len(scores))))
    forms = tuple(forms or (math.nan,) * len(scores))
    lengths = tuple(lengths or (1,) * len(scores))
    return SampledGroup(SAMPLE, texts, tuple(scores), forms, lengths, tuple(n in cut for n in range(len(scores))))


def chance() -> random.Random:
    return random.Random(0)


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"most": 2}, ["text 1", "text 3"]),  # lengths 20 and 40 of 10, 20, 30, 40
        ({"most": 2, "lengths": "short"}, ["text 0", "text 1"]),
        ({"most": 1}, ["text 2"]),
        ({"most": 9}, ["text 0", "text 1", "text 2", "text 3"]),
        ({"threshold": 1.1}, []),
    ],
)
def test_right_completions_are_kept_evenly_by_length(options, kept):
    scored = group([1, 1, 1, 1, 0, 1, math.nan], lengths=[10, 20, 30, 40, 5, 5, 5], cut={5})
    assert [row.columns for row in correct(scored, chance(), **options)] == [{"demonstration": text} for text in kept]


def test_a_text_is_kept_once():
    rows = list(correct(group([1, 1, 1], texts=["a", "a", "b"]), chance(), most=3))
    assert sorted(row.columns["demonstration"] for row in rows) == ["a", "b"]


def test_pairs_by_form_are_equally_right():
    scored = group([1, 1, 0, 0], forms=[1, 0, 0.2, 1])
    pairs = [tuple(row.columns.values()) for row in format_pairs(scored, chance(), most=4)]
    assert sorted(pairs) == [("text 0", "text 1"), ("text 3", "text 2")]
    assert list(format_pairs(group([1, 0], forms=[1, 0]), chance())) == []
    assert list(format_pairs(group([1, 1]), chance())) == []  # a task without format parts
    assert len(list(format_pairs(scored, chance(), most=1))) == 1


def test_a_damaged_answer_keeps_its_words_and_loses_tags():
    said = "<think>a</think><answer>b</answer>"
    scored = group([1, 1, 0, 1], texts=[said, "no tags", said, said], forms=[1, 1, 1, 0])
    damaged = set()
    for seed in range(40):
        [row] = damaged_pairs(scored, random.Random(seed), most=4)
        assert row.columns["chosen"] == said
        damaged.add(row.columns["rejected"])
    assert damaged == {
        *("ab", "a</think><answer>b</answer>", "<think>a<answer>b</answer>"),
        *("<think>a</think>b</answer>", "<think>a</think><answer>b"),
    }


def test_pairs_by_reward_take_the_furthest_first():
    [row] = reward_pairs(group([0.5, 1.0, 0.0, math.nan]), chance())
    assert row.columns == {"chosen": "text 1", "rejected": "text 2"}
    assert list(reward_pairs(group([0.6, 0.5]), chance())) == []


def test_a_verifier_sees_as_many_right_as_wrong_answers():
    rows = list(verify(group([1, 1, 1, 0]), chance(), most=3))
    assert [(row.task, row.answer) for row in rows] == [("judge", "Yes"), ("judge", "No")]
    assert rows[1].append is not None and "text 3" in rows[1].append
    assert len(list(verify(group([1, 1, 1, 1]), chance(), most=3, balance=False))) == 3
    assert list(verify(group([1, 1]), chance())) == []


def test_a_judge_sees_each_pair_in_both_orders():
    first, second = judge(group([1, 0]), chance())
    assert (first.answer, second.answer) == ("A", "B")
    assert first.append is not None and second.append is not None
    assert first.append.index("text 0") < first.append.index("text 1")
    assert second.append.index("text 1") < second.append.index("text 0")
    assert len(list(judge(group([1, 0]), chance(), both_orders=False))) == 1
    twins = list(judge(group([1, 0]), chance(), twin=True))
    assert [row.columns for row in twins] == [
        {"twin": second.append, "twin_answer": "B"},
        {"twin": first.append, "twin_answer": "A"},
    ]
    assert list(judge(group([1, 1]), chance())) == []


def test_an_aggregator_gets_candidates_and_few_easy_rows():
    [row] = aggregate(group([1, 0, 0, 0]), chance(), candidates=3)
    assert (row.answer, row.task) == (None, None)  # those of the question
    assert row.append is not None and row.append.count("Answer ") == 3
    assert list(aggregate(group([1, 1, 1, 0]), chance(), candidates=4, easy=0.0)) == []
    assert len(list(aggregate(group([1, 1, 1, 0]), chance(), candidates=4, easy=1.0))) == 1
    assert list(aggregate(group([1, 1]), chance(), candidates=4)) == []


def test_reflection_needs_a_wrong_answer():
    [row] = reflect(group([1, 0]), chance())
    assert row.append is not None and "text 1" in row.append
    assert list(reflect(group([1, 1]), chance())) == []


def test_questions_are_parsed_and_put_into_their_form():
    said = ["<question> How many? </question>\n<answer> 3 </answer>", "no question", "<question>How many?</question>"]
    [row] = questions(group([0, 0, 0], texts=said), chance(), task="count", most=5, form="{question} Say a number.")
    assert row == MadeRow(question="How many? Say a number.", task="count", answer="3")


def test_the_form_is_the_weighted_mean_of_its_parts():
    assert mean_form([1.0, 0.0], [0.3, 0.1]) == pytest.approx(0.75)
    assert math.isnan(mean_form([], []))


def test_made_rows_are_read_over_their_sources(tmp_path):
    rows = [{"prompt": f"q{n}", "answer": f"a{n}", "task": "text", "id": f"i{n}", "extra": n} for n in range(3)]
    source = read(write_jsonl(tmp_path / "train.jsonl", rows))
    made = [
        as_json(MadeRow(columns={"demonstration": "b"}), source[2], name="r-0-0"),
        as_json(MadeRow(append=" Yes or no?", task="judge", answer="Yes"), source[0], name="r-0-1"),
        as_json(MadeRow(question="How many?", answer=3), source[0], name="r-0-2"),
    ]
    again = read_made_rows(write_jsonl(tmp_path / "r.jsonl", made), [source], stage="r")
    first, second, third = again
    assert (first.sample_id, first.answer, first.columns) == ("i2~r-0-0", "a2", {"extra": 2, "demonstration": "b"})
    assert [part.text for part in second.messages[-1].parts if isinstance(part, TextPart)] == ["q0", " Yes or no?"]
    assert (second.task, second.answer, second.dataset) == ("judge", "Yes", source[0].dataset)
    assert third.messages == (Message("user", (TextPart("How many?"),)),)
    assert again.task_counts() == {"text": 2, "judge": 1}
    assert third.origin == "r.jsonl:3"
    assert json.loads((tmp_path / "r.jsonl").read_text().splitlines()[0])["source"] == {"dataset": "train", "id": "i2"}


def test_rows_without_source_and_empty_files_are_told(tmp_path):
    source = read(write_jsonl(tmp_path / "train.jsonl", [{"prompt": "q", "answer": "a", "task": "text", "id": "i"}]))
    with pytest.raises(DataError, match="stage 'r' kept no rows; lower its threshold"):
        read_made_rows(tmp_path / "none.jsonl", [source], stage="r")
    lost = as_json(MadeRow(), replace(source[0], sample_id="gone"), name="r-0-0")
    with pytest.raises(DataError, match=r"r.jsonl:1: dataset 'train' has no row 'gone' any more"):
        read_made_rows(write_jsonl(tmp_path / "r.jsonl", [lost]), [source], stage="r")


def test_sources_are_looked_up_and_not_searched_for(tmp_path, monkeypatch):
    rows = [{"prompt": "q", "answer": "a", "task": "ab"[n % 2], "id": f"i{n}"} for n in range(500)]
    source = read(write_jsonl(tmp_path / "train.jsonl", rows))
    second = read(write_jsonl(tmp_path / "more.jsonl", rows[:4]))
    made = [as_json(MadeRow(answer=str(n)), sample, name="r") for n, sample in enumerate((source[499], second[3]))]
    read_rows, own = [], type(source._datasets[0]).sample
    monkeypatch.setattr(
        type(source._datasets[0]), "sample", lambda self, *of: read_rows.append((self.name, *of)) or own(self, *of)
    )
    again = read_made_rows(write_jsonl(tmp_path / "r.jsonl", made), [source, second], stage="r")
    assert {row[:2] for row in read_rows} == {("train", 499), ("more", 3), ("train", 3)}
    assert [(sample.dataset, sample.sample_id, sample.answer) for sample in again] == [
        ("train", "i499~r", "0"),
        ("more", "i3~r", "1"),
    ]
    assert source.of_tasks({"b"}).places_of([("train", "i499"), ("train", "i498")]) == {("train", "i499"): 249}
    assert source[10:20].places_of([("train", "i13"), ("train", "i3")]) == {("train", "i13"): 3}
    assert again.places_of([("more", "i3~r"), ("train", "i3~r")]) == {("more", "i3~r"): 1}
