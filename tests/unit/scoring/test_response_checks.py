"""Constraints that rules decide, under MM-IFEval's names."""

import pytest

from mmrl.scoring.response_checks import CHECKS, meets

TWO = "The 1st line. It ends!\n\nA second part has 3.50 or 12.25%."


@pytest.mark.parametrize(
    ("check", "arguments", "met"),
    [
        ("response_paragraph_number_in_range", (2, 2), True),
        ("response_paragraph_number_in_range", (3, 4), False),
        ("response_sentence_number_in_range", (3, 3), True),
        ("each_paragraph_sentence_number_in_range", (1, 2), True),
        ("each_paragraph_sentence_number_in_range", (2, 2), False),
        ("each_paragraph_sentence_number_in_range_list", ([[2, 2], [1, 1]],), True),
        ("each_paragraph_sentence_number_in_range_list", ([[2, 2]],), False),
        ("response_word_count_in_range", (12, 12), True),
        ("each_paragraph_word_count_in_range", (5, 7), True),
        ("each_paragraph_word_count_in_range", (6, 9), False),
        ("whole_response_not_contain_certain_substrings", (["third", "fourth"],), True),
        ("whole_response_not_contain_certain_substrings", (["third", "line"],), False),
        ("whole_response_not_contain_certain_substring", ("!",), False),
        ("each_sentence_begin_with_certain_substring", ("The",), False),
        ("each_paragraph_begin_with_certain_substring", ("The",), False),
        ("each_paragraph_end_with_certain_substring", (".",), False),
        ("each_sentence_end_with_certain_substring", ("!",), False),
        ("whole_response_begin_with_certain_substring", ("The 1st",), True),
        ("whole_response_end_with_certain_substring", ("%.",), True),
        ("each_keyword_in_list_metioned_in_range", (["line", "ENDS"], 1, 1), True),
        ("each_keyword_in_list_metioned_in_range", (["lin"], 1, 1), False),
        ("total_keyword_in_list_metioned_in_range", (["line", "part"], 2, 2), True),
        ("has_no_arabic_number_in_response", (), False),
    ],
)
def test_checks_of_a_text_of_two_paragraphs(check, arguments, met):
    assert meets(f"check_whether_{check}", TWO, *arguments) is met


@pytest.mark.parametrize(
    ("text", "digits", "numbers", "per_cents"),
    [
        ("1,234.50 and 6.25", 2, True, True),
        ("6.25% of 3", 2, False, True),
        ("6.2% of 3.10", 2, False, False),
        ("6% of 3", 0, True, True),
        ("1.50e3", 2, True, True),
        ("the 1st of A4", 2, True, True),
    ],
)
def test_digits_of_numbers(text, digits, numbers, per_cents):
    assert meets("check_number_precision_in_response", text, digits) is numbers
    assert meets("check_percentage_number_precision_in_response", text, digits) is per_cents


@pytest.mark.parametrize(
    ("text", "none"), [("seven of A4", True), ("the 1st", True), ("in 1999.", False), ("5%", False)]
)
def test_arabic_numbers(text, none):
    assert meets("check_whether_has_no_arabic_number_in_response", text) is none


def test_nothing_meets_nothing():
    assert not meets("check_whether_response_word_count_in_range", "  ", 0, 5)
    assert len(CHECKS) == 19
