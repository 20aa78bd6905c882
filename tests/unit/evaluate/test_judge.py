"""What of a judged benchmark's task file its scores depend on, and what its answers do."""

from dataclasses import replace
from pathlib import Path

import pytest

from mmrl.config.benchmark_section import BenchmarkSection
from mmrl.config.judge_section import WITHOUT_JUDGE, JudgeServerSection
from mmrl.errors import PluginError
from mmrl.evaluate.benchmark import Benchmark
from mmrl.evaluate.judge import longest_s

FACTS = {
    "data": {"path": "rows.jsonl"},
    "score": [{"reward": "judge_correct", "options": {"prompt": "Right if equal."}}],
    "judge": {"model": "big", "version": 1, "without": [{"reward": "exact_text"}]},
    "provenance": {"source": "made"},
}
SERVER = JudgeServerSection(url="http://judge/v1", api_key_env="TOKEN", timeout_s=20, retries=2)


def benchmark(**changes) -> Benchmark:
    return Benchmark("made", BenchmarkSection.model_validate({**FACTS, **changes}), Path())


def judged(of: Benchmark, server: JudgeServerSection = SERVER) -> Benchmark:
    return of.judged_by(server, without=False, store=Path("verdicts"), remedies="")


@pytest.mark.parametrize(
    "change",
    [
        {"judge": {**FACTS["judge"], "model": "small"}},
        {"judge": {**FACTS["judge"], "version": 2}},
        {"judge": {**FACTS["judge"], "max_tokens": 10}},
        {"score": [{"reward": "judge_correct", "options": {"prompt": "Right if near."}}]},
    ],
)
def test_the_score_depends_on_judge_version_and_prompt_and_the_answers_on_neither(change):
    first, second = judged(benchmark()), judged(benchmark(**change))
    assert first.hash != second.hash and first.answers_hash == second.answers_hash


def test_where_the_judge_answers_and_what_stands_in_its_place_move_no_score():
    elsewhere = SERVER.model_copy(update={"url": "http://other/v1"})
    rules = {"judge": {**FACTS["judge"], "without": [{"reward": "string_match"}]}}
    assert judged(benchmark()).hash == judged(benchmark(), elsewhere).hash == judged(benchmark(**rules)).hash


def test_answers_without_a_judge_are_those_with_one_and_another_template_is_another_question():
    without = benchmark().judged_by(None, without=True, store=Path(), remedies="")
    assert (without.score_name, without.judge_told) == (WITHOUT_JUDGE, None)
    assert without.hash != judged(benchmark()).hash and without.answers_hash == benchmark().answers_hash
    other = benchmark(data={"path": "rows.jsonl", "user_template": "{prompt}!"})
    assert other.answers_hash != benchmark().answers_hash


def test_a_benchmark_without_a_judge_has_one_hash_and_needs_no_server():
    plain = benchmark(judge=None, score=[{"reward": "exact_text"}])
    assert judged(plain) is plain and plain.hash == plain.answers_hash and plain.score_name == "score"


def test_the_judged_part_gets_the_server_and_time_for_all_its_tries():
    of = judged(benchmark())
    [part] = of.parts["parts"]
    wanted = {"url": "http://judge/v1", "model": "big", "version": 1, "api_key_env": "TOKEN", "store": "verdicts"}
    assert wanted.items() <= part.options["endpoint"].items()
    assert "endpoint" not in str(of.judge_told) and replace(of, endpoint=None).hash == of.hash
    assert longest_s(part.options["endpoint"]) == 2 * 3 * (20 + 30)


def test_results_are_read_back_as_they_were_judged():
    other = judged(benchmark(), SERVER.model_copy(update={"model": "small"}))
    told = other.judge_told
    assert told is not None and (told["model"], told["in_place_of"]) == ("small", "big")
    assert benchmark().scored_as({"judge": told}).hash == other.hash
    without = benchmark().judged_by(None, without=True, store=Path(), remedies="")
    assert benchmark().scored_as({WITHOUT_JUDGE: 0.5}).hash == without.hash


def test_a_key_at_its_default_is_not_part_of_the_hash():
    """So stored answers outlive an update of mmrl that brings another key."""
    written_out = benchmark(answers={"temperature": 0.0}, data={"path": "rows.jsonl", "weight": 1.0}, cluster=None)
    assert written_out.hash == benchmark().hash
    assert benchmark(answers={"temperature": 0.5}).hash != benchmark().hash


def test_a_reward_that_is_not_there_is_told_with_its_benchmark():
    with pytest.raises(PluginError, match=r"^made: unknown reward 'choise'; .*did you mean 'choice'"):
        judged(benchmark(judge=None, score=[{"reward": "choise"}]))
