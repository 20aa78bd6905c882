"""Rows of .tsv and .csv files: quotes, lines, pictures that another row has."""

import base64

import pytest

from mmrl.data.rows import open_rows
from mmrl.errors import DataError


def rows_of(tmp_path, text: str, name: str = "a.tsv"):
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return open_rows(path)


def contents(rows) -> list[dict]:
    return [rows.read(n) for n in range(len(rows))]


def test_a_quoted_cell_holds_line_breaks_separators_and_quotes(tmp_path):
    rows = rows_of(tmp_path, 'index\tquestion\tA\n0\t"one\ntwo\tthree ""four"""\tx\n1\tplain\t\n')
    assert contents(rows) == [
        {"index": "0", "question": 'one\ntwo\tthree "four"', "A": "x"},
        {"index": "1", "question": "plain", "A": None},
    ]
    assert [rows.origin(n) for n in range(2)] == ["a.tsv:2", "a.tsv:4"]


def test_a_quote_inside_a_cell_is_a_letter(tmp_path):
    rows = rows_of(tmp_path, 'size\tn\n5" wide\t1\n6" wide\t2\n')
    assert [row["size"] for row in contents(rows)] == ['5" wide', '6" wide']


def test_commas_windows_lines_blank_lines_and_a_byte_order_mark(tmp_path):
    rows = rows_of(tmp_path, '\ufeffa,b\r\n\r\n1,"x,\r\n""y"""\r\n\r\n"",é', "a.csv")
    assert contents(rows) == [{"a": "1", "b": 'x,\r\n"y"'}, {"a": None, "b": "é"}]
    assert [rows.origin(n) for n in range(2)] == ["a.csv:3", "a.csv:6"]


def test_a_cell_may_be_longer_than_the_csv_module_allows(tmp_path):
    picture = base64.b64encode(bytes(300_000)).decode()
    assert rows_of(tmp_path, f"index\timage\n0\t{picture}\n").read(0)["image"] == picture


def test_an_image_that_is_an_index_is_that_rows_picture(tmp_path):
    """As in MMBench, whose rotated questions share a picture; the row with it may come later."""
    rows = rows_of(tmp_path, "index\timage\n1000001\t1\n1\tiVBORw0KGgo=\n2\ta.png\n")
    assert [row["image"] for row in contents(rows)] == ["iVBORw0KGgo=", "iVBORw0KGgo=", "a.png"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a.tsv:1: an empty table; its first row must name the columns"),
        ("a\ta\n1\t2\n", "a.tsv:1: several columns are called 'a'; rename them"),
        ("a\tb\n1\t2\n1\n", "a.tsv:3: 1 cells where the first row names 2 columns"),
        ('a\tb\n1\t2\n1\t"x\ny\n', "a.tsv:3: a cell begins with a double quote that nothing closes"),
        ("a\n1\n\xe9\n".encode("latin-1"), "a.tsv:3: not UTF-8 text"),
        ("index\timage\n1\t7\n", "a.tsv:2: column 'image' is '7', which stands for another row's picture, but no row"),
        ("index\timage\n1\t2\n2\t1\n", "the row of that index, a.tsv:3, has none; use the whole file"),
    ],
)
def test_broken_tables_name_line_and_remedy(tmp_path, text, message):
    with pytest.raises(DataError) as error:
        contents(rows_of(tmp_path, text))
    assert message in str(error.value)
