"""tools/inspect_sample.py on a picture with a box, a clip with a span and a question without media."""

import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from makers.clips import ClipSpec, write_clip
from makers.configs import BUDGETS
from makers.rows import write_jsonl
from makers.tiny_models import tiny_model_dir
from makers.tools import load_tool
from PIL import Image

from mmrl.data.sheet import LABEL, MARGIN

RED = (255, 64, 64)


tool = load_tool("inspect_sample")


def card(task: str, space: str | None = None) -> dict:
    columns = {name: name for name in ("prompt", "answer", "images", "videos", "id")}
    return {"columns": columns, "task": task, "answer_space": space}


def data_file(folder: Path, name: str, row: dict, **more: object) -> dict:
    return {"path": str(write_jsonl(folder / f"{name}.jsonl", [row])), "name": name, "card": card(name, **more)}


@pytest.fixture(scope="module")
def config(tmp_path_factory) -> Path:
    """A 200 x 100 picture (112 x 56 for the model) with a box, 3 s of clip with a span, a multiple choice."""
    folder = tmp_path_factory.mktemp("inspect")
    Image.fromarray(np.full((100, 200, 3), 90, dtype=np.uint8)).save(folder / "gray.png")
    write_clip(folder / "clip.mp4", ClipSpec(frames=75, fps=25))
    box = {"prompt": "<image> Where?", "answer": [50, 25, 100, 75], "images": ["gray.png"], "id": "b"}
    span = {"prompt": "<video> When?", "answer": "1.0 to 2.1", "videos": ["clip.mp4"], "id": "c"}
    choice = {"prompt": "A or B?", "answer": "B", "id": "d"}
    tree = {
        "model": {"path": str(tiny_model_dir("qwen2_5_vl"))},
        "budgets": BUDGETS,
        "cache": {"dir": str(folder / "cache")},
        "data": {
            "train": [
                data_file(folder, "box", box, space="original_px"),
                data_file(folder, "span", span, space="seconds"),
                data_file(folder, "choice", choice),
            ]
        },
        "rewards": {
            "workers": 0,
            "tasks": {
                "box": [{"reward": "box_iou"}, {"reward": "format", "weight": 0.5, "is_format": True}],
                "span": [{"reward": "temporal_iou"}],
                "choice": [{"reward": "choice"}],
            },
        },
    }
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump(tree))
    return path


def run(config: Path, *arguments: str) -> int:
    return tool.main([str(config), *arguments, "--out", str(config.parent / "out")])


def sheet(config: Path, name: str) -> np.ndarray:
    return np.asarray(Image.open(config.parent / "out" / name))


def test_a_box_is_shown_in_both_spaces_and_scores_fully_in_the_form_the_rewards_want(config, capsys):
    assert run(config) == 0
    out = capsys.readouterr().out
    assert "<|vision_start|><|image_pad|>[x8]<|vision_end|> Where?" in out
    assert "(26 text, 8 vision), unexpanded 27" in out
    assert "200 x 100 px -> 112 x 56 px, grid 1 x 4 x 8 (t h w)" in out
    assert "answer: [50, 25, 100, 75] in original_px" in out
    assert "as the model writes it: '28 14 56 42' in model_px" in out
    forms = {line.split()[0]: line.split()[1] for line in out.splitlines() if "box_iou" in line}
    assert forms == {"plain": "1", "answer": "1", "think_answer": "1.5", "boxed": "1", "think_boxed": "1"}


def test_the_box_is_drawn_where_the_model_has_to_point(config):
    run(config)
    pixels_HW3 = sheet(config, "box-b.png")
    red = np.argwhere((pixels_HW3 == RED).all(axis=-1))
    top, left = MARGIN + LABEL, MARGIN
    # 112 px are shown twice as large, so the box 28 14 56 42 lies at 56 28 112 84.
    assert (red.min(axis=0) - (top, left)).tolist() == [28, 56]
    assert (red.max(axis=0) - (top, left)).tolist() == [84, 112]
    assert (pixels_HW3[top + 5, left + 5] == 90).all()


