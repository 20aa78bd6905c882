"""Options in another order: prompt, letters, answer and parser move together."""

import json
import string
from pathlib import Path

import pytest
import yaml
from makers.benchmarks import write_benchmarks

from mmrl.config.benchmark_section import ROTATION_OF
from mmrl.config.schema import CacheSection, ModelSection
from mmrl.data.sample import Sample
from mmrl.errors import ConfigError, DataError
from mmrl.evaluate.benchmark import Benchmark, Rows, columns_of, load_benchmark, read_rows
from mmrl.evaluate.exchange import question_text
from mmrl.evaluate.numbers import Question
from mmrl.evaluate.options import read_order
from mmrl.evaluate.result import outcome_of
from mmrl.scoring.router import Router

LISTED = "{{ prompt }}\n{% for option in options %}\n{{ option }}\n{% endfor %}"


def task(folder: Path, rows: list[dict], *, template: str = LISTED, options: object = "written", **card) -> Benchmark:
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    facts = {
        "data": {"path": "rows.jsonl", "card": {"task": "quiz", **card}, "user_template": template},
        "score": [{"reward": "choice"}],
        "options": options,
        "provenance": {"source": "made"},
    }
    (folder / "mine.yaml").write_text(yaml.safe_dump(facts, sort_keys=False))
    return load_benchmark(str(folder / "mine.yaml"))


def read(benchmark: Benchmark, root: Path, **how) -> Rows:
    config = benchmark.config(ModelSection(path="none"), cache=CacheSection(), budgets={}, workers=0)
    return read_rows(benchmark, config, root=root, **how)


def lettered(count: int, answer: str, **more) -> dict:
    letters = string.ascii_uppercase[:count]
    return {"prompt": "Which?", "options": [f"{c}. text {c}" for c in letters], "answer": answer, **more}


def scores(benchmark: Benchmark, sample: Sample, *completions: str) -> list[float]:
    config = benchmark.config(ModelSection(path="none"), cache=CacheSection(), budgets={}, workers=0)
    with Router(config.rewards) as router:
        return list(router.score([(sample, completions)]).task_scores[0])


@pytest.mark.parametrize("count", [2, 6, 14, 26])
def test_every_rotation_is_asked_and_the_right_letter_goes_with_its_text(tmp_path, count):
    letters = string.ascii_uppercase[:count]
    benchmark = task(tmp_path, [lettered(count, "B", id="q")], options="circular")
    asked = read(benchmark, tmp_path).samples
    assert [s.sample_id for s in asked] == ["q", *(f"q/{n}" for n in range(1, count))]
    assert {s.columns[ROTATION_OF] for s in asked} == {"q"}
    assert sorted(s.answer for s in asked) == list(letters), "each letter is right once"
    for turn, sample in enumerate(asked):
        right = letters[(1 - turn) % count]
        assert sample.answer == right and f"{right}. text B" in question_text(sample)
        assert [option[0] for option in sample.columns["options"]] == list(letters)
        wrong = letters[(2 - turn) % count]
        said = scores(benchmark, sample, right, f"The answer is ({right}).", "text B", wrong)
        assert said == [1.0, 1.0, 1.0, 0.0]


def test_a_shuffle_is_that_of_seed_and_id(tmp_path):
    rows = [lettered(6, "D", id=f"q{n}") for n in range(20)]
    orders = []
    for seed, of in ((7, rows), (7, rows[::-1]), (8, rows)):
        samples = read(task(tmp_path, of, options={"shuffle": seed}), tmp_path).samples
        for sample in samples:
            [place] = [n for n, option in enumerate(sample.columns["options"]) if option.endswith("text D")]
            assert sample.answer == string.ascii_uppercase[place]
            assert sorted(option[3:] for option in sample.columns["options"]) == [f"text {c}" for c in "ABCDEF"]
        orders.append({sample.sample_id: tuple(sample.columns["options"]) for sample in samples})
    assert orders[0] == orders[1], "the order of rows does not matter"
    assert orders[0] != orders[2] and len(set(orders[0].values())) > 10
    assert list(orders[0]) == [f"q{n}" for n in range(20)], "keys stay"


def test_mappings_keep_their_labels_and_empty_entries(tmp_path):
    row = {"prompt": "Which?", "options": {"A": "red", "B": "blue", "C": None}, "answer": "A"}
    template = "{{ prompt }} {{ options }}"
    first, second = read(task(tmp_path, [row], template=template, options="circular"), tmp_path).samples
    assert first.columns["options"] == {"A": "red", "B": "blue", "C": None} and first.answer == "A"
    assert second.columns["options"] == {"A": "blue", "B": "red", "C": None} and second.answer == "B"


