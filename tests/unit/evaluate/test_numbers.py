"""The numbers of a benchmark: nothing leaves the mean, groups and clusters count as they are declared."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmrl.config.benchmark_section import BenchmarkSection
from mmrl.errors import DataError
from mmrl.evaluate.benchmark import Benchmark
from mmrl.evaluate.numbers import (
    Measure,
    Question,
    Shares,
    by_value,
    interval,
    mean_numbers,
    measures_of,
    numbers_of,
    of_part,
    only,
    part_means,
)
from mmrl.evaluate.result import outcome_of


def question(key: str, *scores: float, truncated: int = 0, **columns: object) -> Question:
    return Question(key, scores, truncated, columns)


def test_what_failed_or_could_not_be_scored_counts_zero():
    """Fault: means over what is left (3 right and 1 empty gave 100.0 elsewhere)."""
    four = [question("a", 1.0), question("b", 1.0), question("c", 1.0), question("d")]
    numbers = numbers_of(four)
    assert (numbers.score, numbers.n_total, numbers.n_scored, numbers.n_failed) == (0.75, 4, 3, 1)
    numbers = numbers_of([question("a", 1.0), question("b", math.nan)])
    assert (numbers.score, numbers.n_scored, numbers.n_unscored) == (0.5, 1, 1)


def test_a_mean_over_groups_is_not_the_mean_over_rows():
    rows = [question(str(n), 1.0, kind="many") for n in range(3)] + [question("last", 0.0, kind="few")]
    assert numbers_of(rows).score == 0.75
    assert numbers_of(rows, groups="kind").score == 0.5


def test_groups_within_groups_count_alike_whatever_their_size():
    """OVO-Bench: categories of 1 and 3 tasks; each category's score is the mean of its tasks' scores."""
    rows = [question(f"a{n}", 1.0, category="forward", task="REC") for n in range(7)]
    rows += [question("b", 0.0, category="backward", task="EPM")]
    rows += [question(f"c{n}", float(n == 0), category="backward", task="HLD") for n in range(2)]
    rows += [question("d", 0.5, category="backward", task="ASI")]
    backward = (0 + 0.5 + 0.5) / 3
    assert numbers_of(rows, groups=["category", "task"]).score == pytest.approx((1 + backward) / 2)
    assert numbers_of(rows, groups=["task"]).score == pytest.approx((1 + 0 + 0.5 + 0.5) / 4)
    numbers = numbers_of(rows, groups=["category", "task"])
    assert numbers.low <= numbers.score <= numbers.high


def test_a_task_of_one_name_in_two_categories_is_two_tasks():
    rows = [question("a", 1.0, category="x", task="t"), question("b", 0.0, category="y", task="t")]
    rows += [question("c", 0.0, category="y", task="u")]
    assert numbers_of(rows, groups=["category", "task"]).score == 0.5


def test_rows_that_are_one_together_are_worth_the_worst_of_them():
    """Multi-binary: 3 of 4 right is wrong; n still counts rows, and what failed is a wrong row of its question."""
    rows = [question(f"a{n}", 1.0, of="a") for n in range(4)]
    rows += [question(f"b{n}", float(n > 0), of="b") for n in range(4)]
    rows += [question("c0", 1.0, of="c"), question("c1", of="c")]
    numbers = numbers_of(rows, all_of=["of"])
    assert numbers.score == pytest.approx(1 / 3)
    assert (numbers.n_total, numbers.n_failed) == (10, 1)
    assert numbers_of(rows).score == pytest.approx(8 / 10)


def test_all_of_goes_before_groups():
    rows = [question(f"a{n}", 1.0, of="a", kind="x") for n in range(2)]
    rows += [question("b", 0.0, of="b", kind="x"), question("c", 1.0, of="c", kind="y")]
    assert numbers_of(rows, groups="kind", all_of=["of"]).score == 0.75


def test_several_answers_count_by_their_mean():
    assert numbers_of([question("a", 0.0, 1.0), question("b", 0.0, math.nan)]).score == 0.25


def test_rows_that_are_one_are_right_in_the_same_repeat_or_not_at_all():
    """Fault: the worst of the means, 0.5, though no repeat had both rows right."""
    rows = [question("a0", 1.0, 0.0, of="a"), question("a1", 0.0, 1.0, of="a")]
    rows += [question("b0", 1.0, 1.0, of="b"), question("b1", 1.0, 0.0, of="b")]
    assert numbers_of(rows, all_of=["of"]).score == (0 + 0.5) / 2
    assert numbers_of([*rows, question("b2", of="b")], all_of=["of"]).score == 0


def test_cut_answers_are_counted():
    assert numbers_of([question("a", 1.0, 0.0, truncated=2), question("b", 1.0)]).n_truncated == 2


def test_rows_of_one_cluster_are_drawn_together():
    """100 questions about 2 clips, one all right: the mean of a resample is 0, 0.5 or 1."""
    values_U = np.repeat([0.0, 1.0], 50)
    one_group = [np.zeros(100, dtype=int)]
    assert interval(values_U, levels_U=one_group, cluster_U=np.repeat([0, 1], 50), seed=0) == (0.0, 1.0)
    low, high = interval(values_U, levels_U=one_group, cluster_U=np.arange(100), seed=0)
    assert low == pytest.approx(0.5 - 1.96 * 0.05, abs=0.02) and high == pytest.approx(0.5 + 1.96 * 0.05, abs=0.02)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_the_score_lies_in_its_interval_and_between_the_extremes(values):
    numbers = numbers_of([question(str(n), value) for n, value in enumerate(values)])
    assert min(values) - 1e-9 <= numbers.low <= numbers.high <= max(values) + 1e-9
    assert numbers.score == pytest.approx(np.mean(values))


def test_parts_and_values_of_columns():
    rows = [Question("a", (1.0,), 0, {"kind": ["x", "y"]}, ({"iou": 0.5},)), Question("b", (), 0, {"kind": ["x", "y"]})]
    assert part_means(rows) == {"iou": 0.25}
    assert list(by_value(rows, "kind")) == ["['x', 'y']"]
    assert list(by_value(rows, "other")) == ["None"]


def page(key: str, counts: dict[str, int], **shares: float) -> Question:
    """A page whose tests are of several files, with the share that passes of each."""
    return Question(
        key, (0.5,), 0, {"counts": counts}, ({"page_tests": 0.5} | {f"page_tests.{n}": v for n, v in shares.items()},)
    )


def test_tests_count_by_their_file_however_they_lie_on_pages():
    """6 of 8 tests of one file, 1 of 2 of the other: (0.75 + 0.5) / 2. A page without an answer passes none."""
    pages = [page("a", {"tables": 6, "baseline": 1}, tables=1.0, baseline=1.0), page("b", {"tables": 2, "baseline": 1})]
    assert numbers_of(pages, shares=Shares("counts", "page_tests")).score == 0.625
    failed = Question("c", (), 0, {"counts": {"tables": 4}})
    numbers = numbers_of([*pages, failed], shares=Shares("counts", "page_tests"))
    assert (numbers.score, numbers.n_total, numbers.n_failed) == (0.5, 3, 1)
    assert numbers.low <= 0.5 <= numbers.high


def test_a_plan_that_cannot_be_read_has_no_distance():
    """Fault: a missing distance that counts as 0 makes the mean better."""
    read = Question("a", (1.0,), 0, {}, ({"plan": 1.0, "plan.l2": 0.5},))
    unread = Question("b", (0.0,), 0, {}, ({"plan": 0.0},))
    assert part_means([read, unread]) == {"plan": 0.5}
    assert measures_of([read, unread]) == {"plan.l2": Measure(0.5, 1)}


def test_a_mean_of_several_scores_is_resampled_as_one():
    """With one cluster drawn every resample is the whole: no interval. Apart, the scores would be independent."""
    rows = [question(str(n), float(n % 2), kind=n % 2, of="one") for n in range(4)]
    numbers = mean_numbers(rows, [(rows, {}), (rows, {"groups": ["kind"]})], cluster="of")
    assert (numbers.score, numbers.low, numbers.high, numbers.n_total) == (0.5, 0.5, 0.5, 4)
    opposed = [(rows, {}), (of_part([with_parts(row, 1 - row.value) for row in rows], "other"), {})]
    numbers = mean_numbers(rows, opposed)
    assert (numbers.score, numbers.low, numbers.high) == (0.5, 0.5, 0.5), "a question brings 1 to both together"


def with_parts(row: Question, other: float) -> Question:
    return replace(row, parts=({"other": other},))


def test_only_some_rows_and_a_part_in_place_of_the_score():
    rows = [question("a", 1.0, kind="x"), question("b", 0.0, kind="y"), question("c", 0.0, kind="z")]
    assert [row.key for row in only(rows, {"kind": "y"})] == ["b"]
    assert [row.key for row in only(rows, {"kind": ["x", "z"]})] == ["a", "c"]
    parts = [Question("a", (1.0, 1.0), 0, {}, ({"iou": 0.5}, {"iou": 0.25})), Question("b", (), 0, {})]
    assert [row.scores for row in of_part(parts, "iou")] == [(0.5, 0.25), ()]
    assert [row.value for row in of_part(parts, "none")] == [0, 0]


def test_shares_of_chosen_names():
    pages = [page("a", {"tables": 6, "baseline": 1}, tables=0.5, baseline=1.0), page("b", {"baseline": 1}, baseline=0)]
    assert numbers_of(pages, shares=Shares("counts", "page_tests", ("tables",))).score == 0.5
    assert numbers_of(pages, shares=Shares("counts", "page_tests", ("baseline",))).score == 0.5


def said(key: str, text: str, reference: str, **columns: object) -> Question:
    return Question(key, (0.0,), 0, columns, texts=(text,), references=(reference,))


def test_a_measure_of_all_answers_together():
    """The captions' worked number: 0.590289, which is no mean of the two answers' own."""
    rows = [said("a", "the car turns left now", "The car turns left now."), said("b", "stop", "wait here")]
    numbers = numbers_of(rows, corpus="captions")
    assert numbers.score == pytest.approx(0.590289, abs=1e-6)
    assert numbers.low == pytest.approx(0, abs=1e-6) and numbers.high == pytest.approx(1, abs=1e-6)
    failed = Question("c", (), 0, {}, references=("go",))
    assert numbers_of([*rows, failed], corpus="captions").score < numbers.score
    with pytest.raises(DataError, match="the answer of question 'd' is none"):
        numbers_of([question("d", 1.0)], corpus="captions")


def test_a_weighted_mean_of_scores_of_different_rows():
    """DriveLM's: 0.4 * 0.6 + 0.2 * 0.590289 + 0.4 * 1 = 0.758058."""
    texts = [said("a", "the car turns left now", "The car turns left now."), said("b", "stop", "wait here")]
    rated, exact = [question("c", 0.6)], [question("d", 1.0)]
    of = [(rated, {}), (texts, {"corpus": "captions"}), (exact, {})]
    numbers = mean_numbers([*texts, *rated, *exact], of, weights=[0.4, 0.2, 0.4])
    assert numbers.score == pytest.approx(0.758058, abs=1e-6) and numbers.n_total == 4
    assert numbers.low <= numbers.score <= numbers.high


def test_the_denominator_of_harnesses_that_leave_empty_answers_out_is_another_score():
    """Three right answers and an empty one: 75; lmms-eval says 100. What failed or is unscored is out, too."""
    section = {"data": {"path": "rows.jsonl"}, "score": [{"reward": "choice"}], "provenance": {"source": "made"}}
    also = {"of the answered": {"answered": True}}
    benchmark = Benchmark("made", BenchmarkSection.model_validate({**section, "also": also}), Path())
    rows = [Question(f"right{n}", (1.0,), 0, {}, texts=("A",)) for n in range(3)]
    empty = [*rows, Question("empty", (0.0,), 0, {}, texts=("",))]
    unscored = Question("unscored", (float("nan"),), 0, {}, texts=("A",))
    for questions, score in ((empty, 0.75), ([*empty, Question("failed", (), 0, {}), unscored], 0.5)):
        outcome = outcome_of(benchmark, questions, budgets={})
        assert outcome.numbers is not None and outcome.numbers.score == score
        answered = outcome.also["of the answered"]
        assert (answered.score, answered.n_total) == (1.0, 3)
