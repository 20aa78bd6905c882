"""Tests on pages: the worked cases of olmOCR's types, and pages made to break them."""

import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein

from mmrl.scoring.page_tests import Page, read_test
from mmrl.scoring.page_text import best_ratio, plain_text, starts
from mmrl.scoring.tables import MAX_TEXT

TABLE = """
<table>
<tr><th></th><th colspan="2">Quarter</th></tr>

<tr><th>Item</th><th>Q1</th><th>Q2</th></tr>
<tr><td>Tea</td><td>10</td><td>12</td></tr>
<tr><td>Buns</td><td>3</td><td>4</td></tr>
</table>
"""
MARKDOWN = "| Item | Q1 | Q2 |\n|---|---|---|\n| Tea | 10 | 12 |\n| **Buns** | 3 | 4 |\n"


def passes(page, **test):
    return read_test(test).passes(Page(page), same_formula=lambda one, other: one.replace(" ", "") == other)


@pytest.mark.parametrize(
    ("page", "test", "wanted"),
    [
        ("by photosynthezis in leaves", {"text": "photosynthesis"}, False),
        ("by photosynthezis in leaves", {"text": "photosynthesis", "max_diffs": 1}, True),
        ("<b>Total</b>:\n  12", {"text": "Total: 12"}, True),
        ("“Quoted” – text", {"text": '"Quoted" - text'}, True),
        ("Cafe\u0301", {"text": "Café"}, True),
        ("TOTAL", {"text": "total"}, False),
        ("TOTAL", {"text": "total", "case_sensitive": False}, True),
        ("head body foot", {"text": "body", "first_n": 4}, False),
        ("head body foot", {"text": "foot", "last_n": 4}, True),
        ("head body foot", {"text": "body", "first_n": 5, "last_n": 5}, False),
        ("e", {"text": "eleven"}, False),  # a page shorter than what is sought
        ("", {"text": "eleven"}, False),
        ("seen <!-- eleven --> too", {"text": "eleven"}, False),
        ("seen <!-- eleven", {"text": "eleven"}, False),
    ],
)
def test_present_and_its_opposite(page, test, wanted):
    assert passes(page, type="present", **test) is wanted
    assert passes(page, type="absent", **test) is not wanted


def test_one_wrong_letter_of_fourteen_is_a_ratio_of_0_929():
    assert best_ratio("photosynthesis", "by photosynthezis in leaves") == pytest.approx(0.929, abs=5e-4)


def test_absent_fails_on_a_page_number_that_is_output():
    assert not passes("text\n\npage 12", type="absent", text="12")


@pytest.mark.parametrize(
    ("page", "edits", "wanted"),
    [
        ("first then second", 0, True),
        ("second then first", 0, False),
        ("second, first, second", 0, True),
        ("frist then sceond", 0, False),
        ("frist then sceond", 2, True),
        ("first", 0, False),
    ],
)
def test_order(page, edits, wanted):
    assert passes(page, type="order", before="first", after="second", max_diffs=edits) is wanted


@pytest.mark.parametrize("page", [TABLE, MARKDOWN], ids=["html", "markdown"])
@pytest.mark.parametrize(
    ("test", "wanted"),
    [
        ({"cell": "12", "left": "10", "down": "4"}, True),
        ({"cell": "12", "left": "Tea"}, False),
        ({"cell": "4", "top_heading": "Q2", "left_heading": "Buns"}, True),
        ({"cell": "4", "top_heading": "Q1"}, False),
        ({"cell": "Buns", "right": "3", "up": "Tea"}, True),
        ({"cell": "Bunz", "max_diffs": 1, "right": "3"}, True),
        ({"cell": "Cake"}, False),
        ({"cell": "12", "right": "13"}, False),
    ],
)
def test_cells(page, test, wanted):
    assert passes(page, type="table", **test) is wanted


def test_cells_of_the_last_row_have_the_wide_header_too():
    assert passes(TABLE, type="table", cell="4", top_heading="Quarter")


