"""Logic puzzles: whether the answer solves the row's puzzle.

Formula: 1 if the answer meets every rule of the puzzle, any solution of it, not only the stored one; else 0.
Bounds: 0 to 1.
Answer: the form that the question asks for, of at most 5000 characters: an expression, a grid, moves, names with
values, a list. The row's `answer` is one solution; it must solve the puzzle, so a spec without a solution is an error.
Space: none.
Source: the tasks of SynLogic and Guru. The columns `puzzle` (the kind) and `puzzle_spec` (a mapping, or JSON text) say
what solves it: target, sequence, cryptarithm, calendar, word_sorting, sudoku, futoshiki, minesweeper, maze, knights,
satisfy, ordering, zebra; see `mmrl.data.puzzles`.
Example: target 24 of 4, 6, 1, answer `4 * 6 * 1`: `6 * 4 / 1` 1, `4 * 6` 0.
"""

import json
from typing import Any

from mmrl.data.puzzles import LONGEST, LogicPuzzle, read_puzzle
from mmrl.data.sample import Sample
from mmrl.errors import RewardError
from mmrl.scoring.gold import bad_answer
from mmrl.scoring.parse import AnswerFormat, extract_prediction

BOUNDS = (0.0, 1.0)


def chance(sample: Sample) -> float:
    return _puzzle(sample).chance()


def score(completion: str, sample: Sample, *, answer: AnswerFormat = "auto") -> float:
    puzzle = _puzzle(sample)
    if not isinstance(sample.answer, str) or not puzzle.is_solved_by(sample.answer):
        raise bad_answer(sample, wanted=f"a solution of its puzzle ({puzzle.KIND})")
    prediction = extract_prediction(completion, answer=answer)
    return float(prediction is not None and len(prediction) <= LONGEST and puzzle.is_solved_by(prediction))


def _puzzle(sample: Sample) -> LogicPuzzle:
    kind, spec = sample.columns.get("puzzle"), sample.columns.get("puzzle_spec")
    try:
        return read_puzzle(str(kind), _as_mapping(spec))
    except (ValueError, RecursionError) as error:
        raise RewardError(f"{sample.where}: {error} (columns `puzzle` and `puzzle_spec`)") from error


def _as_mapping(spec: Any) -> Any:
    return json.loads(spec) if isinstance(spec, str) else spec
