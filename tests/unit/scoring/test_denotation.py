"""What cells of tables mean."""

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmrl.scoring import denotation
from mmrl.scoring.denotation import agree, overlap_f1, read_values, value_of


def test_docstring_examples():
    result = doctest.testmod(denotation)
    assert result.attempted > 0 and result.failed == 0


@given(st.integers(-(10**8), 10**8), st.sampled_from(["{:,}", "{}.0", "${:,}", "{}%", " {} ", "{:,}.00"]))
def test_numbers_agree_however_they_are_written(number, form):
    assert value_of(form.format(number)) == value_of(number) == ("number", str(number))


@given(st.dates())
def test_dates_agree_however_they_are_written(date):
    forms = (date.isoformat(), f"{date:%B} {date.day}, {date.year:04d}", f"{date.day} {date:%b} {date.year:04d}")
    assert {value_of(form) for form in forms} == {("date", date.isoformat())}


@pytest.mark.parametrize(
    "text", ["2001-02-30", "13th Smarch 2001", "05/06/2012", "1,23", "1.2.3", "12 kg", "-", "$", "1e999"]
)
def test_neither_numbers_nor_dates(text):
    assert value_of(text)[0] == "text"


def test_a_day_without_its_year_is_another_date():
    assert value_of("May 5") == ("date", "????-05-05") != value_of("May 5, 2012")


@given(st.lists(st.sampled_from(["a", "b", "3", "May 2001"]), min_size=1, max_size=5), st.randoms())
def test_order_does_not_count_and_repetition_does(cells, rng):
    gold = [value_of(cell) for cell in cells]
    mixed = rng.sample(gold, len(gold))
    assert agree(mixed, gold) and overlap_f1(mixed, gold) == 1
    assert agree(mixed, gold, ordered=True) == (mixed == gold)
    assert not agree([*gold, gold[0]], gold)


def test_an_answer_with_commas_has_two_readings():
    assert len(read_values("Paris, Texas")) == 2 and len(read_values("1,200")) == 1
    assert read_values("[[1]]") == read_values("[true]") == read_values('{"a": 1}') == []
