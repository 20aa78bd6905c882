"""`mmrl make-tasks logic-puzzles`: a plan becomes rows that the reward `puzzle` accepts."""

import itertools
from collections import Counter

import pytest
from makers.made_tasks import files_of, make, rows_of, samples_of, scored

from mmrl.data.make_tasks.logic import LogicPuzzles
from mmrl.data.make_tasks.puzzle import Making, MediaFolder, Source, Turns, UnusableError, generator
from mmrl.errors import ConfigError, DataError


def plan(folder, text):
    file = folder / "plan.yaml"
    file.write_text(text)
    return file


def test_a_plan_becomes_rows_whose_answers_score_one(tmp_path):
    file = plan(tmp_path, "sudoku: {levels: [1, 2], count: 2}\nknights: {count: 1}\n")
    made = make("logic-puzzles", file, tmp_path / "out", epochs=2)
    rows = rows_of(tmp_path / "out")
    assert made.rows["train"] == len(rows) == 18 and not made.skipped
    assert Counter((row["puzzle"], row["level"]) for row in rows) == {
        **{("sudoku", level): 4 for level in (1, 2)},
        **{("knights", level): 2 for level in (1, 2, 3, 4, 5)},
    }
    assert len({row["problem"] for row in rows}) == 18 and len({row["id"] for row in rows}) == 18
    samples = samples_of(tmp_path / "out")
    assert all(scored(f"<answer>{sample.answer}</answer>", sample) == 1 for sample in samples)
    assert not any(
        scored(f"<answer>{other.answer}</answer>", sample)
        for sample, other in itertools.pairwise(samples)
        if sample.answer != other.answer
    )


def test_same_seed_same_bytes(tmp_path):
    file = plan(tmp_path, "maze: {levels: [1], count: 3}\nordering: {count: 1}\n")
    for name, seed in (("one", 1), ("two", 1), ("three", 2)):
        make("logic-puzzles", file, tmp_path / name, seed=seed)
    one, two, three = (files_of(tmp_path / name) for name in ("one", "two", "three"))
    assert one == two and one["train.jsonl"] != three["train.jsonl"]


def test_the_twentieth_repetition_in_a_row_is_passed_over(tmp_path):
    maker, source = LogicPuzzles(), Source("calendar-1", tmp_path, sample=("calendar", 1))

    def made():
        making = Making(1, generator(0, 1, "the same"), Turns(generator(0, 0, "train")), MediaFolder(tmp_path))
        return [puzzle.prompt for puzzle in maker(source, making)]

    prompts = [prompt for _ in range(20) for prompt in made()]
    assert len(set(prompts)) == len(prompts) == 20
    with pytest.raises(UnusableError, match="were made before"):
        made()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sudokus: {count: 1}", "did you mean 'sudoku'"),
        ("sudoku: 3", "needs `levels`"),
        ("sudoku: {count: 0}", "needs `levels`"),
        ("sudoku: {count: 1, levels: [6]}", "needs `levels`"),
        ("sudoku: {count: 1, size: 9}", "needs `levels`"),
        ("- sudoku", "must map kinds"),
        ("a: [", "is no YAML"),
    ],
)
def test_a_plan_that_cannot_be_used(tmp_path, text, said):
    with pytest.raises(ConfigError, match="plan.yaml.*" + said):
        make("logic-puzzles", plan(tmp_path, text), tmp_path / "out")


def test_a_folder_is_no_plan(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises((ConfigError, DataError), match="is no file"):
        make("logic-puzzles", tmp_path / "folder", tmp_path / "out")
