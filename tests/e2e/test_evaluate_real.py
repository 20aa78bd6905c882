"""Real pictures, clips and pages as a benchmark: who has read their annotations has every question right."""

import json
import shutil
from pathlib import Path

import pytest
from makers.answer_sheet import ANNOTATED, ANSWERED, answer_sheet
from makers.chat_server import ChatServer
from makers.command import mmrl
from makers.real_benchmark import oracle, write_real_benchmark
from makers.shared import shared_media
from makers.tiny_models import tiny_model_dir

from mmrl.config.schema import ModelSection, RewardsSection, RunConfig
from mmrl.data.sheet import COLOURS
from mmrl.models.load import processor_of
from mmrl.models.trained_with import trained_with, write_trained_with

KINDS = ("answers", "boxes", "clicks", "letters", "numbers", "objects", "orders", "pages", "spans", "words")


@pytest.fixture(scope="module")
def task_file(tmp_path_factory) -> Path:
    return write_real_benchmark(shared_media(), tmp_path_factory.mktemp("real"))


def model_of(spaces: tuple[str, str], folder: Path) -> Path:
    """A tiny model that was taught to write places and times so."""
    shutil.copytree(tiny_model_dir("qwen2_5_vl"), folder)
    section = ModelSection(path=str(folder), box_space=spaces[0], time_space=spaces[1])
    config = RunConfig(model=section, rewards=RewardsSection(tasks={}), stages=())
    write_trained_with(trained_with(config, processor_of(section), policy_version=1), folder)
    return folder


@pytest.mark.parametrize(
    ("spaces", "scales"),
    [
        (("model_px", "seconds"), {}),
        (("0..1000", "0..100"), {"boxes": 1000.0, "times": 100.0}),
        (("0..6", "0..6"), {"boxes": 6.0, "times": 6.0}),
    ],
    ids=["pixels and seconds", "thousandths", "sixths"],
)
def test_the_annotations_score_all_points_on_every_kind(task_file, tmp_path, spaces, scales):
    folder = task_file.parent
    where = ("--root", folder, "--out", tmp_path / "out", "--cache", folder / "cache", "--workers", 1)
    with ChatServer(oracle(folder, **scales)) as server:
        engine = ("--engine", "openai", "--server", server.url, "--server-model", "tiny")
        model = ("--model", model_of(spaces, tmp_path / "model"))
        said = mmrl("evaluate", *model, *where, *engine, "--tasks", task_file, "--strict")
    assert said.code == 0, said.err
    found = json.loads((tmp_path / "out" / "results.json").read_text())["benchmarks"]["real"]
    assert (found["n_total"], found["n_failed"], found["n_unscored"], found["n_unparsed"]) == (38, 0, 0, 0)
    kinds = {kind: numbers["score"] for kind, numbers in found["groups"]["kind"].items()}
    assert tuple(kinds) == KINDS
    assert kinds == pytest.approx(dict.fromkeys(KINDS, 1.0), abs=1e-6)
    assert found["score"] == pytest.approx(1.0, abs=1e-6)
    assert found["also"]["iou of boxes"]["score"] == pytest.approx(1.0, abs=1e-6)
    seen = {"model": tmp_path / "model", "cache": folder / "cache"}
    sheet = answer_sheet(task_file, tmp_path / "out", ["img-stop-1"], **seen)
    colours = {colour for _, colour in sheet.getcolors(sheet.width * sheet.height)}
    assert COLOURS[ANSWERED] in colours and COLOURS[ANNOTATED] not in colours, "the one lies on the other"
