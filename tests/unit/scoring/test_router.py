"""Routing by task, weights, forms, events, and every check that comes before training."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from makers import slow_rewards
from makers.scoring import answered

from mmrl.config.schema import RewardsSection
from mmrl.data.rendered import MediaEntry
from mmrl.data.sample import MediaRef, Sample
from mmrl.errors import ConfigError, PluginError, RewardError
from mmrl.scoring.geometry import format_geometry, to_model_space
from mmrl.scoring.ongoing import CHUNK
from mmrl.scoring.router import Router

FILE = slow_rewards.__file__


def router(tasks, **section) -> Router:
    return Router(RewardsSection.model_validate({"workers": 0, "tasks": tasks, **section}))


GROUNDED = [{"reward": "box_iou"}, {"reward": "format", "weight": 0.2, "is_format": True}]
TASKS = {"quiz": [{"reward": "choice"}], "box": GROUNDED}
BOX = "<think>x</think><answer>0 0 100 50</answer>"


def test_reward_is_the_weighted_sum_and_the_task_score_leaves_format_out():
    scores = router(TASKS).score([(answered([0, 0, 100, 100], task="box"), [BOX, "0 0 100 100", "no"])])
    assert scores.rewards == (pytest.approx((0.7, 1.0, 0.0)),)
    assert scores.task_scores == ((0.5, 1.0, 0.0),)
    assert scores.breakdown_of(0, 0) == {"box_iou": 0.5, "format": 1.0}


@pytest.mark.parametrize(
    ("progress", "expected"), [(0.0, 0.862036), (0.5, 0.603575), (0.75, 0.308820), (0.9, 0.308820), (1.0, 0.308820)]
)
@pytest.mark.parametrize("workers", [0, 1])
def test_rewards_see_the_progress_of_training(progress, expected, workers):
    """VisionCoach's sigma of 4 * (1 - p), then 1: moments 5 and 9 against the keys 6 and 12."""
    tasks = {"when": [{"reward": "temporal_point", "options": {"sigma": "annealed"}}]}
    with router(tasks, workers=workers) as found:
        scoring = found.start([(answered([6, 12], task="when"), 1)], progress=progress)
        scoring.add({0: ["[5, 9]"]})
        assert scoring.finish().rewards[0][0] == pytest.approx(expected, abs=1e-6)
        if progress == 1.0:
            assert found.score([(answered([6, 12], task="when"), ["[5, 9]"])]).rewards == scoring.finish().rewards


def test_task_scores_are_normalised_by_the_weights():
    tasks = {"quiz": [{"reward": "choice", "weight": 3.0}, {"reward": "exact_text", "weight": 1.0}]}
    scores = router(tasks).score([(answered("B", task="quiz"), ["(B)"])])
    assert scores.rewards == ((3.0,),) and scores.task_scores == ((0.75,),)


def test_behind_a_closed_gate_the_other_parts_count_nothing():
    parts = [{"reward": "choice", "weight": 0.8}, {"reward": "format", "weight": 0.2, "is_format": True, "gate": True}]
    right, wrong = "<think>x</think><answer>B</answer>", "<think>x</think><answer>A</answer>"
    scores = router({"quiz": parts}).score([(answered("B", task="quiz"), [right, wrong, "B"])])
    assert scores.rewards == (pytest.approx((1.0, 0.2, 0.0)),)
    assert scores.task_scores == ((1.0, 0.0, 0.0),)
    assert scores.breakdown_of(0, 2) == {"choice": 1.0, "format": 0.0}
    unusable = router({"quiz": parts}).score([(answered({}, task="quiz"), ["B"])])
    assert math.isnan(unusable.rewards[0][0])


def test_tasks_are_mixed_in_one_batch_and_keep_their_order():
    groups = [
        (answered("B", task="quiz", sample_id="q1"), ["B", "A"]),
        (answered([0, 0, 2, 2], task="box"), ["0 0 2 2"]),
        (answered("C", task="quiz", sample_id="q2"), ["C", "D", "C"]),
    ]
    scores = router(TASKS).score(groups)
    assert scores.names == ("choice", "box_iou", "format")
    assert scores.rewards == ((1, 0), (1,), (1, 0, 1))
    assert scores.applies_NK.tolist() == [[True, False, False]] * 2 + [[False, True, True]] + [[True, False, False]] * 3
    assert np.array_equal(scores.breakdown["choice"], [1, 0, np.nan, 1, 0, 1], equal_nan=True)
    assert scores.breakdown_of(2, 1) == {"choice": 0.0}
    assert scores.events == {}


