"""Several answers to each question: exact numbers of pass@k, the majority and CoT-pass@k."""

import itertools
import math

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from mmrl.config.reward_sections import RewardPart
from mmrl.config.schema import RewardsSection
from mmrl.data.sample import Sample
from mmrl.errors import ConfigError
from mmrl.evaluate.benchmark import Benchmark, load_benchmark
from mmrl.evaluate.numbers import Question, numbers_of
from mmrl.evaluate.repeats import best_of, majority_of, repeats_of, seed_of
from mmrl.evaluate.result import outcome_of, table
from mmrl.scoring.router import Router


def question(key: str, *scores: float, votes: str = "", cot: str = "", **columns: object) -> Question:
    """votes: a letter an answer, `-`: none. cot: the verdicts on reasoning, a digit an answer."""
    voted = tuple(None if vote == "-" else vote for vote in votes)
    parts = tuple({"correct": score, "cot": float(verdict)} for score, verdict in zip(scores, cot, strict=False))
    return Question(key, scores, 0, columns, parts, votes=voted)


@pytest.mark.parametrize(
    ("n", "c", "k", "expected"),
    [
        (4, 1, 1, 1 / 4),
        (4, 1, 2, 1 - 3 / 6),
        (4, 2, 2, 1 - 1 / 6),
        (4, 3, 2, 1.0),
        (4, 0, 4, 0.0),
        (5, 2, 3, 1 - 1 / 10),
        (10, 3, 5, 1 - 21 / 252),
        (200, 1, 100, 0.5),
    ],
)
def test_pass_at_k_is_the_unbiased_estimator(n, c, k, expected):
    assert best_of([1.0] * c + [0.0] * (n - c), k=k) == pytest.approx(expected, abs=1e-12)
    assert expected == pytest.approx(1 - math.comb(n - c, k) / math.comb(n, k), abs=1e-12)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=7), st.data())
def test_it_is_the_mean_of_the_best_over_all_choices(scores, data):
    k = data.draw(st.integers(1, len(scores)))
    choices = [max(choice) for choice in itertools.combinations(scores, k)]
    assert best_of(scores, k=k) == pytest.approx(math.fsum(choices) / len(choices), abs=1e-9)


@pytest.mark.parametrize(
    ("votes", "scores", "expected"),
    [
        ("BAB", (1, 0, 1), 1.0),
        ("ABA", (0, 1, 0), 0.0),
        ("BA", (1, 0), 0.5),
        ("BBAAC", (1, 1, 0, 0, 0), 0.5),
        ("---B", (0, 0, 0, 1), 1.0),
        ("--", (0, 0), 0.0),
    ],
)
def test_the_majority_decides_and_even_ones_share(votes, scores, expected):
    assert majority_of([None if v == "-" else v for v in votes], scores) == expected


def test_numbers_of_several_questions_one_of_which_failed():
    """pass@1 5/12, pass@2 (5/6 + 1/2 + 0) / 3 of two, one and no right answer of four each; the fourth failed."""
    rows = [
        question("a", 1, 1, 0, 0, votes="BBAC", cot="1010"),
        question("b", 0, 1, 0, 0, votes="ABAA", cot="0000"),
        question("c", 0, 0, math.nan, 0, votes="AA-A", cot="1111"),
        question("d"),
    ]
    found = repeats_of(rows, count=4, reasoning="cot")
    assert found.avg.score == numbers_of(rows).score == pytest.approx((2 / 4 + 1 / 4) / 4)
    passed = {k: estimate.score for k, estimate in found.pass_at.items()}
    assert passed == pytest.approx({1: 0.75 / 4, 2: (5 / 6 + 1 / 2) / 4, 3: (1 + 3 / 4) / 4, 4: 2 / 4})
    assert found.majority is not None and found.majority.score == 1 / 4
    assert found.cot_pass_at is not None, "of a one right answer is reached by right reasoning"
    assert {k: e.score for k, e in found.cot_pass_at.items()} == pytest.approx({k: k / 4 / 4 for k in range(1, 5)})
    for estimate in (*found.pass_at.values(), found.majority, *found.cot_pass_at.values()):
        assert 0 <= estimate.low <= estimate.score <= estimate.high <= 1
    assert found.pass_at[4].low == 0.0 and found.pass_at[4].high == 1.0, "two of four questions"


