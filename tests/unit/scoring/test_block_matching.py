"""Blocks that were found against blocks that are there, and the plain forms that are compared."""

import json
import time

import pytest
from makers.benchmarks_pages import TABLE, pages
from makers.media import picture_bytes
from makers.recipe_rows import prepared

from mmrl.scoring.block_matching import Match, quick_match, stands_in
from mmrl.scoring.page_blocks import formula_of, letters_of, read_blocks
from mmrl.scoring.text_distance import similarity


def test_edit_distances_of_the_worked_cases():
    """H1, H2, H3, H4, H5."""
    pairs = [("kitten", "sitting"), ("abc", ""), ("", ""), ("Hello World", "hello world"), ("你好世界", "你好")]
    assert [round(1 - similarity(*pair), 4) for pair in pairs] == [0.4286, 1, 0, 0.1818, 0.5]


def test_blocks_are_matched_wherever_they_stand():
    assert quick_match(["ab", "cd"], ["cd", "ab"]) == [Match((0,), (1,)), Match((1,), (0,))]
    assert quick_match(["ab"], []) == [Match((0,), ())]
    assert quick_match([], ["ab", "cd"]) == [Match((), (0,)), Match((), (1,))]


def test_neighbours_are_joined_and_parted():
    sentence = ["the first part of it", "and the second part"]
    assert quick_match(["".join(sentence), "apart"], [*sentence, "apart"]) == [Match((0,), (0, 1)), Match((1,), (2,))]
    assert quick_match([*sentence, "apart"], ["".join(sentence), "apart"]) == [Match((0, 1), (0,)), Match((2,), (1,))]


def test_what_is_left_over_is_paired_and_then_left_out_or_counted():
    """As the source does it: found blocks without a partner count only where every gold block has one."""
    golds, found = ["abcdefgh", "12345678"], ["abcdefgh", "xyz", "uvwxyz+-"]
    assert quick_match(golds, found) == [Match((0,), (0,)), Match((1,), (1,))]
    assert quick_match(["abcdefgh", "mnopqrst"], ["abcdefgh", "mnopqrst", "xyz"]) == [
        Match((0,), (0,)),
        Match((1,), (1,)),
        Match((), (2,)),
    ]


def test_a_piece_is_found_whatever_the_step():
    text = "x" * 50 + "abcdefghij" + "y" * 50
    assert stands_in("abcdefghij", text, below=0.1)
    assert stands_in("abcdeXghij", text, below=0.2) and not stands_in("abcdeXghij", text, below=0.1)
    assert stands_in("abcdeXghij", text, up_to=0.1)
    assert not stands_in("", text, below=0.9) and not stands_in(text, "short", below=0.9)


def test_a_page_is_taken_apart():
    page = read_blocks(
        "```markdown\n## Head\n\n![a](b.png)\n\nA $x_1$ and \\(y\\)\nhere\n\n$$ z $$\n\n"
        "| a | b |\n|---|---|\n| 1 | 2 |\n\n<table><tr><td><table></table></td></tr></table>\n\n$w$\n\n"
        "unclosed \\[ a\n```"
    )
    assert [block.text for block in page.texts] == ["## Head", "A $x_1$ and \\(y\\)\nhere", "unclosed \\[ a"]
    assert [block.text for block in page.formulas] == ["x_1", "y", " z ", "w"]
    assert [block.text[:12] for block in page.tables] == ["<table data-", "<table><tr><"]
    assert [block.text for block in read_blocks("one\ntwo").texts] == ["one", "two"]


def test_what_is_compared_of_texts_and_formulas():
    assert letters_of("## A_b, $\\mathbf{x}^2$ costs $5!") == "A_bx2costs5"
    assert letters_of("$\\frac{\\alpha}{\\sin \\Omega}$") == "αsinΩ"
    assert formula_of("\\begin{aligned} \\mathrm{A} &= B \\\\ \\end{aligned}") == "{a}&=b\\\\"
    assert formula_of("$$x$$") == formula_of("\\(x\\)") == formula_of("$x$") == "x"


def test_blocks_of_the_published_file(tmp_path):
    (tmp_path / "images").mkdir()
    for n in range(3):
        (tmp_path / "images" / f"{n}.jpg").write_bytes(picture_bytes(n))
    (tmp_path / "page.json").write_text(json.dumps(pages()))
    out = prepared("omnidocbench", tmp_path / "page.json", tmp_path / "rows.jsonl", images=tmp_path / "images")
    cut, mixed, alone = map(json.loads, out.read_text().splitlines())
    assert [(block["text"], block["order"]) for block in cut["blocks"]] == [("Head", 1), ("that a column cuts.", 2)]
    assert cut["counts"] == {"text": 1, "order": 1} and cut["language"] == "english"
    assert [block["kind"] for block in mixed["blocks"]] == ["text", "formula", "table", "text"]
    assert mixed["blocks"][2]["text"] == TABLE and mixed["blocks"][3]["counts"] is False
    assert mixed["counts"] == dict.fromkeys(
        ("text", "order", "formula", "cdm", "table", "table_structure", "table_edit"), 1
    )
    assert alone["counts"] == {} and alone["blocks"] == [
        {"kind": "text", "text": "A tree.", "order": 2, "counts": False}
    ]


@pytest.mark.parametrize(
    "page",
    [
        "\\[ " * 33_000,
        "<table>" * 14_000,
        "$" * 99_000,
        "| a " * 25_000,
        "ab " * 33_000,
        "ab\n\n" * 20_000,
        "[" * 99_000,
    ],
    ids=["formulas", "tables", "dollars", "bars", "words", "paragraphs", "brackets"],
)
def test_a_long_page_of_nothing_is_read_at_once(page):
    start = time.monotonic()
    blocks = read_blocks(page)
    golds = [letters_of(f"A paragraph {n} of the page, with some words in it.") for n in range(40)]
    quick_match(golds, [plain for block in blocks.texts if (plain := letters_of(block.text))])
    assert time.monotonic() - start < 20