def test_more_completions_than_one_message_holds():
    letters = ["A", "B"] * CHUNK
    scores = router(TASKS, workers=1).score([(answered("B", task="quiz"), letters[:n]) for n in (1, CHUNK + 1, 3, 64)])
    assert scores.rewards == tuple(tuple(float(c == "B") for c in letters[:n]) for n in (1, CHUNK + 1, 3, 64))


def test_an_empty_completion_scores_0_in_its_own_place():  # EasyR1 writes it to the last column
    scores = router(TASKS).score([(answered("B", task="quiz"), ["B", "", "B"]), (answered("B", task="quiz"), [])])
    assert scores.rewards == ((1, 0, 1), ())


def test_a_failing_reward_leaves_its_row_unscored_and_counted():
    tasks = {"t": [{"reward": f"{FILE}:score", "name": "bad"}, {"reward": "format", "is_format": True}]}
    scores = router(tasks).score([(answered("x"), ["raise", "ok", "nan", "raise"])])
    assert np.array_equal(scores.rewards_N, [np.nan, 2, np.nan, np.nan], equal_nan=True)
    assert scores.events == {"bad/raised": 2, "bad/not_finite": 1}
    assert (
        scores.messages["bad/raised"]
        == "rows.jsonl:7 (id=s1): task 't', reward 'bad': raised: KeyError: 'boom' (slow_rewards.py:19)"
    )
    assert math.isnan(scores.breakdown_of(0, 0)["bad"]) and scores.breakdown_of(0, 0)["format"] == 0


def test_a_part_of_weight_0_is_only_logged():
    tasks = {"t": [{"reward": "exact_text"}, {"reward": f"{FILE}:score", "weight": 0.0}]}
    scores = router(tasks).score([(answered("raise"), ["raise"])])
    assert scores.rewards == ((1.0,),) and scores.events == {"score/raised": 1}


def test_an_unparsable_gold_answer_is_unscored_never_right():  # fault 68
    scores = router({"t": [{"reward": "math"}]}).score([(answered("{{{"), ["{{{"]), (answered("2"), ["2"])])
    assert np.array_equal(scores.rewards_N, [np.nan, 1], equal_nan=True)
    assert scores.events == {"math/bad_answer": 1}
    assert scores.messages["math/bad_answer"].count("rows.jsonl:7 (id=s1)") == 1


def test_on_error_error_stops_and_names_the_sample():
    strict = router({"t": [{"reward": f"{FILE}:score"}]}, on_error="error")
    with pytest.raises(RewardError, match=r"rows\.jsonl:7 \(id=s1\): task 't', reward 'score': raised: KeyError"):
        strict.score([(answered("x"), ["ok", "raise"])])


def test_a_time_out_through_the_router():  # fault 69
    with router({"t": [{"reward": f"{FILE}:score"}]}, workers=1, timeout_s=1.0) as timed:
        scores = timed.score([(answered("x"), ["ok", "hang", "three"])])
    assert np.array_equal(scores.rewards_N, [2, np.nan, 5], equal_nan=True)
    assert scores.events == {"score/timeout": 1}


def test_batch_and_group_forms_and_dict_results():
    tasks = {
        "b": [{"reward": f"{FILE}:batch"}],
        "g": [{"reward": f"{FILE}:group"}],
        "d": [{"reward": f"{FILE}:with_parts"}],
    }
    groups = [
        (answered("x", task="g"), ["a", "bb"]),
        (answered("x", task="b", note=1), ["a"]),
        (answered("x", task="b"), ["bb", "ccc"]),
        (answered("x", task="g"), ["a"]),
        (answered("x", task="d"), ["abc"]),
    ]
    scores = router(tasks).score(groups)
    assert scores.rewards == ((0, 1), (2,), (2, 3), (1,), (0.5,))
    assert scores.breakdown_of(4, 0) == {"with_parts": 0.5, "with_parts.length": 3.0}


def test_media_reach_only_the_rewards_that_ask(tmp_path):
    (tmp_path / "seeing.py").write_text(
        "NEEDS_MEDIA = True\ndef score(completion, sample):\n    return len(sample.media)\n"
    )
    parts = [{"reward": "./seeing.py"}, {"reward": f"{FILE}:media_count"}]
    section = RewardsSection.model_validate({"workers": 0, "tasks": {"t": parts}})
    sample = Sample("s", "t", "image", (), media=(MediaRef("image", Path("a.png")),))
    scores = Router(section, relative_to=tmp_path).score([(sample, ["x"])])
    assert scores.breakdown_of(0, 0) == {"seeing": 1.0, "media_count": 0.0}


