"""Logic puzzles: generators give what their checkers accept; checkers accept every solution and nothing else."""

import json
import random
import time

import pytest

from mmrl.data.puzzles import KINDS, LEVELS, LONGEST, make_puzzle, read_puzzle
from mmrl.data.puzzles.arithmetic import evaluate, solve_target
from mmrl.data.puzzles.latin import fillings, groups_of
from mmrl.data.puzzles.puzzle import read_items, read_pairs
from mmrl.errors import ConfigError


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_made_puzzle_is_solved_by_its_solution_and_by_no_other_seeds(kind, level):
    made, again, other = (make_puzzle(kind, seed=seed, level=level) for seed in (7, 7, 8))
    assert made == again and made.question != other.question
    puzzle = read_puzzle(kind, json.loads(json.dumps(made.spec)))
    assert puzzle.is_solved_by(made.solution)
    assert other.solution == made.solution or not puzzle.is_solved_by(other.solution)
    assert not puzzle.is_solved_by("") and not puzzle.is_solved_by(made.question)


@pytest.mark.parametrize("kind", ["sudoku", "futoshiki"])
def test_a_made_grid_has_one_filling(kind):
    puzzle = read_puzzle(kind, make_puzzle(kind, seed=1, level=2).spec)
    box = 2 if kind == "sudoku" else None
    assert len(list(fillings(puzzle.grid, groups_of(4, box=box), getattr(puzzle, "less", ())))) == 1


def test_there_are_288_sudokus_of_four_and_576_latin_squares():
    empty = ((0,) * 4,) * 4
    assert sum(1 for _ in fillings(empty, groups_of(4, box=2))) == 288
    assert sum(1 for _ in fillings(empty, groups_of(4))) == 576


def test_knights_of_a_made_puzzle_fit_in_one_way():
    for level in LEVELS:
        puzzle = read_puzzle("knights", make_puzzle("knights", seed=3, level=level).spec)
        assert len(puzzle.worlds()) == 1 and puzzle.chance() == pytest.approx(0.5 ** (level + 2))


def test_expressions_are_exact_and_no_python():
    assert evaluate("8 / (3 - 8 / 3)")[0] == 24
    assert evaluate("2 - 3 - 4")[0] == -5 and evaluate("2 + 3 * 4")[0] == 14
    for text in (
        "2 ** 3",
        "__import__('os')",
        "1 / 0",
        "(1",
        "1)",
        "",
        "2 3",
        "(" * 50 + "1" + ")" * 50,
        "9" * 7,
        "-1",
    ):
        assert evaluate(text) is None, text


def test_the_game_of_24_without_solution():
    assert solve_target([1, 1, 1, 1], 24) is None and solve_target([3, 3, 8, 8], 24) is not None


def test_a_shortest_maze_refuses_a_longer_way():
    grid = ["S..", "...", "..G"]
    assert read_puzzle("maze", {"grid": grid}).is_solved_by("RRDLLDRR")
    assert not read_puzzle("maze", {"grid": grid, "shortest": True}).is_solved_by("RRDLLDRR")
    assert read_puzzle("maze", {"grid": grid, "shortest": True}).is_solved_by("DDRR")


def test_names_and_values_that_come_twice_are_none():
    assert read_pairs("A is a knight and B is a knave.") == {"A": "knight", "B": "knave"}
    assert read_pairs('{"A": 1, "A": 2}') is None and read_pairs("A: 1 or 2") is None
    assert read_items("a -> b -> c") == ("a", "b", "c") and read_items("a,,b") is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_long_text_is_refused_soon(kind):
    puzzle = read_puzzle(kind, make_puzzle(kind, seed=0, level=5).spec)
    units = ("a", " ", "\n", "a:", "a: 1\n\n\n", "1 ", "(", "[", "R", "x1: true, ", ",", "colour:", "1-", "and ")
    start = time.process_time()
    assert not any(puzzle.is_solved_by((unit * LONGEST)[:LONGEST] + tail) for unit in units for tail in ("", "!"))
    assert time.process_time() - start < 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_broken_spec_is_a_value_error(kind):
    rng, spec = random.Random(kind), make_puzzle(kind, seed=0, level=1).spec
    for key in spec:
        lacking = {k: v for k, v in spec.items() if k != key}
        if key not in ("shortest", "alphabet"):
            with pytest.raises(ValueError):
                read_puzzle(kind, lacking)
        for wrong in (None, True, "?", 10**9, [[]], {"a": 1}, [rng]):
            if (key, wrong) != ("shortest", True) and (key, wrong) != ("target", 10**9):
                with pytest.raises(ValueError):
                    read_puzzle(kind, {**spec, key: wrong})


def test_an_unknown_kind_names_the_known_ones():
    with pytest.raises(ConfigError, match="sudoku"):
        make_puzzle("sudokus", seed=0, level=1)
    with pytest.raises(ConfigError, match="levels 1 to 5"):
        make_puzzle("sudoku", seed=0, level=6)