def test_a_verdict_counts_from_half_on():
    rows = [Question("a", (1.0, 1.0), 0, {}, ({"cot": 0.5}, {"cot": 0.49}))]
    found = repeats_of(rows, count=2, reasoning="cot")
    assert found.cot_pass_at is not None and [e.score for e in found.cot_pass_at.values()] == [0.5, 1.0]


def test_groups_and_rows_that_are_one_are_averaged_as_the_score_is():
    rows = [question("a", 1, 0, kind="x", of="a"), question("b", 0, 0, kind="x", of="b")]
    rows += [question("c0", 1, 0, kind="y", of="c"), question("c1", 0, 1, kind="y", of="c")]
    grouped = repeats_of(rows, count=2, groups=["kind"])
    assert {k: e.score for k, e in grouped.pass_at.items()} == {1: (1 / 4 + 1 / 2) / 2, 2: (1 / 2 + 1) / 2}
    as_one = repeats_of(rows, count=2, groups=["kind"], all_of=["of"])
    assert {k: e.score for k, e in as_one.pass_at.items()} == {1: (1 / 4 + 0) / 2, 2: (1 / 2 + 0) / 2}
    assert as_one.avg.score == numbers_of(rows, groups=["kind"], all_of=["of"]).score


def test_answers_that_are_not_compared_have_no_majority():
    assert repeats_of([question("a", 1, 0)], count=2).majority is None


def test_what_is_printed():
    rows = [question("a", *[1] * 6, votes="B" * 6, cot="1" * 6)]
    found = repeats_of(rows, count=6, reasoning="cot")
    names = ["avg@6", *(f"pass@{k}" for k in (2, 4, 6)), "majority@6", *(f"cot-pass@{k}" for k in (1, 2, 4, 6))]
    assert [name for name, _ in found.lines()] == names


def router(*parts: dict) -> Router:
    return Router(RewardsSection.model_validate({"workers": 0, "tasks": {"t": list(parts)}}))


@pytest.mark.parametrize(
    ("part", "texts", "votes"),
    [
        ({"reward": "choice"}, ["B", "(B) red", "red", "<think>A</think>B", "B or C"], ("B", "B", "B", "B", None)),
        ({"reward": "boolean"}, ["Yes, it is.", "true", "no", "yes or no"], ("yes", "yes", "no", None)),
        ({"reward": "numeric"}, ["1,200", "$1200.0", "1200 or 7", "-3"], ("1200.0", "1200.0", None, "-3.0")),
        ({"reward": "numeric", "options": {"decimals": 1}}, ["3.14", "3.1"], ("3.1", "3.1")),
        ({"reward": "exact_text"}, ["The Dog", "the  dog", "dog", ""], ("the dog", "the dog", "dog", None)),
        ({"reward": "exact_text", "options": {"articles": False}}, ["The Dog", "dog"], ("dog", "dog")),
        ({"reward": "anls"}, ["a", "b"], ()),
    ],
)
def test_equal_answers_have_equal_votes(part, texts, votes):
    sample = Sample("1", "t", "image", (), answer="B", columns={"options": ["blue", "red", "green"]})
    assert router(part).votes(sample, texts) == votes


def test_several_weighted_parts_have_no_vote_and_a_row_that_is_refused_has_none():
    sample = Sample("1", "t", "image", (), answer="B")
    beside = {"reward": "boolean", "weight": 0}
    assert router({"reward": "choice"}, beside).votes(sample, ["B", "A"]) == ("B", "A")
    assert router({"reward": "choice"}, {"reward": "boolean"}).votes(sample, ["B", "A"]) == ()
    broken = Sample("1", "t", "image", (), answer="B", columns={"options": "red"})
    assert router({"reward": "choice"}).votes(broken, ["B", "A"]) == ()


