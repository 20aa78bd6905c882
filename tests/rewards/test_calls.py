"""What the golden cases beside the rewards cannot say: rewards in threads, and errors that name the sample."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from makers.scoring import answered

from mmrl.errors import ConfigError, RewardError
from mmrl.plugins import resolve_function
from mmrl.scoring.reward import check_machine, resolve_reward


def value(reward, answer, completion):
    return resolve_function(reward, kind="rewards", default="score")(completion, answered(answer))


@pytest.mark.parametrize(("reward", "answer"), [("choice", "Paris"), ("math", "{{{"), ("box_iou", [1, 2, 3])])
@pytest.mark.parametrize("completion", ["{{{", "A", ""])
def test_a_bad_answer_is_an_error_that_names_the_sample_never_a_score(reward, answer, completion):  # fault 68
    with pytest.raises(RewardError, match=r"rows\.jsonl:7 \(id=s1\): the answer .* is not"):
        value(reward, answer, completion)


TABLE = {"kind": "table", "vectors": {"a": [1.0, 0.0]}}


@pytest.mark.parametrize(
    ("reward", "options", "words"),
    [
        ("format", {"official": True, "style": "boxed"}, "no official form of the style boxed"),
        ("image_similarity", {"official": True, "encoder": TABLE}, "a form of `measure: patches`"),
    ],
)
def test_official_where_there_is_none_is_an_error_at_start(reward, options, words):
    with pytest.raises(ConfigError, match=words):
        check_machine(resolve_reward(reward), options, timeout_s=100.0, where="rewards.tasks.t[0]")


def test_math_works_outside_the_main_thread():  # fault 69
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(value, "math", "1/2", "0.5").result() == 1


def test_a_number_longer_than_python_converts_is_a_wrong_order_not_an_error():
    order = resolve_function("order", kind="rewards", default="score")
    assert order("9" * 5000, answered("2,1,3"), official=True) == 0
    assert order("02 1 3", answered("2,1,3"), official=True) == 1


@pytest.mark.parametrize(
    ("reward", "answer", "options", "unclosed"),
    [
        ("spans", [[1, 2]], {"read": "glue"}, "<glue>"),
        ("ui_r1", {"action": "scroll"}, {"official": True}, "<answer>"),
        ("evidence_format", [1.0, 2.0], {}, "<think>"),
    ],
)
def test_a_megabyte_of_tags_that_are_never_closed_is_read_in_a_moment(reward, answer, options, unclosed):
    score = resolve_function(reward, kind="rewards", default="score")
    start = time.perf_counter()
    result = score(unclosed * 130_000, answered(answer), **options)
    assert (result["reward"] if isinstance(result, dict) else result) == 0
    assert time.perf_counter() - start < 2