def test_markdown_tables_can_be_left_out():
    test = {"type": "table", "cell": "12", "ignore_markdown_tables": True}
    assert passes(TABLE, **test) and not passes(MARKDOWN, **test)


@pytest.mark.parametrize(
    "page", [r"\(x^2\)", r"\[ x^2 \]", "$$x^2$$", "cost $5, $x^2$".replace("$5, ", ""), r"\(x ^ 2\)"]
)
def test_formulas_in_every_delimiter(page):
    assert passes(page, type="math", math="x^2")


def test_dollars_can_be_left_out():
    assert not passes("$x^2$", type="math", math="x^2", ignore_dollar_delimited=True)
    assert passes(r"\(x^2\)", type="math", math="x^2", ignore_dollar_delimited=True)


@pytest.mark.parametrize(
    ("page", "test", "wanted"),
    [
        ("text", {}, True),
        (" -- \n", {}, False),
        ("a" * 30, {}, True),
        ("a" * 31, {}, False),
        ("text " + "ab" * 31, {}, False),
        ("x" * 40, {"max_repeats": 40}, True),
        ("漢字", {}, False),
        ("漢字", {"check_disallowed_characters": False}, True),
        ("smile \U0001f600", {}, False),
        ("![a long description](x.png)", {"max_length": 0, "max_length_skips_image_alt_tags": True}, True),
        ("12", {"max_length": 1}, False),
    ],
)
def test_baseline(page, test, wanted):
    assert passes(page, type="baseline", **test) is wanted


@pytest.mark.parametrize(
    ("page", "kind", "wanted"),
    [
        ("# Annual report\n\ntext", "heading", True),
        ("Annual report\n===\n\ntext", "heading", True),
        ("<h2>Annual report</h2>", "heading", True),
        ("Annual report", "heading", False),
        ("the **Annual report** says", "bold", True),
        ("the <b>Annual report</b> says", "bold", True),
        ("the *Annual report* says", "bold", False),
        ("the *Annual report* says", "italic", True),
    ],
)
def test_form(page, kind, wanted):
    assert passes(page, type="format", text="Annual report", format=kind) is wanted


@pytest.mark.parametrize(
    ("page", "wanted"),
    [
        ("as shown before[^2].", True),
        ("as Shown, before<sup>2</sup>", True),
        ("as shown before <sup class=ref>2</sup>", True),
        ("as shown before²", True),
        ("as shown before 2", False),
        ("as shown before[^2]: it", False),
        ("as shown after², before", False),
        ("as shown before the others came after²", False),
    ],
)
def test_footnotes_stand_behind_their_text(page, wanted):
    assert passes(page, type="footnote", marker="2", appears_before_marker="shown before") is wanted


@pytest.mark.parametrize(
    ("page", "wanted"),
    [
        ("as shown before[^2].\n\n<sup>2</sup> In a letter of 1801.", True),
        ("<sup>2</sup> In a letter of 1801.", False),
        ("as shown before[^2]. More was never said.\n\n[^2]: In a letter of 1801.", False),
        ("as shown before². In a letter", True),
    ],
)
def test_one_mark_stands_behind_a_text_and_one_before_another(page, wanted):
    texts = {"appears_before_marker": "shown before", "appears_after_marker": "In a letter"}
    assert passes(page, type="footnote", marker="2", **texts) is wanted


def test_a_footnote_s_mark_has_no_blank_and_its_texts_have_letters():
    for wrong in ({"marker": "2 3"}, {"marker": "2", "appears_after_marker": "..."}):
        with pytest.raises(ValueError, match="footnote: "):
            read_test({"type": "footnote", **wrong})


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"type": "presnt"}, "type 'presnt' is none of .*did you mean 'present'"),
        ({"type": "present"}, "present needs the text 'text'"),
        ({"type": "present", "text": "** **"}, "present needs the text 'text'"),
        ({"type": "present", "text": "a", "max_diff": 1}, "present has no field 'max_diff'"),
        ({"type": "present", "text": "a", "max_diffs": -1}, "max_diffs is -1"),
        ({"type": "absent", "text": "ab", "max_diffs": 2}, "lets every page pass: the text has 2 characters"),
        ({"type": "order", "before": "abcd", "after": "abc", "max_diffs": 2}, "more than half of a text of 3"),
        ({"type": "format", "text": "a", "format": "large"}, "'large' is none of heading, bold, italic"),
        ({}, "type None is none of"),
    ],
)
def test_a_test_that_cannot_be_run_says_why(row, message):
    with pytest.raises(ValueError, match=message):
        read_test(row)


