"""The benchmark of rewards measures each on its golden cases, and names those it cannot."""

import importlib.util
import sys
from pathlib import Path

import pytest
from makers.ready import skip_unless_ready

from mmrl.plugins import shipped_names


@pytest.fixture(scope="module")
def bench():
    spec = importlib.util.spec_from_file_location(
        "bench_rewards", Path(__file__).parents[2] / "bench" / "bench_rewards.py"
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look it up
    spec.loader.exec_module(module)
    return module


def lines_of(bench, *names: str) -> list[str]:
    return list(bench.table({name: bench.calls_of(name) for name in names}, seconds=0.0))


def test_rewards_that_call_a_model_are_named_under_the_table(bench):
    lines = lines_of(bench, "choice", "judge_score", "teacher_answer")
    assert [line.split(" ")[1] for line in lines[2:-2]] == ["choice"]
    assert lines[-2] == "\nLeft out, for each of their cases calls a model: judge_score, teacher_answer"


def test_every_other_shipped_reward_has_something_to_measure(bench):
    left_out = {name for name in shipped_names("rewards") if not bench.calls_of(name)}
    assert left_out.isdisjoint({"novelty", "puzzle", "relaxed_accuracy", "symbolic", "table_qa", "sql_result"})
    assert {"judge_score", "judge_rubric", "teacher_answer"} <= left_out


def test_cases_that_run_until_their_time_limit_are_not_measured(bench):
    assert not any("time_limit_s" in call.options for call in bench.calls_of("sql_result"))
    assert len(bench.calls_of("sql_result")) > 5


def test_what_starts_programs_is_measured_by_the_clock_on_the_wall(bench):
    skip_unless_ready("exec_trace")
    rows = lines_of(bench, "numeric", "exec_trace")[2:4]
    assert "wall clock" not in rows[0] and "wall clock" in rows[1]
