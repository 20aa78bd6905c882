"""Files of every format yield the same rows, with the line of each."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from mmrl.data.rows import ParquetRows, open_rows
from mmrl.errors import ConfigError, DataError

ROWS = [
    {"prompt": "Wo ist der Hund? 犬", "images": ["a.jpg"], "meta": {"n": 1, "tags": ["x"]}},
    {"prompt": "2\n3", "images": [], "meta": {"n": 2, "tags": []}},
    {"prompt": "c", "images": None, "meta": None},
]


def contents(path: Path, **options) -> list[dict]:
    rows = open_rows(path, **options)
    return [rows.read(n) for n in range(len(rows))]


def write_bytes(path: Path, raw: bytes) -> Path:
    path.write_bytes(raw)
    return path


def save_hub_folder(path: Path, rows: list[dict]) -> Path:
    import datasets

    datasets.Dataset.from_list(rows).save_to_disk(str(path))
    return path


def write_parquet(path: Path, rows: list[dict]) -> Path:
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=2)
    return path


def as_jsonl(rows: list[dict]) -> str:
    return "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)


WRITERS = {
    "rows.jsonl": lambda path: write_bytes(path, as_jsonl(ROWS).encode()),
    "rows.ndjson": lambda path: write_bytes(path, as_jsonl(ROWS).encode() + b"\n"),
    "rows.json": lambda path: write_bytes(path, json.dumps(ROWS, ensure_ascii=False, indent=1).encode()),
    "escaped.json": lambda path: write_bytes(path, json.dumps(ROWS).encode()),
    "rows.parquet": lambda path: write_parquet(path, ROWS),
    "folder": lambda path: save_hub_folder(path, ROWS),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_yields_the_same_rows(tmp_path, name):
    assert contents(WRITERS[name](tmp_path / name)) == ROWS


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.json"])
def test_text_is_utf8_with_or_without_byte_order_mark(tmp_path, name):  # fault 30
    plain = WRITERS[name](tmp_path / name).read_bytes()
    assert contents(write_bytes(tmp_path / name, b"\xef\xbb\xbf" + plain)) == ROWS


def test_utf8_whatever_the_locale(tmp_path):  # fault 30
    path = WRITERS["rows.jsonl"](tmp_path / "rows.jsonl")
    code = "from mmrl.data.rows import *; import sys; print(ascii(open_rows(Path(sys.argv[1])).read(0)))"
    env = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code, path], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ascii(ROWS[0])


def test_blank_lines_are_no_rows_but_count_as_lines(tmp_path):
    rows = open_rows(write_bytes(tmp_path / "a.jsonl", b'\n{"a": 1}\r\n  \n\n{"a": 2}'))
    assert [(rows.origin(n), rows.read(n)) for n in range(len(rows))] == [
        ("a.jsonl:2", {"a": 1}),
        ("a.jsonl:5", {"a": 2}),
    ]


def test_rows_of_a_json_list_know_their_line(tmp_path):
    rows = open_rows(write_bytes(tmp_path / "a.json", '[{"a":\n"é"},\n\n {"a": 2}, {"a": 3}]\n'.encode()))
    assert [rows.origin(n) for n in range(len(rows))] == ["a.json:1", "a.json:4", "a.json:4"]
    assert [rows.read(n)["a"] for n in range(len(rows))] == ["é", 2, 3]


def test_an_empty_list_has_no_rows(tmp_path):
    assert len(open_rows(write_bytes(tmp_path / "a.json", b" [ ] \n"))) == 0


@pytest.mark.parametrize(
    ("name", "raw", "message"),
    [
        ("a.jsonl", b'{"a": 1}\n{"a": }\n', "a.jsonl:2: not valid JSON: Expecting value at character 7"),
        ("a.jsonl", b'{"a": 1}\n[1, 2]\n', "a.jsonl:2: a row must be a JSON object, this is a list"),
        ("a.jsonl", b"3\n", "a.jsonl:1: a row must be a JSON object, this is a number"),
        ("a.jsonl", '{"a": "é"}'.encode("latin-1"), "a.jsonl:1: not UTF-8 text"),
        ("a.json", b'[{"a": 1},\n {"a" 1}]', "a.json:2: not valid JSON: Expecting ':' delimiter, column 7"),
        ("a.jsonl", b'{"a": 1}\n{"a": 1, "b": 2, "a": 3}\n', "a.jsonl:2: the key 'a' is there twice in one object"),
        ("a.json", b'[{"a": 1},\n {"a": [{"b": 1, "b": 1}]}]', "a.json:2: the key 'b' is there twice in one object"),
        ("a.json", b'[{"a": 1}\n{"a": 1}]', "a.json:2: not valid JSON: `,` and a row, or `]`, expected here"),
        ("a.json", b'[{"a": 1},\n]', "a.json:1: not valid JSON"),
        ("a.json", b'[{"a": 1}', "a.json:1: not valid JSON"),
        ("a.json", b'[{"a": 1}]\n[]', "a.json:2: not valid JSON: text after the end of the list"),
        ("a.json", b'{"data": []}', "rename it to .jsonl"),
        ("a.json", '\n["é"]'.encode("latin-1"), "a.json:2: not UTF-8 text"),
        ("a.parquet", b"no", "a.parquet: not a Parquet file"),
        ("a.xls", b"a,b", "unknown format '.xls'; known: .jsonl"),
    ],
)
def test_broken_files_name_the_line(tmp_path, name, raw, message):
    with pytest.raises(DataError) as error:
        contents(write_bytes(tmp_path / name, raw))
    assert message in str(error.value)


def test_missing_file_and_unneeded_split(tmp_path):
    with pytest.raises(ConfigError, match="no such file or folder"):
        open_rows(tmp_path / "a.jsonl")
    write_bytes(tmp_path / "train.jsonl", b"{}")
    with pytest.raises(ConfigError, match=r"no such file or folder; did you mean 'train\.jsonl'\?"):
        open_rows(tmp_path / "trian.jsonl")
    with pytest.raises(ConfigError, match=r"no such file or folder; there is no folder .*deeper$"):
        open_rows(tmp_path / "deeper" / "train.jsonl")
    with pytest.raises(DataError, match="remove it"):
        open_rows(write_bytes(tmp_path / "a.jsonl", b"{}"), split="train")


def test_splits_of_a_hub_folder(tmp_path):
    import datasets

    whole = datasets.DatasetDict(
        {"train": datasets.Dataset.from_list(ROWS), "test": datasets.Dataset.from_list(ROWS[:1])}
    )
    whole.save_to_disk(str(tmp_path / "d"))
    assert contents(tmp_path / "d", split="test") == ROWS[:1]
    with pytest.raises(DataError, match=r"choose one by `split:` \(train, test\)"):
        open_rows(tmp_path / "d")
    with pytest.raises(DataError, match="no split 'val'; it has: train, test"):
        open_rows(tmp_path / "d", split="val")
    with pytest.raises(DataError, match="without splits"):
        open_rows(save_hub_folder(tmp_path / "one", ROWS), split="train")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="not a Hugging Face dataset folder"):
        open_rows(tmp_path / "empty")


def test_our_datasets_folder_does_not_shadow_the_hugging_face_package():
    checkout = Path(__file__).parents[3]
    assert (checkout / "datasets").is_dir()
    code = "import sys; sys.path.insert(0, ''); import datasets; print(datasets.load_from_disk.__module__)"
    done = subprocess.run([sys.executable, "-c", code], cwd=checkout, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "datasets.load"


def test_a_file_that_changes_while_in_use_is_an_error(tmp_path):
    path = write_bytes(tmp_path / "a.jsonl", b'{"a": 1}\n')
    rows = open_rows(path)
    write_bytes(path, b'{"a": 12}\n')
    with pytest.raises(DataError, match="changed after it was read"):
        rows.read(0)


def test_row_groups_used_last_are_kept_up_to_a_size(tmp_path):  # fault 61: rows may hold pictures
    import pyarrow
    import pyarrow.parquet

    path = tmp_path / "a.parquet"
    table = pyarrow.table({"number": list(range(8)), "picture": [bytes(1000)] * 8})
    pyarrow.parquet.write_table(table, path, row_group_size=2)
    rows = ParquetRows(**{**vars(ParquetRows.open(path)), "keep_bytes": 5000})  # two groups of about 2,000 bytes
    assert [rows.read(number)["number"] for number in (0, 2, 4, 1, 7)] == [0, 2, 4, 1, 7]
    assert list(rows.groups) == [0, 3]
    assert rows.read(6)["picture"] == bytes(1000) and list(rows.groups) == [0, 3]