def test_a_clip_shows_its_timestamps_and_marks_the_frames_of_the_span(config, capsys):
    assert run(config, "--dataset", "span", "--sample", "c") == 0
    out = capsys.readouterr().out
    assert "frames: 0.00 s (#0), " in out
    assert "answer: '1.0 to 2.1' in seconds" in out
    assert "plain        1      (temporal_iou 1)  1 2.1" in out
    pixels_HW3 = sheet(config, "span-c.png")
    stamps = [float(part.split(" s")[0]) for part in out.split("frames: ")[1].splitlines()[0].split("), ")]
    corners = [pixels_HW3[MARGIN + LABEL, MARGIN + n * (168 + MARGIN)] for n in range(len(stamps))]
    assert [tuple(c) == RED for c in corners] == [1.0 <= stamp <= 2.1 for stamp in stamps]
    assert 0 < sum(1.0 <= stamp <= 2.1 for stamp in stamps) < len(stamps)


def test_a_row_without_media_has_no_sheet(config, capsys):
    assert run(config, "--dataset", "choice", "--row", "0") == 0
    out = capsys.readouterr().out
    assert "plain        1      (choice 1)  B" in out
    assert "contact sheet" not in out


@pytest.fixture(scope="module")
def several(config) -> Path:
    """The same media with answers of several places: labelled boxes of the picture, boxes by time of the clip."""
    folder = config.parent
    dogs = {
        "prompt": "<image> Find all.",
        "answer": [{"bbox_2d": [50, 25, 100, 75], "label": "dog"}, {"bbox_2d": [0, 0, 50, 50], "label": "cat"}],
        "images": ["gray.png"],
        "id": "e",
    }
    tube = {"time": [1.0, 2.1], "boxes": {"1": [0, 0, 32, 32], "2": [32, 32, 64, 64]}}
    track = {"prompt": "<video> Where, and when?", "answer": json.dumps(tube), "videos": ["clip.mp4"], "id": "f"}
    tree = yaml.safe_load(config.read_text())
    tree["data"]["train"] = [
        data_file(folder, "dogs", dogs, space="original_px"),
        data_file(folder, "track", track, space="original_px at seconds"),
    ]
    tree["rewards"]["tasks"] = {"dogs": [{"reward": "grounding"}], "track": [{"reward": "spatio_temporal"}]}
    path = folder / "several.yaml"
    path.write_text(yaml.safe_dump(tree))
    return path


def test_labelled_boxes_are_moved_and_scored_in_the_model_s_space(several, capsys):  # fault 72: 200 px become 112
    assert run(several, "--dataset", "dogs") == 0
    out = capsys.readouterr().out
    seen = '[{"bbox_2d": [28, 14, 56, 42], "label": "dog"}, {"bbox_2d": [0, 0, 28, 28], "label": "cat"}]'
    assert f"as the model writes it: {seen!r} in model_px" in out
    assert "plain        1      (grounding 1, " in out
    assert tuple(sheet(several, "dogs-e.png")[MARGIN + LABEL + 2 * 14, MARGIN + 2 * 28]) == RED


def test_boxes_by_time_are_moved_and_scored_in_the_model_s_spaces(several, capsys):  # fault 72
    assert run(several, "--dataset", "track") == 0
    out = capsys.readouterr().out
    width, height = (int(side) for side in out.split("px -> ")[1].split(" px")[0].split(" x "))
    source = [int(side) for side in out.split("clip.mp4\n")[1].strip().split(" px")[0].split(" x ")]
    corner = [round(32 * width / source[0] + 1e-9), round(32 * height / source[1] + 1e-9)]
    assert f'"boxes": {{"1": [0, 0, {corner[0]}, {corner[1]}], "2": [' in out
    assert '{"time": [1.0, 2.1], ' in out and "in model_px at seconds" in out
    assert "plain        1      (spatio_temporal 1" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dataset", "cats"], "error: no dataset cats in data.train; there: box, span, choice"),
        (["--split", "val"], "error: no dataset at all in data.val; there: none"),
        (["--sample", "z"], "error: no sample 'z' among 1; the first is 'b'"),
        (["--row", "7"], "error: --row 7: the dataset has the rows 0 to 0"),
        (["data.max_prompt_tokens=9"], "has 34 tokens"),
    ],
)
def test_what_cannot_be_shown_is_one_line(config, capsys, arguments, message):
    assert run(config, *arguments) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


def test_a_row_that_a_run_would_skip_is_named_with_its_reason(config, tmp_path, capsys):
    rows = [{"prompt": "A", "answer": "B", "id": "good"}, {"prompt": "<image>", "answer": "B", "id": "bad"}]
    write_jsonl(config.parent / "choice2.jsonl", rows)
    override = f"data.train.0={{path: {config.parent / 'choice2.jsonl'}, card: {card('choice')}}}"
    assert run(config, override.replace("None", "null"), "--sample", "bad") == 2
    assert "choice2.jsonl:2" in capsys.readouterr().err
