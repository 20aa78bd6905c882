"""VLA-RFT's reward with a world model: the worked numbers in pixels, whose frames are compared, what is refused."""

import doctest
from pathlib import Path

import numpy as np
import pytest
from makers.tiny_encoders import tiny_encoder
from PIL import Image

from mmrl.config.load import load_config
from mmrl.data.sample import MediaRef, Sample
from mmrl.errors import ConfigError
from mmrl.scoring import pictures, world_model
from mmrl.scoring.pool import Outcome, RewardCall, run_call
from mmrl.scoring.reward import check_machine, resolve_reward

DARKENS = """
import numpy as np

def frames(first, actions):
    shades = np.cumsum(np.asarray(actions)[:, 0])
    return [np.clip(first - 51.0 * shade, 0, 255).astype(np.uint8) for shade in shades]

def nothing(first, actions):
    return []

def floats(first, actions):
    return [first / 255.0]
"""
GREY = 204


@pytest.fixture
def darkens(tmp_path):
    (tmp_path / "world.py").write_text(DARKENS)
    return f"{tmp_path}/world.py"


def picture(path: Path, pixels: list[int]) -> Path:
    Image.fromarray(np.array(pixels, dtype=np.uint8).reshape(1, -1, 1).repeat(3, axis=2)).save(path)
    return path


def outcomes(sample: Sample, *completions: str, **options) -> list[Outcome]:
    return run_call(RewardCall("vla_rft", None, options, ((sample, completions),)))


def robot_row(tmp_path: Path, answer=((1,), (2,)), **columns) -> Sample:
    first = picture(tmp_path / "first.png", [GREY, GREY])
    answer = [list(action) for action in answer]
    return Sample("s", "t", "image", (), (MediaRef("image", first),), answer, columns=columns, origin="rows.jsonl:3")


@pytest.mark.parametrize("module", [world_model, pictures])
def test_docstring_examples(module):
    result = doctest.testmod(module)
    assert result.attempted > 0 and result.failed == 0


def test_the_worked_numbers_in_pixels(tmp_path):
    """0.1 of 255 is 25.5: one pixel off by 25, the other by 26; the encoder gives the two pictures the cosine 0.92."""
    shown = picture(tmp_path / "shown.png", [152, 102])
    table = {"#7f7f7f": [1.0, 0.0], "#808080": [0.92, 0.39191835884530846]}
    options = {
        "encoder": {"kind": "table", "vectors": table},
        "perceptual": "embedding",
        "reference_column": "reference",
    }
    for reference, wanted in ((picture(tmp_path / "reference.png", [127, 128]), -0.18), (shown, 0.0)):
        columns = {"reference": str(reference)}
        (found,) = outcomes(Sample("s", "t", "image", (), (MediaRef("image", shown),), columns=columns), "", **options)
        assert found.value == pytest.approx(wanted, abs=1e-6)


def test_the_frames_are_those_of_the_completions_actions(tmp_path, darkens):
    """Actions 1, 2 darken by 1 and 3 steps of 0.2; actions 1, 1 by 1 and 2, so the second frame is 0.2 off."""
    found = outcomes(
        robot_row(tmp_path), "[[1], [2]]", "<answer>[[1], [1]]</answer>", "[[1]]", world_model=f"{darkens}:frames"
    )
    assert [outcome.value for outcome in found] == pytest.approx([0, -0.1, -2])


def test_real_frames_can_be_the_reference(tmp_path, darkens):
    """The grey of 204 darkened by 0.2 is 153, by 0.6 it is 51."""
    paths = [str(picture(tmp_path / f"{n}.png", [shade, shade])) for n, shade in enumerate((153, 102))]
    row = robot_row(tmp_path, real=paths)
    found = outcomes(row, "[[1], [1]]", "[[1], [2]]", world_model=f"{darkens}:frames", reference_column="real")
    assert [outcome.value for outcome in found] == pytest.approx([0, -0.1])


def test_features_are_compared_at_each_layer(tmp_path):
    encoder = tiny_encoder("timm", tmp_path)
    rng = np.random.default_rng(0)
    pixels = [rng.integers(0, 256, (32, 32, 3), dtype=np.uint8) for _ in range(2)]
    paths = [tmp_path / f"{n}.png" for n in range(2)]
    for path, values in zip(paths, pixels, strict=True):
        Image.fromarray(values).save(path)
    row = Sample("s", "t", "image", (), (MediaRef("image", paths[0]),), columns={"reference": str(paths[1])})
    (found,) = outcomes(row, "", encoder=encoder, reference_column="reference")
    assert found.extra["pixels"] == pytest.approx(np.abs(pixels[0] - pixels[1].astype(float)).mean() / 255)
    assert 0 < found.extra["features"] < 2
    assert found.value == pytest.approx(max(-2, -found.extra["pixels"] - found.extra["features"]))


@pytest.mark.parametrize(
    ("function", "words"),
    [("nothing", "the world model returned no frame"), ("floats", "returned an array float64 of shape (1, 2, 3)")],
)
def test_what_is_no_picture_is_named(tmp_path, darkens, function, words):
    (found,) = outcomes(robot_row(tmp_path), "[[1], [2]]", world_model=f"{darkens}:{function}")
    assert found.event == "raised" and "rows.jsonl:3" in found.message and words in found.message


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "vla_rft needs the option 'reference_column', or a 'world_model'"),
        ({"world_model": "dreamer"}, "write ./file.py:function"),
        ({"world_model": "nowhere.py:frames"}, "does not exist"),
    ],
)
def test_options_that_cannot_work_are_refused_at_start(options, words):
    with pytest.raises(ConfigError, match=words):
        check_machine(resolve_reward("vla_rft"), options, timeout_s=10.0, where="rewards.tasks.t[0]")


def test_the_world_model_lies_beside_the_configuration(tmp_path):
    (tmp_path / "run.yaml").write_text(
        "model: {path: m}\nrewards: {tasks: {t: [{reward: vla_rft, options: {world_model: ./world.py:frames}}]}}\n"
    )
    options = load_config(tmp_path / "run.yaml").rewards.tasks["t"][0].options
    assert options["world_model"] == f"{tmp_path}/world.py:frames"
