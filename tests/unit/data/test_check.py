"""`mmrl check` finds what would stop a run, and counts with the renderer."""

import json

import numpy as np
import pytest
from makers.rows import text_rows, write_jsonl
from makers.tiny_models import tiny_model_dir
from PIL import Image

from mmrl.config.schema import RunConfig
from mmrl.data.check import check, spread

REWARDS = {"workers": 0, "tasks": {"text": [{"reward": "exact_text"}], "find": [{"reward": "box_iou"}]}}
STAGE = {"name": "rl", "kind": "grpo", "steps": 1, "prompts_per_step": 1}


def config(folder, *, train: list | None = None, stage: dict | None = None, **data) -> RunConfig:
    section = {"path": str(folder / "rows.jsonl"), "card": {"answer_space": "original_px"}}
    return RunConfig.model_validate(
        {
            "model": {"path": str(tiny_model_dir("qwen2_5_vl"))},
            "budgets": {"image": {"min_pixels": 28 * 28, "max_pixels": 56 * 56}},
            "cache": {"dir": str(folder / "cache")},
            "data": {"train": [section] if train is None else train, "decode_workers": 1, **data},
            "rewards": REWARDS,
            "stages": [{**STAGE, **(stage or {})}],
        }
    )


@pytest.fixture
def rows(tmp_path):
    """20 text rows and 2 with a picture of 4 tokens, in rows.jsonl."""
    pictures = []
    for number in range(2):
        Image.fromarray(np.full((80, 80, 3), 99 * number, np.uint8)).save(tmp_path / f"{number}.png")
        pictures.append({"prompt": "<image>?", "images": f"{number}.png", "answer": [1, 2, 3, 4], "task": "find"})
    rows = [*text_rows(20), *pictures]
    write_jsonl(tmp_path / "rows.jsonl", rows)
    return rows


def test_a_good_configuration(tmp_path, rows, capsys):
    assert check(config(tmp_path), media="all") == 0
    out = capsys.readouterr().out
    assert "train rows" in out and "text 20, find 2" in out and "nothing would stop a run" in out
    assert "0 / 0 / 4 / 4" in out  # vision tokens
    assert check(config(tmp_path), media="none") == 0
    assert check(config(tmp_path), media="sample") == 0


def test_bad_rows_and_media_are_listed_with_their_reason(tmp_path, rows, capsys):
    (tmp_path / "1.png").write_bytes(b"no picture")
    rows.append({"prompt": "<image>", "answer": "a", "task": "text", "id": "geo-17"})
    write_jsonl(tmp_path / "rows.jsonl", rows)
    assert check(config(tmp_path), media="all") == 1
    out = capsys.readouterr().out
    assert "bad_row rows.jsonl:23 (id=geo-17): 1 image placeholder but 0 images" in out
    assert "bad_media rows.jsonl:22 (id=rows:22): " in out and "data.bad_media is `error`" in out
    assert check(config(tmp_path, bad_row="skip", bad_media="skip", max_skipped_fraction=0.1), media="all") == 0
    assert check(config(tmp_path, bad_row="skip", bad_media="skip", max_skipped_fraction=0.05), media="all") == 1
    assert "2 of 23 rows would be skipped, more than data.max_skipped_fraction=0.05" in capsys.readouterr().out


def test_a_cause_of_many_rows_is_one_line(tmp_path, rows, capsys):
    rows += [{"prompt": "?", "task": "text"}] * 9
    rows += [{"prompt": "<image>?", "images": f"deep/{n}.png", "answer": "a", "task": "text"} for n in range(3)]
    write_jsonl(tmp_path / "rows.jsonl", [*rows, {**rows[-1], "images": "3.png", "prompt": "no place"}])
    assert check(config(tmp_path), media="none") == 1
    one, two, three = [line for line in capsys.readouterr().out.splitlines() if ": bad_" in line]
    assert one.startswith("train rows: bad_row 9 rows, the first: rows.jsonl:23 (id=rows:23): no column 'answer'")
    assert two.startswith("train rows: bad_media 3 rows, the first: rows.jsonl:32 (id=rows:32): no such file: ")
    assert three.startswith("train rows: bad_media rows.jsonl:35 (id=rows:35): no such file: ")


