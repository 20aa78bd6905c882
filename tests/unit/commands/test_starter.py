"""`mmrl init`: the starter configuration fits the data it looked at."""

import pytest
import yaml
from makers.configs import geometry_folder, media_rows
from makers.rows import write_jsonl

from mmrl.commands.starter import guess_reward, init_command, look_at
from mmrl.config.load import load_config
from mmrl.errors import DataError


def easyr1_rows(folder, answers, **more):
    rows = media_rows(folder, images=2, clips=1)
    names = {"prompt": "problem"}
    rows = [{names.get(key, key): value for key, value in row.items() if key != "task"} for row in rows]
    return [{**row, "answer": answer, **more} for row, answer in zip(rows, answers, strict=True)]


def test_the_starter_loads_and_fits(tmp_path, capsys):
    data = write_jsonl(tmp_path / "train.jsonl", easyr1_rows(tmp_path, "ABC"))
    assert init_command(data, model=str(geometry_folder(tmp_path / "model")), card=None, split=None) == 0
    text = capsys.readouterr().out
    (tmp_path / "my.yaml").write_text(text)
    config = load_config(tmp_path / "my.yaml")
    assert "3 rows; the first 3 hold 2 images, 1 videos." in text
    assert config.data.train[0].card.preset == "easyr1" and config.data.train[0].card.task == "main"
    assert [part.reward for part in config.rewards.tasks["main"]] == ["choice"]
    assert config.budgets["image"].max_pixels == 12544  # the pictures are smaller: 90 x 61
    assert config.budgets["video"].max_frames == 6  # 3 s at 2 frames a second
    assert config.stages[0].prompts_per_step == 3


def test_tasks_of_a_column_are_kept(tmp_path, capsys):
    data = write_jsonl(tmp_path / "train.jsonl", easyr1_rows(tmp_path, ["1", "2.5", "-3"], problem_type="how many?"))
    init_command(data, model=None, card=None, split=None)
    tree = yaml.safe_load(capsys.readouterr().out)
    assert tree["data"]["train"][0]["card"] == "easyr1"
    assert tree["rewards"]["tasks"] == {"how many?": [{"reward": "numeric"}]}
    assert tree["model"]["path"].startswith("/path/to/")


def test_the_space_of_boxes_is_never_guessed(tmp_path, capsys):
    data = write_jsonl(tmp_path / "train.jsonl", easyr1_rows(tmp_path, [[0, 0, 9, 9]] * 3))
    init_command(data, model=None, card=None, split=None)
    card = yaml.safe_load(capsys.readouterr().out)["data"]["train"][0]["card"]
    assert card == {"preset": "easyr1", "task": "main", "answer_space": "FILL_IN"}


def test_what_is_wrong_with_the_rows_is_said(tmp_path, capsys):
    rows = easyr1_rows(tmp_path, "ABC")
    rows[0]["images"] = ["absent.png"]
    (tmp_path / "1.png").write_bytes(b"")
    init_command(write_jsonl(tmp_path / "train.jsonl", rows), model=None, card=None, split=None)
    notes = [line for line in capsys.readouterr().out.splitlines() if line.startswith("# not usable: ")]
    assert "no such file" in notes[0] and "train.jsonl:1" in notes[0]
    assert "1.png: the file is empty" in notes[1] and "train.jsonl:2" in notes[1]


def test_rows_that_no_card_reads(tmp_path):
    data = write_jsonl(tmp_path / "odd.jsonl", [{"frage": "?", "antwort": "!"}])
    with pytest.raises(DataError, match=r"odd\.jsonl: no shipped card reads its rows .*; columns: frage, antwort\."):
        look_at(data, card=None, split=None)
    with pytest.raises(DataError, match=r"card 'easyr1' reads its rows"):
        look_at(data, card="easyr1", split=None)


@pytest.mark.parametrize(
    ("answers", "clips", "reward"),
    [
        (["A", "(b)", "c."], False, "choice"),
        ([[1, 2, 3, 4]], False, "box_iou"),
        (["[1, 2, 3, 4]"], False, "box_iou"),
        ([[1.5, 2]], True, "temporal_iou"),
        ([[1.5, 2]], False, "exact_text"),
        (["3", 4, "-1.5"], False, "numeric"),
        ([r"\frac{1}{2}", "7"], False, "math"),
        (["a cat", "3"], False, "exact_text"),
        ([True], False, "exact_text"),
        ([None], False, "exact_text"),
    ],
)
def test_guessed_rewards(answers, clips, reward):
    assert guess_reward(answers, clips=clips)[0] == reward


def test_a_space_that_the_card_declares_stands(tmp_path, capsys):
    rows = [{"problem": "<image>?", "images": ["0.png"], "answer": [0, 1, 2, 3], "problem_type": "box", "id": "1"}]
    media_rows(tmp_path, images=1)
    init_command(write_jsonl(tmp_path / "train.jsonl", rows), model=None, card="quickstart", split=None)
    assert yaml.safe_load(capsys.readouterr().out)["data"]["train"][0]["card"] == "quickstart"
