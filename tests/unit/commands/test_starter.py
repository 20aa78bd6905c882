"""`mmrl init`: the starter configuration fits the data it looked at."""

from pathlib import Path

import pytest
import yaml
from makers.configs import geometry_folder, media_rows
from makers.robots import write_robot_folder
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


def test_robot_frames_have_their_own_budget_and_no_made_up_reward(tmp_path, capsys, monkeypatch):
    write_robot_folder(tmp_path / "arm")
    monkeypatch.chdir(tmp_path)
    init_command(Path("arm"), model=None, card=None, split=None)  # a relative folder
    text = capsys.readouterr().out
    assert "# not usable" not in text
    tree = yaml.safe_load(text)
    assert tree["data"]["train"] == [{"path": str(tmp_path / "arm"), "card": "lerobot"}]
    assert list(tree["budgets"]) == ["vla"]
    assert tree["rewards"]["tasks"] == {"action": [{"reward": "FILL_IN"}]}


def test_a_relative_model_folder_is_written_absolute(tmp_path, capsys, monkeypatch):
    data = write_jsonl(tmp_path / "train.jsonl", easyr1_rows(tmp_path, "ABC"))
    geometry_folder(tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    for given, written in (("model", str(tmp_path / "model")), ("Qwen/Qwen3-VL-4B", "Qwen/Qwen3-VL-4B")):
        init_command(data, model=given, card=None, split=None)
        assert yaml.safe_load(capsys.readouterr().out)["model"]["path"] == written


def test_boxes_and_times_in_one_file(tmp_path, capsys):
    rows = easyr1_rows(tmp_path, [[0, 0, 9, 9], [0, 0, 8, 8], [0.5, 2]])
    init_command(write_jsonl(tmp_path / "one.jsonl", rows), model=None, card=None, split=None)
    tree = yaml.safe_load(capsys.readouterr().out)
    assert tree["rewards"]["tasks"] == {"main": [{"reward": "FILL_IN"}]}
    rows = [{**row, "problem_type": "box" if len(row["answer"]) == 4 else "time"} for row in rows]
    init_command(write_jsonl(tmp_path / "two.jsonl", rows), model=None, card=None, split=None)
    text = capsys.readouterr().out
    assert yaml.safe_load(text)["data"]["train"][0]["card"]["answer_space"] == "FILL_IN"
    assert "write each row's space into a column `answer_space`" in text
    rows = [{**row, "answer_space": "0..1"} for row in rows]
    init_command(write_jsonl(tmp_path / "three.jsonl", rows), model=None, card=None, split=None)
    assert yaml.safe_load(capsys.readouterr().out)["data"]["train"][0]["card"] == "easyvideo_r1"  # it has the column


def test_boxes_of_swift_have_their_space(tmp_path, capsys):
    media_rows(tmp_path, images=1)
    turns = [{"role": "user", "content": "<image>Find it."}, {"role": "assistant", "content": "<bbox>"}]
    rows = [{"messages": turns, "images": ["0.png"], "objects": {"ref": [], "bbox": [[1, 2, 3, 4]]}}]
    init_command(write_jsonl(tmp_path / "train.jsonl", rows), model=None, card=None, split=None)
    text = capsys.readouterr().out
    assert yaml.safe_load(text)["data"]["train"][0]["card"] == "swift" and "FILL_IN" not in text


def test_cards_that_read_the_rows_equally_well_are_named(tmp_path, capsys):
    data = write_jsonl(tmp_path / "train.jsonl", easyr1_rows(tmp_path, "ABC"))
    init_command(data, model=None, card=None, split=None)
    text = capsys.readouterr().out
    assert "quickstart, visual_jigsaw read these rows equally well; `mmrl init --card` chooses" in text
    init_command(data, model=None, card="easyr1", split=None)
    assert "equally well" not in capsys.readouterr().out


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