def test_lengths_are_those_of_rendered_prompts(tmp_path, rows, capsys):  # fault 9
    assert check(config(tmp_path, max_prompt_tokens=5), media="all") == 1
    assert "22 of 22 prompts are longer than data.max_prompt_tokens=5" in capsys.readouterr().out
    assert check(config(tmp_path, max_prompt_tokens=5, too_long="shrink"), media="all") == 1
    assert "22 prompts cannot be shrunk enough. First: rows.jsonl:1 (id=rows:1): " in capsys.readouterr().out
    assert check(config(tmp_path, max_prompt_tokens=26, too_long="shrink"), media="all") == 0


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ({"stage": {"tasks": ["find", "zoom"]}}, 2, "stage 'rl': no training row of the task zoom; tasks: find, text"),
        ({"train": [{"path": "row.jsonl"}]}, 2, "row.jsonl: no such file or folder; did you mean 'rows.jsonl'?"),
        ({"train": [{"path": "rows.jsonl"}]}, 2, "rows.jsonl:21 (id=rows:21): task 'find' has a box as its answer"),
    ],
)
def test_problems_beyond_rows(tmp_path, rows, capsys, monkeypatch, change, code, message):
    monkeypatch.chdir(tmp_path)
    assert check(config(tmp_path, **change), media="none") == code
    assert message in capsys.readouterr().out


def test_a_task_without_reward(tmp_path, rows, capsys):
    (tmp_path / "rows.jsonl").write_text(json.dumps({"prompt": "q", "answer": 1, "task": "new"}))
    assert check(config(tmp_path), media="none") == 2
    said = "rows.jsonl:1 (id=rows:1): no reward for task 'new'; tasks in 'rewards.tasks': find, text"
    assert said in capsys.readouterr().out
    assert check(config(tmp_path, stage={"kind": "sft"}), media="all") == 0


HEADER = ["dataset", "tasks", "rows", "bad", "opened", "prompt tokens", "vision tokens", "frames", "too long"]


def test_without_a_terminal_no_line_is_wrapped(tmp_path, rows, capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    name = "a-dataset-whose-name-is-longer-than-any-column-of-a-table-in-eighty-columns-would-be"
    (tmp_path / f"{name}.png").write_bytes(b"no picture")
    broken = {"prompt": "?<image>", "images": f"{name}.png", "answer": "a", "task": "text"}
    write_jsonl(tmp_path / "rows.jsonl", [*rows, broken])
    section = {"path": str(tmp_path / "rows.jsonl"), "name": name, "card": {"answer_space": "original_px"}}
    check(config(tmp_path, train=[section]), media="all")
    _, header, _, row, bad, *problems = capsys.readouterr().out.splitlines()
    assert [cell.strip() for cell in header.split("┃")] == HEADER
    assert [cell.strip() for cell in row.split("│")][:5] == [f"train {name}", "text 21, find 2", "23", "1", "22"]
    assert (
        bad.startswith(f"train {name}: bad_media rows.jsonl:23 (id=rows:23): ") and f"{name}.png: not a picture" in bad
    )
    assert [line.split(":")[0] for line in problems] == ["problem", "this would not run"]


def test_a_narrow_terminal_breaks_between_words_only(tmp_path, rows, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "40")
    check(config(tmp_path), media="all")
    out = capsys.readouterr().out
    words = set(out.split())
    assert words >= {word for cell in HEADER for word in cell.split()} | {"train", "20,", "opened", "8192"}


def test_spread():
    assert spread(list(range(1, 101))) == "1 / 50 / 95 / 100"
    assert spread([]) == "-"
