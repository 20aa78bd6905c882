"""Two evaluations compared question by question, by worked numbers."""

import pytest

from mmrl.config.benchmark_section import BenchmarkSection
from mmrl.evaluate.compare import compare, differences, file_differences, mcnemar, only_in_one, setting_differences
from mmrl.evaluate.numbers import Question
from mmrl.evaluate.result import read_scores, write_scores


def asked(*values: float, **columns: list) -> dict[str, Question]:
    rows = [{name: of[n] for name, of in columns.items()} for n in range(len(values))]
    return {str(n): Question(str(n), (value,), 0, row) for n, (value, row) in enumerate(zip(values, rows, strict=True))}


@pytest.mark.parametrize(
    ("only_a", "only_b", "p"),
    [
        (0, 0, 1.0),
        (2, 2, 1.0),  # 2 (1 + 4 + 6) / 16 is above 1
        (1, 5, 0.21875),  # 2 (1 + 6) / 64
        (5, 1, 0.21875),
        (0, 5, 0.0625),  # 2 / 32
        (0, 2000, 0.0),  # 2 / 2^2000: an integer that no float holds, a share that is smaller than any
    ],
)
def test_the_exact_test_of_mcnemar(only_a, only_b, p):
    assert mcnemar(only_a, only_b) == p


def test_right_and_wrong_questions_are_counted_in_pairs():
    found = compare(asked(1, 1, 0, 0, 1), asked(1, 0, 1, 1, 1))
    assert (found.n, found.a, found.b) == (5, 0.6, 0.8)
    assert found.difference == pytest.approx(0.2)
    assert (found.only_a, found.only_b, found.p) == (1, 2, 1.0)


def test_the_interval_is_that_of_pairs():
    """Questions differ widely, their differences not at all: resampled apart, the interval would be wide."""
    found = compare(asked(0.0, 0.2, 0.5, 0.8), asked(0.1, 0.3, 0.6, 0.9))
    assert (found.low, found.high) == (pytest.approx(0.1), pytest.approx(0.1))
    assert found.p is None and found.only_a is None, "scores between 0 and 1 are neither right nor wrong"


def test_clusters_are_drawn_together_and_groups_averaged():
    """B is better by 1 in one of two clips: a resample has it 0, 1 or 2 times."""
    clips = ["x"] * 50 + ["y"] * 50
    found = compare(asked(*[0.0] * 100, cluster=clips), asked(*[1.0] * 50, *[0.0] * 50, cluster=clips))
    assert (found.difference, found.low, found.high) == (0.5, 0.0, 1.0)
    kinds = [["many"], ["many"], ["many"], ["few"]]
    found = compare(asked(0, 0, 0, 0, groups=kinds), asked(1, 1, 1, 0, groups=kinds))
    assert (found.a, found.b) == (0.0, 0.5)


def test_rows_that_are_one_question_together_are_compared_as_one():
    """A has one row of each pair right, B both rows of the first pair and none of the second."""
    pairs = [["x"], ["x"], ["y"], ["y"]]
    found = compare(asked(1, 0, 0, 1, all_of=pairs), asked(1, 1, 0, 0, all_of=pairs))
    assert (found.n, found.a, found.b, found.only_a, found.only_b) == (2, 0.0, 0.5, 0, 1)


def test_questions_are_matched_by_key_and_those_of_one_side_are_named():
    a = {"x": Question("x", (1.0,), 0, {}), "y": Question("y", (), 0, {})}
    b = {"z": Question("z", (1.0,), 0, {}), "y": Question("y", (1.0,), 0, {})}
    found = compare(a, b)
    assert (found.n, found.a, found.b, found.only_b) == (1, 0.0, 1.0, 1), "what failed is wrong"
    assert list(only_in_one(a, b)) == [
        "questions: 1 are in A only (x)",
        "questions: 1 are in B only (z)",
    ]
    with pytest.raises(ValueError, match="no question in common"):
        compare({"x": a["x"]}, b)


def test_what_differs_is_named_by_key():
    row = {
        "task_hash": "1",
        "version": 1,
        "answers": {"temperature": 0.0, "max_new_tokens": 16},
        "template": "{prompt}",
        "budgets": {"image": {"max_pixels": 100}},
    }
    assert list(differences(row, row)) == []
    other = {**row, "task_hash": "2", "answers": {"temperature": 0.0, "max_new_tokens": 32}, "template": "Q: {prompt}"}
    assert list(differences(row, other)) == [
        "answers.max_new_tokens: 16 and 32",
        'template: "{prompt}" and "Q: {prompt}"',
    ]
    wider = {**row, "budgets": {"image": {"max_pixels": 200}}}
    assert list(differences(row, wider)) == ["budgets.image.max_pixels: 100 and 200"]
    assert list(differences(row, {**wider, "task_hash": "2"})) == [
        "budgets.image.max_pixels: 100 and 200",
        "task file: hash 1 and 2",
    ]


def test_other_files_of_rows_are_named_and_other_names_of_them_are_not():
    a, b = ({"data": {"signs": {"signs.jsonl": "1", name: two}}} for name, two in (("b.jsonl", "2"), ("c.jsonl", "3")))
    assert list(file_differences(a, {"data": {"signs": {"d.jsonl": "2", "e.jsonl": "1"}}}, "signs")) == []
    assert list(file_differences(a, b, "signs")) == ['files.b.jsonl: "2" and null', 'files.c.jsonl: null and "3"']
    assert list(file_differences(a, {}, "signs")) == list(file_differences(a, b, "other")) == []


def test_model_and_seed_may_differ_engine_and_versions_may_not():
    a = {"model": {"weights": "1"}, "seed": 0, "engine": "hf", "environment": {"versions": {"torch": "2", "av": "1"}}}
    b = {"model": {"weights": "2"}, "seed": 1, "engine": "hf", "environment": {"versions": {"torch": "2", "av": "1"}}}
    assert list(setting_differences(a, b)) == []
    b |= {"engine": "vllm", "environment": {"versions": {"torch": "3", "av": "1"}}}
    assert list(setting_differences(a, b)) == ['engine: "hf" and "vllm"', 'versions.torch: "2" and "3"']


def test_scores_are_read_as_they_were_written(tmp_path):
    section = BenchmarkSection.model_validate(
        {
            "data": {"path": "x.jsonl"},
            "score": [{"reward": "choice"}],
            "average": {"groups": "kind", "all_of": ["clip", "other"]},
            "cluster": "clip",
            "provenance": {"source": "made"},
        }
    )
    columns = {"kind": "k", "clip": ["c"], "other": 1}
    write_scores(tmp_path, [Question("a", (0.5, float("nan")), 0, columns), Question("b", (), 0, columns)], section)
    found = read_scores(tmp_path)
    assert list(found) == ["a", "b"] and found["a"].value == 0.25 and found["b"].scores == ()
    assert found["a"].columns == {"groups": ["k"], "all_of": ["['c']", "1"], "cluster": "['c']"}


def test_rows_that_are_one_are_compared_by_what_they_are_worth_in_each_repeat():
    """Fault: the worst of the means, 0.5, where no repeat had both rows right and the score is 0."""

    def side(*rows: tuple[float, float]) -> dict[str, Question]:
        return {str(n): Question(str(n), scores, 0, {"all_of": ["q"]}) for n, scores in enumerate(rows)}

    found = compare(side((1.0, 0.0), (0.0, 1.0)), side((1.0, 0.0), (1.0, 1.0)))
    assert (found.n, found.a, found.b) == (1, 0.0, 0.5)