FACTS = {
    "data": {"path": "rows.jsonl"},
    "score": [{"reward": "choice", "name": "correct"}, {"reward": "boolean", "name": "cot", "weight": 0}],
    "answers": {"repeats": 4, "temperature": 1.0},
    "provenance": {"source": "made"},
}


def task(folder, **changes) -> Benchmark:
    (folder / "mine.yaml").write_text(yaml.safe_dump({**FACTS, **changes}))
    return load_benchmark(str(folder / "mine.yaml"))


def test_a_task_file_names_the_part_that_judges_reasoning(tmp_path):
    rows = [question("a", 1, 1, 0, 0, votes="BBAC", cot="1010")]
    without = outcome_of(task(tmp_path), rows, budgets={}).repeats
    assert without is not None and without.cot_pass_at is None
    outcome = outcome_of(task(tmp_path, reasoning="cot"), rows, budgets={})
    assert outcome.repeats is not None and outcome.repeats.cot_pass_at is not None
    assert outcome.repeats.cot_pass_at[2].score == 0.5
    first_column = list(table([outcome]).columns[0].cells)
    assert first_column == ["mine *", "  avg@4", "  pass@2", "  pass@4", "  majority@4"] + [
        f"  cot-pass@{k}" for k in (1, 2, 4)
    ]


def test_reasoning_without_a_verdict_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"mine: reasoning: the score has no part 'thought'; parts: correct, cot"):
        task(tmp_path, reasoning="thought")
    by_task = {"a": [{"reward": "choice", "name": "cot"}], "b": [{"reward": "choice"}]}
    with pytest.raises(ConfigError, match=r"the score of 'b' has no part 'cot'; parts: choice"):
        task(tmp_path, reasoning="cot", score=by_task)


def test_a_further_score_of_a_part_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(
        ConfigError, match=r"mine: also.x.part: the score has no part 'cto'; parts: correct, cot; .*'cot'"
    ):
        task(tmp_path, also={"x": {"part": "cto"}})
    assert task(tmp_path, also={"x": {"part": "cot"}, "y": {"part": "cot.length"}}).section.also.keys() == {"x", "y"}


def test_one_answer_has_numbers_of_repeats_only_with_reasoning(tmp_path):
    once = {"answers": {"repeats": 1}}
    rows = [question("a", 1, cot="1"), question("b", 1, cot="0")]
    assert outcome_of(task(tmp_path, **once), rows, budgets={}).repeats is None
    found = outcome_of(task(tmp_path, **once, reasoning="cot"), rows, budgets={}).repeats
    assert found is not None and [name for name, _ in found.lines()] == ["cot-pass@1"]
    assert found.cot_pass_at is not None and found.cot_pass_at[1].score == 0.5


def test_shares_and_means_of_scores_are_no_means_of_answers(tmp_path):
    rows = [Question("a", (1.0, 0.0), 0, {"counts": {"x": 1}}, ({"correct.x": 1.0}, {"correct.x": 0.0}))]
    assert outcome_of(task(tmp_path, average={"shares": "counts"}), rows, budgets={}).repeats is None


def test_seeds_are_of_seed_benchmark_and_key_alone():
    seeds = {seed_of(seed, name, key) for seed in (0, 1) for name in ("a", "b") for key in ("1", "2")}
    assert len(seeds) == 8 and seed_of(0, "a", "1") == seed_of(0, "a", "1")


def test_the_default_of_a_part_s_name_is_its_reward_s(tmp_path):
    assert RewardPart.model_validate({"reward": "choice"}).name is None
    benchmark = task(tmp_path, score=[{"reward": "choice"}], reasoning="choice")
    assert benchmark.section.reasoning == "choice"
