"""One dataset in several files, and datasets of which some rows are read."""

import json

import pytest

from mmrl.data.many_files import ChainedRows, open_files
from mmrl.errors import ConfigError


def write(path, *numbers):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"n": n}) + "\n" for n in numbers))


def test_rows_go_on_from_file_to_file_and_keep_their_places(tmp_path):
    write(tmp_path / "b.jsonl", 2)
    write(tmp_path / "a.jsonl", 0, 1)
    write(tmp_path / "c.jsonl")
    rows = open_files(tmp_path / "*.jsonl")
    assert isinstance(rows, ChainedRows)
    assert [rows.read(n)["n"] for n in range(len(rows))] == [0, 1, 2]
    assert [rows.origin(n) for n in range(len(rows))] == ["a.jsonl:1", "a.jsonl:2", "b.jsonl:1"]


def test_folders_may_be_patterns_too(tmp_path):
    write(tmp_path / "x1" / "rows.jsonl", 0)
    write(tmp_path / "x2" / "rows.jsonl", 1)
    assert len(open_files(tmp_path / "x*" / "rows.jsonl")) == 2


def test_a_pattern_that_fits_nothing_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match=r"no file fits this pattern$"):
        open_files(tmp_path / "*.parquet")
    with pytest.raises(ConfigError, match="no folder"):
        open_files(tmp_path / "absent" / "*.parquet")
