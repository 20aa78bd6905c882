"""Columns of a second file, joined by id, and ranges of numbers in `select`."""

import pytest
from makers.rows import read, text_rows, write_jsonl

from mmrl.errors import DataError


def rated(tmp_path, *rates, first=1):
    rows = [{"id": f"a:{n}", "pass_rate": rate} for n, rate in enumerate(rates, start=first)]
    write_jsonl(tmp_path / "ratings.jsonl", rows)
    return write_jsonl(tmp_path / "a.jsonl", text_rows(4))


def test_the_columns_come_to_the_row_of_that_id(tmp_path):
    path = rated(tmp_path, 0.5, 0.25)
    samples = read(path, columns_from="ratings.jsonl")
    assert [sample.columns["pass_rate"] for sample in samples] == [0.5, 0.25, None, None]


def test_a_band_is_a_range_with_both_ends(tmp_path):
    path = rated(tmp_path, 0.0, 0.25, 0.75)
    band = {"pass_rate": {"min": 0.25, "max": 0.75}}
    assert [s.sample_id for s in read(path, columns_from="ratings.jsonl", select=band)] == ["a:2", "a:3"]
    below = {"pass_rate": {"max": 0.25}}
    assert [s.sample_id for s in read(path, columns_from="ratings.jsonl", select=below)] == ["a:1", "a:2"]


def test_a_mapping_of_other_keys_is_a_value_and_a_range_is_of_numbers(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", text_rows(2, kind={"x": 1}))
    assert len(read(path, select={"kind": {"x": 1}})) == 2
    with pytest.raises(DataError, match=r"a.jsonl:1: `select` asks for a range of 'task', which is text here"):
        read(path, select={"task": {"min": 0}})


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([{"pass_rate": 1.0}], r"ratings.jsonl:1: no `id`"),
        ([{"id": "a:1"}, {"id": "a:1"}], r"ratings.jsonl:2: the id 'a:1' stands in this file twice"),
        ([{"id": "b:1", "pass_rate": 1.0}], r"none of its 1 ids is an id of a.jsonl"),
        ([{"id": "a:2", "answer": "x"}], r"a.jsonl:1: column 'answer' is in the row and in"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(tmp_path, lines, message):
    write_jsonl(tmp_path / "ratings.jsonl", lines)
    with pytest.raises(DataError, match=message):
        read(write_jsonl(tmp_path / "a.jsonl", text_rows(2)), columns_from="ratings.jsonl")
