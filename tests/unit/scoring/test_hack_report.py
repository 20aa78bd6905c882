"""What the report finds on rewards with a known flaw, on rows whose chance level can be worked out by hand."""

import json

import pytest

from mmrl.errors import DataError, RewardError
from mmrl.scoring.cases import cases_of
from mmrl.scoring.hack_data import MOST_ROWS, fixture_items, fixture_targets, row_targets
from mmrl.scoring.hack_report import hack_report, hack_result, lines, markdown
from mmrl.scoring.pool import RewardPool
from mmrl.scoring.tricks import tricks


@pytest.fixture(scope="module")
def pool():
    with RewardPool(0, timeout_s=5) as started:
        yield started


def rows(folder, answers, **columns):
    made = [{"answer": a, "task": "t", "problem": "Is it yes or no?", **columns} for a in answers]
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in made))
    return path


def config(folder, reward, more=""):
    path = folder / "c.yaml"
    path.write_text(f"model: {{path: .}}\nrewards: {{tasks: {{t: [{{reward: {reward}}}{more}]}}}}\n")
    return path


def plugin(folder, body, head=""):
    (folder / "r.py").write_text(f"{head}\ndef score(completion, sample):\n    return {body}\n")
    return "./r.py"


def result_of(folder, pool, answers, reward, **columns):
    (target,) = row_targets(rows(folder, answers, **columns), config=config(folder, reward))
    return hack_result(target, pool)


def test_a_skewed_dataset_pays_its_most_frequent_answer(tmp_path, pool):
    result = result_of(tmp_path, pool, ["yes"] * 30 + ["no"] * 10, "exact_text")
    assert result.right == 1.0 and not result.is_stated
    assert result.chance == pytest.approx(0.75**2 + 0.25**2, abs=0.05)
    # 30 of 40 rows, and the row that pays it most left out
    assert result.tried["constant"].score == pytest.approx(29 / 39) and "yes" in result.tried["constant"].label
    assert result.findings == ["constant"]
    assert result.tried["empty"].score == result.tried["options"].score == 0


def test_slow_rows_do_not_use_up_the_time_limit_of_one_completion_together(tmp_path):
    """40 bare answers of 0.05 s under a limit of 1.5 s: as one call they would be stopped and made one by one again."""
    head = f"""
import pathlib, time

def slept(completion, answer):
    if completion in ("yes", "no"):
        with pathlib.Path({str(tmp_path / "calls")!r}).open("a") as calls:
            calls.write("called\\n")
        time.sleep(0.05)
    return float(answer in completion)
"""
    slow = plugin(tmp_path, "slept(completion, sample.answer)", head=head)
    with RewardPool(1, timeout_s=1.5) as pool:
        result = result_of(tmp_path, pool, ["yes", "no"] * 20, slow)
    assert result.right == 1.0
    assert len((tmp_path / "calls").read_text().splitlines()) == 40


def test_tricks_of_long_answers_are_no_longer_than_completions(tmp_path):
    """Of answers of 3000 characters five are listed or repeated, of one of 20,000 only itself, of short ones 20."""
    for length, times in ((3000, 5), (20_000, 1), (3, 20)):
        items = row_targets(
            rows(tmp_path, [f"{n:0{length}d}" for n in range(30)]), config=config(tmp_path, "exact_text")
        )[0].items
        policies = {(p.trick, p.label): p.completions[0] for p in tricks(items, "@")}
        assert len(policies["options", "joined by ', '"].split(", ")) == times
        assert len(policies["repeated", "inside the answer"].split(" ")) == times
        assert len(policies["repeated", "completion"].split("\n")) == times


def test_balanced_letters_have_no_finding(tmp_path, pool):
    letters = list("ABCD") * 10
    result = result_of(tmp_path, pool, letters, "choice", options=["w", "x", "y", "z"])
    assert (result.chance, result.is_stated) == (0.25, True)
    assert result.findings == [] and result.tried["constant"].score == pytest.approx(9 / 39)


@pytest.mark.parametrize(
    ("body", "trick"),
    [
        ("float(str(sample.answer) in completion)", "options"),
        ("float(not completion)", "empty"),
        ("float(completion == sample.columns['problem'])", "echo"),
        ("min(1.0, completion.count('<answer>') / 20)", "repeated"),
        ("float(len(completion) > 0)", "constant"),
    ],
)
def test_each_trick_is_found(tmp_path, pool, body, trick):
    head = "CHANCE = 0.2"
    result = result_of(tmp_path, pool, ["p", "q", "r", "s", "u"] * 4, plugin(tmp_path, body, head))
    assert trick in result.findings and (result.chance, result.is_stated) == (0.2, True)


def test_the_margin_is_a_twentieth(tmp_path, pool):
    answers = ["p", "q", "r", "s", "u"] * 4
    just = result_of(tmp_path, pool, answers, plugin(tmp_path, "0.25", "CHANCE = 0.2"))
    assert just.findings == []
    (tmp_path / "over").mkdir()
    over = result_of(tmp_path / "over", pool, answers, plugin(tmp_path / "over", "0.2501", "CHANCE = 0.2"))
    assert set(over.findings) == {"constant", "echo", "options", "empty", "repeated"}


def test_known_hacks_are_listed_with_their_reason_and_are_no_findings(tmp_path, pool):
    head = "CHANCE = 0.0\nKNOWN_HACKS = {'empty': 'silence is golden'}"
    result = result_of(tmp_path, pool, ["p", "q", "r"], plugin(tmp_path, "float(not completion)", head))
    assert result.above == ["empty"] and result.findings == []
    assert list(lines([result])) == ["known: t/r: empty: silence is golden"]
    assert markdown([result]).splitlines()[2].endswith("| **1.000*** | 0.000 |")


def test_format_parts_and_parts_without_weight_are_left_out(tmp_path):
    more = ", {reward: format, is_format: true}, {reward: exact_text, weight: 0.0}"
    targets = row_targets(rows(tmp_path, ["A", "B"]), config=config(tmp_path, "choice", more))
    assert [target.part for target in targets] == ["choice"]


def test_many_rows_are_drawn_by_a_fixed_seed(tmp_path):
    path = rows(tmp_path, [str(n) for n in range(1000)])
    first, second = (row_targets(path, config=config(tmp_path, "numeric"))[0].items for _ in range(2))
    assert first == second and len(first) == MOST_ROWS


def test_rows_that_cannot_be_scored_are_an_error_with_the_reason(tmp_path, pool):
    with pytest.raises(RewardError, match=r"'choice': fewer than two rows .*bad_answer: .*rows\.jsonl:"):
        result_of(tmp_path, pool, ["Paris", "Rome"], "choice")
    with pytest.raises(DataError, match="no column 'answer'"):
        (tmp_path / "bad.jsonl").write_text('{"task": "choice"}\n')
        row_targets(tmp_path / "bad.jsonl")


def test_the_exit_code_is_1_only_under_strict(tmp_path, capsys):
    targets = row_targets(rows(tmp_path, ["yes"] * 9 + ["no"]), config=config(tmp_path, "exact_text"))
    assert hack_report(targets) == 0 and hack_report(targets, strict=True) == 1
    assert "finding: t/exact_text: constant" in capsys.readouterr().out
    assert hack_report(fixture_targets("choice"), strict=True) == 0


def test_fixtures_hold_one_right_completion_an_answer():
    items = fixture_items(cases_of("box_iou"))
    assert len(items) >= 4 and len({str(item.sample.answer) for item in items}) == len(items)
    assert all(item.is_whole for item in items)
