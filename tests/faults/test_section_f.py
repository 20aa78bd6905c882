"""Section F of the public faults: rewards and answers, through `mmrl score` and `mmrl check`."""

import json
import time

import pytest
from makers.command import Said, mmrl
from makers.rows import write_jsonl
from makers.tiny_run import write_run

COVERED = {
    67: ["unit/scoring/test_parse.py::test_strict_think_answer_format", "faults/test_section_f.py::test_scored"],
    68: [
        "unit/scoring/test_router.py::test_an_unparsable_gold_answer_is_unscored_never_right",
        "faults/test_section_f.py::test_scored",
    ],
    69: [
        "unit/scoring/test_pool.py::test_a_hang_a_death_and_an_exit_cost_only_their_own_completion",
        "faults/test_section_f.py::test_a_reward_that_hangs_or_dies_costs_its_own_completion",
    ],
    70: [
        "unit/scoring/test_parse.py::test_no_box_is_guessed",
        "unit/scoring/test_places.py::test_no_list_of_boxes_is_guessed",
        "faults/test_section_f.py::test_scored",
    ],
    71: ["unit/scoring/test_parse.py::test_choice_letters", "faults/test_section_f.py::test_scored"],
    72: [
        "unit/scoring/test_geometry.py::test_a_box_in_every_space",
        "unit/scoring/test_places.py::test_every_form_of_boxes",
        "unit/scoring/test_places.py::test_actions_move_with_the_places_they_have",
        "unit/scoring/test_gui.py::test_a_click_counts_in_the_model_s_space_and_in_no_other",
        "unit/scoring/test_gui.py::test_the_distance_to_the_centre_does_not_depend_on_the_space",
        "unit/scoring/test_places.py::test_nothing_stays_in_its_old_space_unseen",
        "faults/test_section_f.py::test_boxes_by_time_need_both_spaces",
        "faults/test_section_f.py::test_a_place_without_a_space_is_found_before_training",
    ],
}

SCORED = [  # task, answer, completion, reward (None: unscored)
    ("format", "", "<think>two\nlines</think>\n<answer>a</answer>", 1.0),  # fault 67
    ("format", "", "<think>a</think><answer>b</answer>" * 2, 0.0),  # fault 67
    ("math", "{{{", "12", None),  # fault 68
    ("math", "12", "\\boxed{12}", 1.0),
    ("box_iou", [10, 10, 60, 60], "no box at all", 0.0),  # fault 70
    ("choice", "B", "<answer>A or B or C</answer>", 0.0),  # fault 70
    ("choice", "B", "The correct answer is (B).", 1.0),  # fault 71
    ("choice", "B", "Based on the picture", 0.0),  # fault 71
    ("choice", {}, "B", None),  # fault 68
    ("choice", "B", "<think>a\nb</think>\n<answer>\nB\n</answer>", 1.0),  # EasyR1's r1v.py: a regex without DOTALL
    ("boxed_format", "", "<think>two\nlines</think>\n<answer>\\boxed{a}</answer>", 1.0),  # fault 67
    ("boxed_format", "", "<think>a</think><answer>\\boxed{b}</answer>" * 2, 0.0),  # fault 67
    ("grounding", {"boxes": "{{{"}, "[]", None),  # fault 68
    ("tracking", "no boxes", "{}", None),  # fault 68
    ("detection", [[0, 0, 10, 10]], "A dog at [0, 0, 10, 10].", 1.0),  # fault 70
    ("detection_confidence", [[0, 0, 10, 10]], "[{'Position': [0, 0, 10, 10], 'Confidence': 1}]", 2.0),  # fault 70
    ("preference", "1", "<answer>Response 1 or 2</answer>", 0.0),  # fault 70
    ("boolean", "no", "Nothing is red", 0.0),  # fault 71
]