def test_an_unknown_task_lists_the_known_ones():
    with pytest.raises(RewardError, match=r"rows\.jsonl:7 .*no reward for task 'qiuz'.*: box, quiz"):
        router(TASKS).score([(answered("B", task="qiuz"), ["B"])])
    with pytest.raises(RewardError, match="no reward for task 'qiuz'"):
        router(TASKS).validate(["quiz", "qiuz"])


def test_valid_sections_pass():
    router(TASKS).validate(TASKS)


@pytest.mark.parametrize(
    ("parts", "error", "message"),
    [
        ([{"reward": "chioce"}], PluginError, "unknown reward 'chioce'.*did you mean 'choice'"),
        (
            [{"reward": "box_iou", "options": {"treshold": 0.5}}],
            ConfigError,
            r"tasks\.t\[0\].*did you mean 'threshold'",
        ),
        ([{"reward": "box_iou", "options": {"threshold": "high"}}], ConfigError, "option 'threshold' is 'high'"),
        ([{"reward": "choice", "options": {"answer": "xml"}}], ConfigError, "option 'answer' is 'xml'.*'auto', 'tag'"),
        ([{"reward": "choice"}, {"reward": "choice"}], ConfigError, "two parts are named 'choice'"),
        ([{"reward": "format", "is_format": True}], ConfigError, "no held-out score"),
        ([], ConfigError, "no held-out score"),
        ([{"reward": "box_iou"}, {"reward": "temporal_iou"}], ConfigError, "cannot be two kinds of place"),
        ([{"reward": f"{FILE}:missing"}], PluginError, "no function 'missing'"),
        ([{"reward": f"{FILE}:answered"}], PluginError, "no function 'answered'"),
        ([{"reward": FILE.replace("slow_rewards", "scoring")}], PluginError, "exactly one of score, score_batch"),
        ([{"reward": FILE.replace("slow_rewards", "scoring") + ":answered"}], PluginError, r"\(completion, sample\)"),
    ],
)
def test_every_mistake_is_found_before_training(parts, error, message):
    with pytest.raises(error, match=message):
        router({"t": parts}).validate()


def test_a_reward_may_require_an_option_or_accept_any(tmp_path):
    (tmp_path / "r.py").write_text(
        "def needs(completion, sample, *, target): return target\n"
        "def any_(completion, sample, **options): return len(options)\n"
    )
    with pytest.raises(ConfigError, match="the option 'target' must be given"):
        router({"t": [{"reward": f"{tmp_path}/r.py:needs"}]}).validate()
    open_ended = router({"t": [{"reward": f"{tmp_path}/r.py:any_", "options": {"a": 1, "b": 2}}]})
    open_ended.validate()
    assert open_ended.score([(answered("x"), ["c"])]).rewards == ((2.0,),)


def test_a_coroutine_is_no_reward(tmp_path):
    (tmp_path / "later.py").write_text("async def score(completion, sample):\n    return 1.0\n")
    with pytest.raises(PluginError, match=r"later\.py' is an `async def`, which nothing would wait for"):
        router({"t": [{"reward": str(tmp_path / "later.py")}]}).validate()


def test_a_gate_of_a_reward_that_is_never_above_0(tmp_path):
    (tmp_path / "cost.py").write_text("BOUNDS = (None, 0.0)\ndef score(completion, sample):\n    return -1.0\n")
    parts = [{"reward": "choice"}, {"reward": str(tmp_path / "cost.py"), "gate": True, "weight": 0.0}]
    with pytest.raises(ConfigError, match=r"'cost' opens above 0, .* between None and 0\.0: it would never open"):
        router({"t": parts}).validate()


def test_places_need_a_declared_space_on_both_sides():  # fault 72
    checked = router(TASKS)
    checked.check_spaces({"box": "original_px", "quiz": None}, box_space="0..1000", time_space=None)
    with pytest.raises(ConfigError, match="card's `answer_space`"):
        checked.check_spaces({"box": None}, box_space="0..1000", time_space=None)
    with pytest.raises(ConfigError, match=r"`model\.box_space`"):
        checked.check_spaces({"box": "original_px"}, box_space=None, time_space="seconds")
    with pytest.raises(ConfigError, match="a box cannot be in the space 'seconds'"):
        checked.check_spaces({"box": "seconds"}, box_space="0..1000", time_space=None)


def _seen_at(width, height):
    return MediaEntry(
        "k", "image", torch.zeros(1, 3, height, width, dtype=torch.uint8), (1, 2, 2), 1, source_size=(1280, 720)
    )


