"""`mmrl generate`: the checkpoint's own settings hold, answers are printed, places are drawn."""

import numpy as np
import pytest
from makers.clips import ClipSpec, write_clip
from makers.configs import BUDGETS
from makers.tiny_models import tiny_model_dir
from makers.trained import trained_model_dir
from PIL import Image

from mmrl.cli import main
from mmrl.commands.generate import find_marks, question_sampling
from mmrl.data.rendered import MediaEntry
from mmrl.errors import ConfigError
from mmrl.models.families import load_processor


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("generate")
    trained_model_dir(folder / "model")
    Image.fromarray(np.full((100, 200, 3), 90, np.uint8)).save(folder / "a b.png")
    write_clip(folder / "c.mp4", ClipSpec(frames=30))
    return folder


def run(folder, monkeypatch, *arguments):
    monkeypatch.chdir(folder)
    with pytest.raises(SystemExit) as stop:
        main(["generate", "--dtype", "float32", "--max-new-tokens", "6", *arguments])
    return stop.value.code


def test_a_checkpoint_is_asked_under_its_own_settings(folder, monkeypatch, capsys):
    asked = ("--model", "model", "--image", "a b.png", "--video", "c.mp4", "--prompt", "Where?")
    assert run(folder, monkeypatch, *asked) == 0
    answers, said = capsys.readouterr()
    assert "settings: as trained (mmrl.json)" in said
    assert f"image budget: 784 to {BUDGETS['image']['max_pixels']:,} pixels" in said
    assert "video budget: 784 to 3,136 pixels, at most 8 frames at 2 per second" in said
    assert "boxes and points in 0..100, times in seconds" in said
    assert "template: '{prompt} Answer briefly.'" in said
    sheet = np.asarray(Image.open(folder / "answer.png"))
    assert sheet.shape[1] >= 112 and "answer.png: the media as the model saw them" in said
    assert len(answers) > 1 and "budget" not in answers
    assert (folder / ".mmrl_cache").is_dir()


def test_same_seed_same_answers_and_several_differ(folder, monkeypatch, capsys):
    asked = ("--model", "model", "--image", "a b.png", "--prompt", "Where?", "-n", "3", "--draw", "s.png")
    outputs = []
    for seed in ("1", "1", "2"):
        assert run(folder, monkeypatch, *asked, "--seed", seed) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1] != outputs[2]
    assert [f"[{number}]" in outputs[0] for number in (1, 2, 3)] == [True] * 3


def test_a_base_model_has_default_settings_and_text_needs_no_media(folder, monkeypatch, capsys):
    assert run(folder, monkeypatch, "--model", str(tiny_model_dir("qwen2_5_vl")), "--prompt", "Hi") == 0
    said = capsys.readouterr().err
    assert "there is no mmrl.json" in said and "template" not in said and "media" not in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--model", "model", "--prompt", "x", "--task", "cuont"), "no template for it; known: count"),
        (("--model", "model", "--prompt", "x", "--image", "absent.png"), "no such file: "),
        (("--model", "model", "--prompt", "x", "-n", "2", "--temperature", "0"), "would give 2 equal answers"),
        (("--model", "absent", "--prompt", "x"), "absent"),
    ],
)
def test_errors_are_one_line(folder, monkeypatch, capsys, arguments, message):
    assert run(folder, monkeypatch, *arguments) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1 and message in lines[0]


def test_sampling():
    assert question_sampling(1, temperature=None, max_new_tokens=5).greedy
    assert question_sampling(4, temperature=None, max_new_tokens=5).temperature == 1.0
    assert question_sampling(1, temperature=0.7, max_new_tokens=5).temperature == 0.7
    with pytest.raises(ConfigError):
        question_sampling(2, temperature=0.0, max_new_tokens=5)


def entry(kind):
    import torch

    frames = torch.zeros(4 if kind == "video" else 1, 3, 56, 112, dtype=torch.uint8)
    times = (0.0, 1.0, 2.0, 3.0) if kind == "video" else ()
    seconds = 4.0 if kind == "video" else None
    return MediaEntry("k", kind, frames, (1, 4, 8), 8, (224, 112), times, tuple(range(len(times))), 1.0, seconds, 1.0)


@pytest.mark.parametrize(
    ("kinds", "text", "marks"),
    [
        (("image",), "<answer>[10, 0, 50, 100]</answer>", [("box", (11.2, 0.0, 56.0, 56.0))]),
        (("image",), '[{"bbox_2d": [0, 0, 100, 100]}, {"bbox_2d": [50, 50, 100, 100]}]', [
            ("box", (0.0, 0.0, 112.0, 56.0)), ("box", (56.0, 28.0, 112.0, 56.0))]),
        (("image",), "click (50, 50)", [("point", (56.0, 28.0))]),
        (("image",), "10 0 50 100", [("box", (11.2, 0.0, 56.0, 56.0))]),
        (("video",), "from 1 to 2.5 seconds", [("time", (1.0, 2.5))]),
        (("video",), "[1, 2.5]", [("time", (1.0, 2.5))]),
        (("video", "image"), "[50, 50]", [("point", (56.0, 28.0))]),
        (("image",), "a dog [1, 2, 3] in 2024", []),
        ((), "[1, 2, 3, 4]", []),
    ],
)  # fmt: skip
def test_places_in_answers(folder, kinds, text, marks):
    import dataclasses

    processor = dataclasses.replace(load_processor(folder / "model"), box_space="0..100")
    found = list(find_marks(text, [entry(kind) for kind in kinds], processor, colour=2))
    assert [(mark.kind, pytest.approx(mark.values)) for mark in found] == marks
    assert {mark.colour for mark in found} <= {2}
    if kinds == ("video", "image"):
        assert found[0].medium == 1
