"""`mmrl score` on files: what is added, what is counted, what is refused and where."""

import json
import subprocess
import sys

import pytest
from makers import slow_rewards

from mmrl.errors import ConfigError, DataError, RewardError
from mmrl.scoring.score_file import score_file

ROWS = [
    {"completion": "<answer>B</answer>", "answer": "B", "task": "choice", "note": "é"},
    {"completion": "10 to 20", "answer": [10, 20], "task": "temporal_iou"},
    {"completion": "", "answer": "B", "task": "choice"},
]


def write(path, rows):
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def read(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_rows_keep_their_columns_and_gain_the_reward(tmp_path, capsys):
    out = tmp_path / "out.jsonl"
    assert score_file(write(tmp_path / "in.jsonl", ROWS), out=out) == 0
    assert [row["reward"] for row in read(out)] == [1.0, 1.0, 0.0]
    assert read(out)[0] == {**ROWS[0], "reward": 1.0, "reward_breakdown": {"choice": 1.0}}
    table = capsys.readouterr().err.splitlines()
    assert table[0].split()[:3] == ["task", "part", "mean"]
    assert [line.split()[:5] for line in table[1:]] == [
        ["choice", "choice", "0.500", "0.500", "0.500"],
        ["temporal_iou", "temporal_iou", "1.000", "0.000", "1.000"],
    ]


def test_without_out_the_rows_go_to_standard_output(tmp_path, capsys):
    score_file(write(tmp_path / "in.jsonl", ROWS[:1]))
    assert json.loads(capsys.readouterr().out)["reward"] == 1.0


def test_unscored_rows_are_null_counted_and_change_the_exit_code(tmp_path, capsys):
    rows = [ROWS[0], {"completion": "B", "answer": "Paris", "task": "choice"}]
    out = tmp_path / "out.jsonl"
    assert score_file(write(tmp_path / "in.jsonl", rows), out=out) == 1
    assert read(out)[1]["reward"] is None and read(out)[1]["reward_breakdown"] == {"choice": None}
    assert read(out)[1]["reward_problems"] == {
        "choice": "bad_answer: the answer 'Paris' is not one of the letters A to Z"
    }
    assert "reward_problems" not in read(out)[0]
    assert "choice/bad_answer: 1 (first: " in (err := capsys.readouterr().err)
    assert "in.jsonl:2 (id=line-2): task 'choice', reward 'choice': bad_answer: the answer 'Paris' is not" in err


def config(path, task, *parts):
    listed = ", ".join(f"{{reward: {part}}}" for part in parts)
    path.write_text(f"model: {{path: .}}\nrewards: {{tasks: {{{task}: [{listed}]}}}}\n")
    return path


def test_the_lines_of_one_sample_are_one_group_and_keep_their_order(tmp_path):
    rows = [{"id": i, "completion": c, "answer": "", "task": "t"} for i, c in [(1, "a"), (2, "bb"), (1, "ccc")]]
    rows.append({**rows[0], "answer": "another sample with the same id"})
    out = tmp_path / "out.jsonl"
    rewards = config(tmp_path / "c.yaml", "t", f"{slow_rewards.__file__}:group")
    score_file(write(tmp_path / "in.jsonl", rows), config=rewards, out=out)
    assert [(row["id"], row["completion"], row["reward"]) for row in read(out)] == [
        (1, "a", 0.0),
        (2, "bb", 1.0),
        (1, "ccc", 1.0),
        (1, "a", 1.0),
    ]


def test_a_scored_file_can_be_scored_again(tmp_path):
    once, twice = tmp_path / "once.jsonl", tmp_path / "twice.jsonl"
    rewards = config(tmp_path / "c.yaml", "choice", "choice", "exact_text")
    score_file(write(tmp_path / "in.jsonl", [ROWS[0], ROWS[2]]), out=once)
    score_file(once, config=rewards, out=twice)
    assert [row["reward"] for row in read(twice)] == [2.0, 0.0]


def test_a_line_separator_inside_a_completion_is_text(tmp_path):
    row = {"completion": "<think>a\u2028b</think>B", "answer": "B", "task": "choice"}
    out = tmp_path / "out.jsonl"
    assert score_file(write(tmp_path / "in.jsonl", [row]), out=out) == 0
    assert json.loads(out.read_text(encoding="utf-8"))["completion"] == row["completion"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"in\.jsonl:2: not valid JSON"),
        ("[1]", r"in\.jsonl:2: a row must be a JSON object"),
        ('{"completion": "x", "task": "choice"}', r"in\.jsonl:2: no column 'answer'; the row has completion, task"),
        ('{"completion": 3, "answer": "B", "task": "choice"}', r"in\.jsonl:2: 'completion' must be text, not a number"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, message):
    path = write(tmp_path / "in.jsonl", ROWS[:1])
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(DataError, match=message):
        score_file(path)


def test_a_task_without_reward_is_named_with_the_known_ones(tmp_path):
    path = write(tmp_path / "in.jsonl", [{"completion": "x", "answer": "B", "task": "quiz"}])
    with pytest.raises(
        RewardError, match=r"in\.jsonl:1 .*task 'quiz'; give --config, or one of: those that `mmrl list rewards`"
    ):
        score_file(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"none\.jsonl: cannot be read"):
        score_file(tmp_path / "none.jsonl")


def test_a_task_without_reward_names_its_row(tmp_path):
    config = tmp_path / "c.yaml"
    config.write_text("model: {path: m}\nrewards: {tasks: {choice: [{reward: choice}]}}\n")
    rows = tmp_path / "a.jsonl"
    rows.write_text(json.dumps({"completion": "B", "answer": "B", "task": "choise"}) + "\n")
    message = r"a\.jsonl:1 \(id=line-1\): the task 'choise' has no reward in .*did you mean 'choice'\?"
    with pytest.raises(RewardError, match=message):
        score_file(rows, config=config)


def test_a_task_like_one_that_is_missing_is_named(tmp_path):
    config = tmp_path / "c.yaml"
    config.write_text("model: {path: m}\nrewards: {like: {choice: quizz}, tasks: {quiz: [{reward: choice}]}}\n")
    with pytest.raises(ConfigError, match=r"c\.yaml: rewards\.like: 'choice' is like 'quizz'.*did you mean 'quiz'"):
        score_file(write(tmp_path / "in.jsonl", ROWS), config=config)


PRINTS = """
import os
def score(completion, sample):
    print("printed by the reward")
    os.write(1, b"written by the reward\\n")
    return 1.0
"""


@pytest.mark.parametrize("workers", [0, 1])
def test_what_a_reward_prints_is_no_row(tmp_path, workers):
    (tmp_path / "prints.py").write_text(PRINTS)
    rows = write(tmp_path / "in.jsonl", [{"completion": "x", "answer": "x", "task": "t"}])
    run = tmp_path / "run.yaml"
    run.write_text(f"model: {{path: m}}\nrewards: {{workers: {workers}, tasks: {{t: [{{reward: ./prints.py}}]}}}}\n")
    command = [sys.executable, "-m", "mmrl", "score", str(rows), "--config", str(run)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert [json.loads(line)["reward"] for line in done.stdout.splitlines()] == [1.0]
    assert "printed by the reward" in done.stderr and "written by the reward" in done.stderr


def test_a_folder_that_is_missing_is_named_before_anything_is_scored(tmp_path):
    with pytest.raises(ConfigError, match=r"--out .*none/out\.jsonl: there is no folder .*none; make it"):
        score_file(tmp_path / "not_read.jsonl", out=tmp_path / "none" / "out.jsonl")


def test_a_mistake_in_the_rewards_names_the_configuration(tmp_path):
    write(tmp_path / "in.jsonl", ROWS[:1])
    (tmp_path / "run.yaml").write_text(
        "model: {path: m}\nrewards: {tasks: {choice: [{reward: choice, options: {answr: tag}}]}}\n"
    )
    with pytest.raises(ConfigError, match=r"run\.yaml: rewards\.tasks\.choice\[0\] \(choice\): unknown option 'answr'"):
        score_file(tmp_path / "in.jsonl", config=tmp_path / "run.yaml")
