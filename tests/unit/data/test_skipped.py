"""Skipped rows: listed once with their reason, and a stop when they are too many."""

import json

import pytest

from mmrl.data.sample import Sample
from mmrl.data.skipped import Skipped, SkippedLog
from mmrl.errors import TooManySkippedError


def row(number: int, *, dataset: str = "d", kind="bad_media") -> Skipped:
    return Skipped(dataset, str(number), f"{dataset}.jsonl:{number}", kind, f"reason {number} é")


def test_a_row_is_listed_once_with_its_reason(tmp_path):
    log = SkippedLog(tmp_path / "skipped.jsonl", max_fraction=1)
    for number in (1, 2, 1):
        log.skip(row(number))
    lines = (tmp_path / "skipped.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["reason"] for line in lines] == ["reason 1 é", "reason 2 é"]
    assert log.rows == (row(1), row(2))


def test_of_a_sample():
    sample = Sample("7", "t", "text", (), origin="a.jsonl:3", dataset="a")
    assert Skipped.of(sample, kind="too_long", reason="r") == Skipped("a", "7", "a.jsonl:3 (id=7)", "too_long", "r")


def test_the_limit_holds_per_dataset():
    log = SkippedLog(None, max_fraction=0.1)
    log.rows_read("big", 1000)
    log.rows_read("small", 10)
    log.skip(row(1, dataset="small"))
    log.check()
    log.skip(row(2, dataset="small", kind="too_long"))
    with pytest.raises(TooManySkippedError) as error:
        log.check()
    assert str(error.value) == (
        "dataset 'small': 2 of 10 rows skipped (1 bad_media, 1 too_long), more than data.max_skipped_fraction=0.1. "
        "First: small.jsonl:1: reason 1 é"
    )


def test_resume_reads_the_file_back_and_cuts_it(tmp_path):  # fault 74
    path = tmp_path / "skipped.jsonl"
    log = SkippedLog(path, max_fraction=1)
    log.skip(row(1))
    size = log.size
    log.skip(row(2))
    with path.open("a") as file:
        file.write('{"dataset": "d", "sam')  # killed while it wrote
    again = SkippedLog(path, max_fraction=1)
    assert again.rows == (row(1), row(2))
    again.cut(size)
    assert again.rows == (row(1),) and again.size == size
    again.skip(row(2))
    assert len(path.read_text(encoding="utf-8").splitlines()) == 2