@pytest.mark.parametrize(
    ("box_space", "size", "right_place"),
    [
        ("model_px", (280, 140), "29 15 141 69"),
        ("model_px", (1260, 700), "129 75 633 345"),
        ("0..1000", (280, 140), "102 107 502 493"),
        ("0..1000", (1260, 700), "102 107 502 493"),
    ],
)
def test_the_same_row_at_two_pixel_budgets_gives_reward_1_for_the_right_place_in_both(
    box_space, size, right_place
):  # fault 72
    row = Sample("s", "box", "image", (), answer=[131, 77, 643, 355], answer_space="original_px")
    sample = to_model_space(row, _seen_at(*size), kind="box", box_space=box_space, time_space=None)
    assert router(TASKS).score([(sample, [right_place])]).task_scores == ((1.0,),)
    assert format_geometry(sample.answer, "box") == right_place


LETTERS = [{"reward": "choice"}, {"reward": "format", "is_format": True}]


def test_tasks_named_alike_have_the_same_parts():
    checked = router({"quiz": LETTERS}, like={"exam": "quiz"})
    checked.validate(["quiz", "exam"])
    assert checked.score([(answered("B", task="exam"), ["B"])]).rewards == ((1.0,),)
    again = RewardsSection.model_validate(checked.section.model_dump())
    assert again == checked.section


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"like": {"exam": "quizz"}}, r"rewards\.like: 'exam' is like 'quizz', .*known: quiz; did you mean 'quiz'"),
        ({"like": {"quiz": "box"}, "tasks": {"quiz": LETTERS, "box": GROUNDED}}, "'quiz' has parts of its own"),
        ({"combine": {"quizz": "ordered"}}, r"rewards\.combine: names 'quizz', .*did you mean 'quiz'"),
        (
            {"combine": "product", "tasks": {"box": GROUNDED}},
            "'format' has the weight 0.2, but a reward that is a product",
        ),
        ({"tasks": {"quiz": [{"reward": "choice", "tolerance": 0.1}]}}, "only `combine: ordered` uses"),
        (
            {"tasks": {"quiz": [{"reward": "choice", "gate": {"min": 2}}]}},
            r"'choice' opens from 2 on, and its values lie between 0\.0 and 1\.0: it would never open",
        ),
        ({"tasks": {"quiz": [{"reward": "choice", "gate": {"min": 0}}]}}, r"opens from 0 on, .*: it would never close"),
    ],
)
def test_names_weights_and_tolerances_that_do_not_fit(section, message):
    with pytest.raises(ConfigError, match=message):
        router(**{"tasks": {"quiz": LETTERS}, **section}).validate()


def test_each_task_has_its_own_way_of_combining():
    tasks = {"quiz": LETTERS, "box": [{"reward": "box_iou", "tolerance": 0.05}, {"reward": "format"}]}
    scores = router(tasks, combine={"box": "ordered"}).score(
        [
            (answered("B", task="quiz"), ["B", "<think>x</think><answer>B</answer>"]),
            (
                answered([0, 0, 100, 100], task="box"),
                ["0 0 100 100", "<think>x</think><answer>0 0 100 96</answer>", "no"],
            ),
        ]
    )
    assert scores.rewards == ((1.0, 2.0), (0.5, 1.0, 0.0))
    assert scores.task_scores[1][0] == 0.5  # the mean of its parts: nothing is compared


def test_a_failing_part_may_be_left_out():
    tasks = {"t": [{"reward": "exact_text"}, {"reward": f"{FILE}:score"}]}
    scores = router(tasks, on_error="leave_out").score([(answered("raise"), ["raise", "no"])])
    assert scores.rewards == ((2.0, 2.0),) and scores.events == {"score/raised": 1}


def test_a_gate_with_a_least_value():
    parts = [{"reward": "exact_text"}, {"reward": "box_iou", "weight": 0.0, "gate": {"min": 0.5}}]
    answer = "0 0 100 100"
    scores = router({"t": parts}).score([(answered(answer, task="t"), ["0 0 100 100", "0 0 100 40"])])
    assert scores.rewards == ((1.0, 0.0),)


def test_seconds_errors_and_time_outs_of_every_part():
    with router({"t": [{"reward": f"{FILE}:score"}]}, workers=1, timeout_s=1.0) as timed:
        scores = timed.score([(answered("x"), ["ok", "hang", "raise"])])
    assert scores.timeouts_NK[:, 0].tolist() == [False, True, False]
    assert scores.errors_NK[:, 0].tolist() == [False, False, True]
    assert scores.seconds_NK[1, 0] == 1.0 and 0 < scores.seconds_NK[0, 0] < 0.5


def test_an_unknown_task_is_named_with_the_nearest():
    with pytest.raises(RewardError, match=r"no reward for task 'qiuz'; .*: box, quiz; did you mean 'quiz'\?"):
        router(TASKS).validate(["qiuz"])
