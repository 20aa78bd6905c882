"""samples.jsonl: what a killed process leaves, what another task file leaves, what is asked again."""

import json

import pytest

from mmrl.errors import DataError
from mmrl.evaluate.records import Record, RecordFile


def record(key: str, repeat: int = 0, *, task: str = "t1", status="ok") -> Record:
    return Record(task, key, repeat, status, completion="A")


def opened(tmp_path, *, task: str = "t1", repeats: int = 1) -> RecordFile:
    return RecordFile(tmp_path / "samples.jsonl", task_hash=task, repeats=repeats)


def test_records_come_back_by_key(tmp_path):
    file = opened(tmp_path)
    assert file.read() == {}
    file.append([record("a")])
    file.append([record("b", status="truncated")])
    assert file.read() == {"a": [record("a")], "b": [record("b", status="truncated")]}


def test_a_line_that_was_being_written_is_asked_again(tmp_path):
    file = opened(tmp_path)
    file.append([record("a"), record("b")])
    text = file.path.read_text()
    file.path.write_text(text[:-9])
    assert list(file.read()) == ["a"]
    file.keep(file.read())
    file.append([record("b")])
    assert list(file.read()) == ["a", "b"] and len(file.path.read_text().splitlines()) == 2


def test_a_question_counts_with_all_its_answers_only(tmp_path):
    file = opened(tmp_path, repeats=2)
    file.append([record("a", 0), record("a", 1), record("b", 0)])
    file.append([record("c", status="error")])
    assert list(file.read()) == ["a", "c"]


def test_answers_under_another_task_file_stay_and_do_not_count(tmp_path):
    opened(tmp_path, task="old").append([record("a", task="old")])
    new = opened(tmp_path)
    assert new.read() == {}
    new.append([record("a")])
    new.keep(new.read())
    assert [json.loads(line)["task_hash"] for line in new.path.read_text().splitlines()] == ["old", "t1"]


def test_a_damaged_line_is_named(tmp_path):
    file = opened(tmp_path)
    file.path.write_text('{"task_hash": "t1"}\n')
    with pytest.raises(DataError, match=r"samples\.jsonl:1: not a record of this version"):
        file.read()


def test_what_was_appended_is_in_the_file_at_once_and_keeping_makes_a_file_that_is_appended_to(tmp_path):
    file = opened(tmp_path)
    for key in "abc":
        file.append([record(key)])
        assert list(opened(tmp_path).read())[-1] == key
    file.keep({"a": [record("a")]})
    file.append([Record("t1", "d", 0, "ok", completion="é", answer=(1, [2.5]), answer_space="0..1000")])
    file.close()
    file.append([record("e")])
    file.close()
    found = opened(tmp_path).read()
    assert list(found) == ["a", "d", "e"]
    assert found["d"] == [Record("t1", "d", 0, "ok", completion="é", answer=[1, [2.5]], answer_space="0..1000")]


def test_a_letter_that_was_being_written_is_asked_again(tmp_path):
    file = opened(tmp_path)
    file.append([record("a"), record("é")])
    file.close()
    file.path.write_bytes(file.path.read_bytes().partition("é".encode())[0] + "é".encode()[:1])
    assert list(file.read()) == ["a"]