def test_options_that_a_card_makes_are_moved_before_more_is_made_of_them(tmp_path):
    make = {
        "options": {"items": ["one", "two", "three"]},
        "listed": {"lettered": "options"},
        "letter": {"letter": "answer", "options": "options"},
    }
    row = {"prompt": "Which?", "one": "red", "two": "blue", "three": "", "answer": "blue"}
    how = {"make": make, "columns": {"answer": "letter"}, "template": "{{ prompt }}\n{{ listed }}"}
    samples = read(task(tmp_path, [row], options="circular", **how), tmp_path).samples
    assert [question_text(s) for s in samples] == ["Which?\nA. red\nB. blue", "Which?\nA. blue\nB. red"]
    assert [s.answer for s in samples] == ["B", "A"]


def test_a_question_is_right_if_all_its_rotations_are(tmp_path):
    rows = [lettered(2, "A", id="q"), lettered(2, "B", id="r")]
    benchmark = task(tmp_path, rows, options="circular")
    samples = read(benchmark, tmp_path).samples
    questions = [Question(s.sample_id, (float(s.sample_id != "r/1"),), 0, columns_of(s)) for s in samples]
    numbers = outcome_of(benchmark, questions, budgets={}).numbers
    assert numbers is not None and (numbers.score, numbers.n_total) == (0.5, 4)


def test_a_row_whose_picture_is_missing_is_a_question_of_its_own(tmp_path):
    rows = [lettered(2, "A", id=name, images=f"{name}.png") for name in "ab"]
    rows.append(lettered(2, "A", id="c"))
    found = read(task(tmp_path, rows, options="circular", placeholders="leading", image_placeholder=None), tmp_path)
    assert [of[ROTATION_OF] for of in found.failed_columns.values()] == ["a", "b"]
    assert found.size == 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"options": None}, "no column 'options' holds them"),
        ({"options": "red, blue"}, "the column 'options' is text, not a list of options"),
        ({"options": ["red", {"text": "blue"}]}, "the column 'options' is a list, not a list of options"),
        ({"options": [str(n) for n in range(27)]}, "27 options cannot be moved; 1 to 26 have letters"),
        ({"answer": "Z"}, "the answer 'Z' is none of its options A, B"),
    ],
)
def test_what_cannot_be_moved_is_refused_with_its_row(tmp_path, change, message):
    rows = [lettered(2, "A"), {**lettered(2, "A"), **change}]
    with pytest.raises(DataError, match=r"rows\.jsonl:2") as error:
        read(task(tmp_path, rows, template="{prompt}", options={"shuffle": 0}), tmp_path)
    assert message in str(error.value)


def test_a_prompt_that_shows_no_moved_options_is_refused(tmp_path):
    """Fault: only the right letter moves, and the model is asked the old question."""
    benchmark = task(tmp_path, [lettered(3, "A")], template="{prompt}", options="circular")
    with pytest.raises(DataError, match="the prompt does not show the column 'options'"):
        read(benchmark, tmp_path)


def test_a_score_without_options_has_none_to_move(tmp_path):
    files = write_benchmarks(tmp_path, ["chartqa"])
    with pytest.raises(ConfigError, match="chartqa: its score reads no options"):
        read(load_benchmark("chartqa").with_options("circular"), files, limit=1)


def test_an_unpublished_answer_needs_none(tmp_path):
    rows = [{k: v for k, v in lettered(2, "A").items() if k != "answer"}]
    benchmark = task(tmp_path, rows, options="circular")
    assert [s.answer for s in read(benchmark, tmp_path, needs_answers=False).samples] == [None, None]


def test_the_order_is_in_the_hash_and_the_command_line_says_it(tmp_path):
    written = task(tmp_path, [lettered(2, "A")])
    orders = [read_order(text) for text in ("written", "circular", "shuffle:0", "shuffle:1")]
    assert len({written.with_options(order).hash for order in orders}) == 4
    assert written.with_options("circular").with_options("written").hash == written.hash
    assert written.with_options({"shuffle": 1}).hash == written.with_options(orders[3]).hash
    for text in ("shuffled", "shuffle", "shuffle:x"):
        with pytest.raises(ConfigError, match="give written, circular or shuffle:SEED"):
            read_order(text)
