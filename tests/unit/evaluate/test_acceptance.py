"""The acceptance list of evaluations: every point has tests, by name, that exist."""

import ast
import functools
import re
from pathlib import Path

import pytest
from makers.shared import SHARED

TESTS = Path(__file__).resolve().parents[2]
POINTS = {
    "A1": (
        "local Parquet, TSV and JSON lines are read with the network blocked",
        ["e2e/test_evaluate_acceptance.py::test_local_files_of_each_kind_are_read_with_the_network_blocked"],
    ),
    "A2": (
        "a missing medium is counted as failed, the run ends, and the exit code is not 0 only under --strict",
        [
            "e2e/test_evaluate.py::test_broken_files_and_media_stop_nothing_else",
            "e2e/test_evaluate_video.py::test_a_row_whose_clip_is_missing_counts_zero_in_its_own_task",
        ],
    ),
    "A3": (
        "a cut clip is one failure, one that hangs a timeout, and the others are done",
        [
            "e2e/test_evaluate.py::test_broken_files_and_media_stop_nothing_else",
            "unit/evaluate/test_runner.py::"
            "test_a_clip_whose_reader_hangs_is_a_timeout_and_is_not_opened_for_its_next_question",
        ],
    ),
    "A4": (
        "killed and gone on with, also by another number of workers or engines: the same answers, each question once",
        [
            "e2e/test_evaluate.py::test_a_killed_run_goes_on_where_it_stopped",
            "e2e/test_evaluate_dp.py::test_a_killed_run_goes_on_with_another_number_of_engines",
            "unit/evaluate/test_records.py::test_a_line_that_was_being_written_is_asked_again",
        ],
    ),
    "A5": (
        "two benchmarks and training share what was opened of a clip",
        ["e2e/test_evaluate_acceptance.py::test_two_benchmarks_and_training_open_a_shared_clip_once"],
    ),
    "A6": (
        "frames, pixels, family, resize and content change the key of what was opened",
        [
            "unit/data/test_cache.py::test_clip_recipes_are_equal_exactly_when_budgets_are",
            "unit/data/test_cache.py::test_changed_content_is_a_miss_and_never_stale",
            "unit/data/test_recipe.py::test_a_clips_recipe",
            "unit/data/test_recipe.py::test_tiles_are_part_of_the_recipe",
        ],
    ),
    "A7": (
        "a server's failure is an error and never a letter",
        [
            "e2e/test_evaluate_servers.py::test_a_failed_request_is_an_error_and_never_an_answer",
            "e2e/test_exchange.py::test_lmms_eval_logs_are_matched_by_place_and_failed_requests_are_no_letters",
        ],
    ),
    "A8": (
        "cut answers are counted; a thought that never ends holds no answer",
        [
            "unit/evaluate/test_numbers.py::test_cut_answers_are_counted",
            "unit/evaluate/test_runner.py::test_a_thought_that_the_prompt_begins_and_nothing_ends_holds_no_answer",
            "e2e/test_evaluate_asked.py::test_cut_answers_are_counted_and_a_thought_without_end_holds_none",
        ],
    ),
    "A9": (
        "letters are those of the row: six options, eleven, fourteen",
        [
            "e2e/test_evaluate_video.py::test_letters_are_those_of_the_rows_options",
            "unit/evaluate/test_options.py::test_every_rotation_is_asked_and_the_right_letter_goes_with_its_text",
        ],
    ),
    "A10": (
        "options shuffled by a seed, and asked in every rotation",
        [
            "unit/evaluate/test_options.py::test_a_shuffle_is_that_of_seed_and_id",
            "unit/evaluate/test_options.py::test_every_rotation_is_asked_and_the_right_letter_goes_with_its_text",
            "unit/evaluate/test_options.py::test_a_question_is_right_if_all_its_rotations_are",
        ],
    ),
    "A11": (
        "a split without answers is refused before anything is generated, unless --predict-only",
        ["e2e/test_evaluate.py::test_what_cannot_be_scored_is_refused_before_anything_is_loaded"],
    ),
    "A12": (
        "batch, concurrency and order change no greedy answer",
        [
            "unit/evaluate/test_runner.py::test_concurrency_changes_neither_answers_nor_scores",
            "e2e/test_evaluate_asked.py::test_neither_batch_nor_order_of_rows_changes_an_answer",
            "e2e/test_evaluate_dp.py::test_two_engines_give_the_results_of_one",
            "e2e/test_evaluate.py::test_a_killed_run_goes_on_where_it_stopped",
        ],
    ),
    "A13": (
        "stored answers are scored anew without a model",
        [
            "e2e/test_evaluate.py::test_a_second_run_asks_nothing_and_a_rescore_needs_no_model",
            "e2e/test_exchange.py::test_what_was_exported_comes_back_with_the_same_scores",
        ],
    ),
    "A14": (
        "what a metric needs and lacks is an error, and no other metric takes its place",
        [
            "unit/scoring/sandbox/test_preflight.py::test_a_missing_program_is_named_with_its_remedy",
            "unit/scoring/sandbox/test_preflight.py::test_a_missing_package_is_named_with_its_remedy",
            "unit/evaluate/test_worked_cases.py::test_a_worked_case",
        ],
    ),
    "A15": (
        "places without a space on both sides are an error at the start",
        [
            "e2e/test_evaluate_acceptance.py::"
            "test_places_of_a_model_whose_space_is_not_known_are_refused_before_anything_is_generated"
        ],
    ),
    "A16": (
        "metrics give the worked numbers",
        [
            "unit/evaluate/test_worked_cases.py::test_a_worked_case",
            "unit/evaluate/test_worked_cases.py::test_the_letter_that_a_text_is_read_as",
            "unit/evaluate/test_worked_cases.py::test_a_case_of_the_shared_file",
        ],
    ),
    "A17": (
        "prompt, sampling, media budget, revision of the data and version of the code are in the results",
        [
            "e2e/test_evaluate_acceptance.py::test_results_say_prompts_sampling_budgets_files_and_code",
            "faults/test_evaluation.py::test_results_say_what_they_depend_on_and_unequal_ones_are_not_compared",
        ],
    ),
    "A18": (
        "the engine answers before the last medium is opened",
        ["unit/evaluate/test_runner.py::test_a_slow_clip_holds_up_its_own_question_only"],
    ),
    "A19": (
        "what is prepared ahead is bounded by the queue",
        ["unit/evaluate/test_runner.py::test_what_is_prepared_ahead_is_bounded_and_a_shared_medium_is_opened_once"],
    ),
    "A20": (
        "one broken benchmark stops no other",
        [
            "e2e/test_evaluate.py::test_broken_files_and_media_stop_nothing_else",
            "e2e/test_evaluate.py::test_a_task_file_without_a_budget_for_its_media_stops_itself_alone",
        ],
    ),
    "A21": (
        "subtitles that are missing are an error and no empty text",
        ["unit/data/test_made_columns.py::test_subtitles_that_are_missing_are_an_error_and_never_empty"],
    ),
}


@functools.cache
def functions_in(module: str) -> frozenset[str]:
    """Names of the test functions of a module under tests/."""
    tree = ast.parse((TESTS / module).read_text(encoding="utf-8"))
    return frozenset(n.name for n in tree.body if isinstance(n, ast.FunctionDef) and n.name.startswith("test_"))


@pytest.mark.parametrize("point", POINTS)
def test_every_point_has_tests_that_exist(point):
    words, tests = POINTS[point]
    assert words and tests and len(set(tests)) == len(tests)
    assert [test for test in tests if test.partition("::")[2] not in functions_in(test.partition("::")[0])] == []


def test_the_points_are_those_of_the_list():
    """Where the list lies beside the checkout."""
    path = SHARED / "evaluation.md"
    if not path.is_file():
        pytest.skip("the shared description of evaluations is not beside this checkout")
    [listed] = re.findall(r"^Acceptance list.*?(?=\n\n)", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert list(POINTS) == re.findall(r"\b(A\d+) ", listed)
