"""Tables in HTML and Markdown: places of cells under spans, broken markup, and limits."""

import pytest

from mmrl.scoring.tables import MAX_NODES, TableTree, grid, html_of_markdown, outer_tables, parse_html, teds


def cells_of(table):
    found = grid(table)
    assert found is not None
    return found.cells


def cells(text):
    (table,) = outer_tables(parse_html(text))
    return {cell.text: (cell.row, cell.column, cell.rows, cell.columns) for cell in cells_of(table)}


def test_spans_push_later_cells_to_the_first_free_column():
    assert cells("<table><tr><td rowspan=2>a</td><td colspan=2>b</td></tr><tr><td>c</td><td>d</td></tr></table>") == {
        "a": (0, 0, 2, 1),
        "b": (0, 1, 1, 2),
        "c": (1, 1, 1, 1),
        "d": (1, 2, 1, 1),
    }


@pytest.mark.parametrize("span", ["0", "-3", "x", "", "1e9", " 1 "])
def test_a_span_that_is_no_positive_number_is_one(span):
    assert cells(f'<table><tr><td colspan="{span}">a</td><td>b</td></tr></table>')["b"] == (0, 1, 1, 1)


def test_huge_spans_cost_nothing():
    text = '<table><tr><td colspan="999999999" rowspan="999999999">a</td></tr><tr><td>b</td></tr></table>'
    assert cells(text) == {"a": (0, 0, 2, 1000), "b": (1, 1000, 1, 1)}


@pytest.mark.parametrize("cell", ["<td>", "<td colspan=1000>"])
def test_a_table_of_too_many_cells_or_places_has_no_grid(cell):
    (table,) = outer_tables(parse_html(f"<table>{f'<tr>{cell * 101}</tr>' * 20}</table>"))
    assert grid(table) is None


def test_neighbours_and_headings_follow_spans():
    (table,) = outer_tables(
        parse_html(
            "<table><tr><th></th><th colspan=2>Q1</th></tr><tr><td>net</td><td>1</td><td>2</td></tr>"
            "<tr><td>all</td><td>3</td><td>4</td></tr></table>"
        )
    )
    found = grid(table)
    assert found is not None
    by_text = {cell.text: cell for cell in found.cells}

    def texts(cells):
        return {cell.text for cell in cells}

    assert texts(found.beside(by_text["Q1"], "down")) == {"1", "2"}
    assert texts(found.beside(by_text["4"], "left")) == {"3"} and not found.beside(by_text["4"], "right")
    assert texts(found.headings(by_text["4"], "up")) == {"Q1"}
    assert texts(found.headings(by_text["4"], "left")) == {"all"}  # no header cell: the last one that way


def test_row_groups_and_open_tags_are_read_as_browsers_do():
    text = "<TABLE><thead><tr><th>h<tbody><tr><td>1<tr><td>2"
    assert cells(text) == {"h": (0, 0, 1, 1), "1": (1, 0, 1, 1), "2": (2, 0, 1, 1)}


def test_markdown_tables_have_a_header_line():
    (table,) = outer_tables(parse_html(html_of_markdown("text\n\n| a | b |\n|--|--|\n| 1 | **2** |\n\nmore")))
    assert [(c.text, c.row, c.column, c.is_header) for c in cells_of(table)] == [
        ("a", 0, 0, True),
        ("b", 0, 1, True),
        ("1", 1, 0, False),
        ("2", 1, 1, False),
    ]


def test_inner_tables_are_part_of_the_outer_cell():
    (table,) = outer_tables(parse_html("<table><tr><td>a<table><tr><td>b</td></tr></table></td></tr></table>"))
    assert [c.text for c in cells_of(table)] == ["a b"]


def test_control_characters_and_entities_are_harmless():
    document = (
        '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><table><tr><td>&e;\x00\ud800&amp;</td></tr></table>'
    )
    assert "root:" not in next(iter(cells(document)))


def test_a_table_beyond_the_limit_has_no_tree():
    row = "<tr><td>a</td></tr>"
    (table,) = outer_tables(parse_html(f"<table>{row * (MAX_NODES // 2 + 1)}</table>"))
    assert TableTree.of(table, plain=True) is None


def test_teds_of_tables_that_differ_in_everything_is_not_negative():
    one, other = (
        TableTree.of(outer_tables(parse_html(text))[0], plain=False)
        for text in ("<table><tr><td>aaa</td></tr></table>", "<table><thead><th>b</th></thead></table>")
    )
    assert one is not None and other is not None
    assert teds(one, other) == 0.0