@settings(max_examples=100, deadline=None)
@given(st.text("ab", min_size=1, max_size=5), st.text("abc", max_size=12), st.integers(0, 2))
def test_starts_are_places_with_so_few_edits_and_none_is_missed(sought, page, edits):
    reached = {
        start
        for start in range(len(page))
        for end in range(start, len(page) + 1)
        if Levenshtein.distance(sought, page[start:end]) <= edits
    }
    found = set(starts(sought, page, max_edits=edits).tolist())
    assert found <= reached
    assert all(any(abs(place - other) <= edits + 1 or found for other in found) for place in reached)


@pytest.mark.parametrize("edits", [0, 1, 3])
@pytest.mark.parametrize("seed", range(5))
def test_starts_on_a_long_page_are_those_of_trying_every_place(edits, seed):
    """Few pieces of the text stand on it, so most of it is passed over."""
    rng = random.Random(seed)
    page = [rng.choice("abcdefghij") for _ in range(600)]
    sought = "".join(rng.choice("abcdefghij") for _ in range(16))
    for at in (3, 150, 290, 584):
        copy = list(sought)
        copy[rng.randrange(16)] = "z"
        copy.insert(rng.randrange(17), "z")
        page[at : at + 16] = copy if at < 500 else sought
    text = "".join(page)
    reached = [
        start
        for start in range(len(text))
        if any(
            Levenshtein.distance(sought, text[start : start + length]) <= edits
            for length in range(16 - edits, 17 + edits)
        )
    ]
    found = starts(sought, text, max_edits=edits).tolist()
    assert found[-1] == text.rindex(sought) and (edits < 3 or len(found) == 4)
    assert set(found) <= set(reached)
    assert all(any(abs(place - other) <= edits + 1 for other in found) for place in reached)


def test_a_text_is_found_on_a_long_page_without_reading_it_for_each_of_its_characters():
    """100 texts of 80 characters on a page of 90,000: 20 seconds by steps over all of the page."""
    rng = random.Random(0)
    page = "".join(rng.choice("etaoin shrdlu") for _ in range(90_000))
    begin = time.process_time()
    found = [starts(page[at : at + 80], page, max_edits=2).tolist() for at in range(0, 90_000, 900)]
    assert found == [[at] for at in range(0, 90_000, 900)]
    assert time.process_time() - begin < 5


@pytest.mark.parametrize(
    "page",
    [
        piece * (MAX_TEXT // len(piece))
        for piece in (r"\(", "$", "![", "**_", "<table><tr><td>", "| a ", "<!--", "- " * 40 + "x")
    ],
)
def test_broken_pages_cost_little(page):
    tests = [
        {"type": "math", "math": "x"},
        {"type": "baseline", "max_length": 3, "max_length_skips_image_alt_tags": True},
        {"type": "present", "text": "nowhere to be seen"},
        {"type": "table", "cell": "x", "left": "y"},
    ]
    begin = time.process_time()
    assert not any(
        read_test(test).passes(Page(page), same_formula=str.__eq__) for test in tests if test["type"] != "baseline"
    )
    read_test(tests[1]).passes(Page(page), same_formula=str.__eq__)
    assert time.process_time() - begin < 5


def test_normalisation():
    assert plain_text("a **b *c* d** __e__ snake_case") == "a b c d e snake_case"
    assert best_ratio("same", "same") == 1.0