@pytest.fixture(scope="module")
def scored(tmp_path_factory) -> tuple[Said, list[dict]]:
    folder = tmp_path_factory.mktemp("scored")
    rows = [{"task": task, "answer": answer, "completion": text} for task, answer, text, _ in SCORED]
    said = mmrl("score", write_jsonl(folder / "rows.jsonl", rows), "--out", folder / "out.jsonl")
    return said, [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("number", range(len(SCORED)))
def test_scored(scored, number):  # faults 67, 68, 70, 71
    assert scored[1][number]["reward"] == SCORED[number][3]


def test_what_cannot_be_scored_is_counted_with_its_first_message(scored):  # fault 68
    said = scored[0]
    assert said.code == 1
    assert (
        "rows.jsonl:9 (id=line-9): task 'choice', reward 'choice': bad_answer: the answer {} is not a text or a number"
        in said.line_with("choice/bad_answer: 1")
    )


REWARDS = """
import os, time
def raises(completion, sample): raise KeyError("boom")
def no_number(completion, sample): return float("nan")
def words(completion, sample): return "good"
def hangs_or_dies(completion, sample):
    if completion == "hang": time.sleep(600)
    if completion == "die": os._exit(3)
    return 1.0
def good(completion, sample, threshold: float = 0.5): return 1.0
def no_arguments(): return 1.0
"""


def config_of(folder, reward: str, **section: object):
    (folder / "mine.py").write_text(REWARDS)
    parts = {"tasks": {"t": [{"reward": f"./mine.py:{reward}"}]}, "workers": 0, **section}
    return write_run(folder, rewards=parts)


def score(folder, config, *completions: str) -> tuple[Said, list[float | None]]:
    rows = [{"task": "t", "answer": "a", "completion": text} for text in completions]
    said = mmrl("score", write_jsonl(folder / "c.jsonl", rows), "--config", config, "--out", folder / "o.jsonl")
    lines = (folder / "o.jsonl").read_text().splitlines() if (folder / "o.jsonl").is_file() else []
    return said, [json.loads(line)["reward"] for line in lines]


@pytest.mark.parametrize(
    ("reward", "event"),
    [
        ("raises", "raised: KeyError: 'boom'"),
        ("no_number", "not_finite: returned nan"),
        ("words", "bad_result: 'good' is neither a number nor a dict of numbers"),
    ],
)
def test_a_reward_that_fails_is_an_event_never_a_zero(tmp_path, reward, event):  # fault 69
    said, rewards = score(tmp_path, config_of(tmp_path, reward), "a")
    assert (said.code, rewards) == (1, [None])
    kind = f"{reward}/{event.partition(':')[0]}"
    line = said.line_with(f"{kind}: 1 (first: ")
    assert f"c.jsonl:1 (id=line-1): task 't', reward '{reward}': {event}" in line


def test_a_reward_that_hangs_or_dies_costs_its_own_completion(tmp_path):  # fault 69
    config = config_of(tmp_path, "hangs_or_dies", workers=1, timeout_s=1.0)
    before = time.monotonic()
    said, rewards = score(tmp_path, config, "a", "hang", "b", "die", "c")
    assert (said.code, rewards) == (1, [1.0, None, 1.0, None, 1.0])
    assert "hangs_or_dies/timeout: 1" in said.err and "hangs_or_dies/died: 1" in said.err
    assert time.monotonic() - before < 120


@pytest.mark.parametrize(
    ("part", "key", "words"),
    [
        ({"reward": "choise"}, "reward", "unknown reward 'choise'; known: "),
        ({"reward": "./mine.py:god"}, "reward", "no function 'god' in "),
        ({"reward": "./gone.py:score"}, "reward", "does not exist"),
        ({"reward": "./mine.py:no_arguments"}, "reward", "must begin with the parameters (completion, sample)"),
        (
            {"reward": "./mine.py:good", "options": {"treshold": 1}},
            "options.treshold",
            "unknown option 'treshold'; it has: threshold; did you mean 'threshold'?",
        ),
        (
            {"reward": "./mine.py:good", "options": {"threshold": "high"}},
            "options.threshold",
            "option 'threshold' is 'high': Input should be a valid number",
        ),
        ({"reward": "./mine.py:good", "is_format": True}, None, "the weights of the parts that are not `is_format`"),
        ({"reward": "./broken.py:score"}, "reward", "broken.py:2: plug-in file raised ZeroDivisionError"),
    ],
)
@pytest.mark.parametrize("command", ["check", "train"])
def test_a_wrong_reward_is_found_with_its_line_before_a_model_loads(tmp_path, part, key, words, command):
    (tmp_path / "broken.py").write_text("\n1 / 0\n")
    (tmp_path / "mine.py").write_text(REWARDS)
    config = write_run(tmp_path, rewards={"tasks": {"t": [part]}}, model={"path": "/nowhere"})
    said = mmrl(command, config)
    assert said.code == 2
    place, _, _ = said.line_with(words).removeprefix("error: ").partition(": ")
    file, _, line = place.rpartition(":")
    assert file == str(config)
    written = config.read_text().splitlines()[int(line) - 1]
    assert (key or "t").rpartition(".")[2] in written
    assert not (tmp_path / "runs").exists()


def test_a_place_without_a_space_is_found_before_training(tmp_path):  # fault 72
    config = write_run(tmp_path, rewards={"tasks": {"t": [{"reward": "box_iou"}]}})
    for command in ("check", "train"):
        said = mmrl(command, config, "data.val=[]")
        assert said.code == 2
        line = said.line_with(
            "train.jsonl:1 (id=train:1): task 't' has a box as its answer, so the card's `answer_space`"
        )
        assert f"{config}:" in line
    odd = mmrl("check", config, "data.train.0.card.answer_space=pixels")
    assert odd.code == 2
    assert "unknown coordinate space 'pixels'; known: original_px, " in odd.line_with("data.train.0.card.answer_space'")
    # The run that never began is in nobody's way.
    assert mmrl("train", config, "data.val=[]").line_with("answer_space")


def test_boxes_by_time_need_both_spaces(tmp_path):  # fault 72
    config = write_run(tmp_path, rewards={"tasks": {"t": [{"reward": "tracking"}]}})
    one = mmrl("check", config, "data.val=[]", "data.train.0.card.answer_space=original_px")
    assert one.code == 2
    words = "boxes by time have two spaces, 'original_px at seconds' for one, not 'original_px'"
    assert "train.jsonl:1 (id=train:1): " in one.line_with(words)
    odd = mmrl("check", config, "data.val=[]", "data.train.0.card.answer_space=original_px at frames")
    assert "unknown coordinate space 'frames'" in odd.line_with("data.train.0.card.answer_space")


def test_an_unknown_task_lists_the_known_ones(tmp_path):
    config = write_run(tmp_path)
    write_jsonl(tmp_path / "train.jsonl", [{"prompt": "q", "answer": "a", "task": "tt"}])
    said = mmrl("check", config, "data.val=[]", "--media", "none")
    assert said.code == 2
    words = "train.jsonl:1 (id=train:1): no reward for task 'tt'; tasks in 'rewards.tasks': t"
    assert said.line_with(words).startswith(f"problem: {config}:")
