"""Composed questions: the numbers agree, the last answer counts, what cannot be composed is said."""

import re

import pytest
from makers.made_tasks import files_of, make, rows_of, samples_of, scored
from makers.rows import write_jsonl

from mmrl.errors import DataError


def rows(*pairs):
    return [
        {"problem_id": f"q{n}", "problem": problem, "answer": answer, "problem_type": "math"}
        for n, (problem, answer) in enumerate(pairs)
    ]


SUMS = [(f"What is {n} + {n + 1}?", str(2 * n + 1)) for n in range(3, 11)]


def value_of(problem: str) -> int:
    """The answer to the last of a chain of sums, by doing what the row says."""
    questions = re.findall(r"Question \d+: (.*)", problem)
    answer = 0
    for number, question in enumerate(questions):
        expression = question.removeprefix("What is ").removesuffix("?")
        answer = eval(expression.replace(f"X{number}", str(answer)))
    return answer


@pytest.mark.parametrize("pieces", [2, 3])
def test_each_question_needs_the_answer_before_it(tmp_path, pieces):
    file = write_jsonl(tmp_path / "in.jsonl", rows(*SUMS))
    made = make("composed", file, tmp_path / "out", pieces=pieces)
    found = rows_of(tmp_path / "out")
    assert made.rows["train"] == len(found) == 8 and not made.skipped
    for row in found:
        assert row["problem"].count("Let X") == pieces - 1
        assert value_of(row["problem"]) == int(row["answer"])
        assert len(set(row["composed_of"])) == pieces == len(row["answers"])
        assert row["composed_of"][-1] == row["id"] and row["answers"][-1] == row["answer"]
        assert re.findall(r"Question \d+: .*X\d", row["problem"]), "a number stands for an answer"
    for sample in samples_of(tmp_path / "out"):
        assert scored(f"<answer>{sample.answer}</answer>", sample) == 1.0


def test_the_worked_pair(tmp_path):
    file = write_jsonl(tmp_path / "in.jsonl", rows(("2 + 3 = ?", "5"), ("What is the double of 9 cups?", "18")))
    make("composed", file, tmp_path / "out")
    last = rows_of(tmp_path / "out")[1]
    assert last["problem"] == (
        "Question 1: 2 + 3 = ?\nLet X1 be the answer to question 1.\n"
        "Question 2: What is the double of (X1 + 4) cups?\nSolve the questions in order. Give the answer to question 2"
        " only."
    )
    assert last["answer"] == "18"


def test_the_same_seed_makes_the_same_rows(tmp_path):
    file = write_jsonl(tmp_path / "in.jsonl", rows(*SUMS))
    make("composed", file, tmp_path / "a", seed=1)
    make("composed", file, tmp_path / "b", seed=1)
    make("composed", file, tmp_path / "c", seed=2)
    a, b, c = (files_of(tmp_path / name)["train.jsonl"] for name in "abc")
    assert a == b != c


def test_what_cannot_be_composed_is_skipped_with_the_reason(tmp_path):
    bad = [("Name a river.", "the Rhine"), ("What is 1.5 + x2?", "3.5"), ("On 2024-01-05, how many?", "4")]
    file = write_jsonl(tmp_path / "in.jsonl", rows(*SUMS, *bad))
    made = make("composed", file, tmp_path / "out")
    reason = "its question holds no whole number that an earlier answer could stand for"
    assert [(skip["source"], skip["reason"]) for skip in made.skipped] == [(f"q{n}", reason) for n in (8, 9, 10)]
    alone = write_jsonl(tmp_path / "one.jsonl", rows(("What is 2 + 2?", "4")))
    with pytest.raises(DataError, match="no other question has a whole number as its answer"):
        make("composed", alone, tmp_path / "none")
