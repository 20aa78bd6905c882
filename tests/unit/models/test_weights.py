"""Comparing and merging weights by layer: numbers by hand, bit-exact ends, and folders that still load."""

import json
import math
import shutil
from pathlib import Path

import pytest
import torch
from makers.tiny_models import tiny_model_dir
from makers.vlm import tiny_vlm
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from mmrl.cli import app
from mmrl.config.schema import ModelSection
from mmrl.errors import ConfigError
from mmrl.models.differences import compare_weights
from mmrl.models.freeze import freeze
from mmrl.models.layers import place_of, read_ranges
from mmrl.models.load import load_policy, load_weights
from mmrl.models.merge_weights import MergedPart, merge_weights
from mmrl.models.weight_files import INDEX, WeightFiles

BASE = "model.language_model.layers.{}.mlp.up_proj.weight"


def write(folder: Path, **tensors: torch.Tensor) -> Path:
    folder.mkdir()
    names = {
        "l0": BASE.format(0),
        "l1": BASE.format(1),
        "v0": "visual.blocks.0.attn.qkv.weight",
        "head": "lm_head.weight",
    }
    save_file({names[key]: tensor for key, tensor in tensors.items()}, folder / "model.safetensors")
    (folder / "config.json").write_text("{}")
    return folder


def read(folder: Path) -> dict[str, torch.Tensor]:
    return {name: tensor for file in folder.glob("*.safetensors") for name, tensor in load_file(file).items()}


@pytest.fixture
def two(tmp_path) -> tuple[Path, Path]:
    """Models that differ in language layer 1 and in the head."""
    a = {"l0": torch.tensor([3.0, 4.0]), "l1": torch.tensor([1.0, 0.0]), "v0": torch.ones(2), "head": torch.zeros(1)}
    b = {**a, "l1": torch.tensor([1.0, 1.0]), "head": torch.tensor([2.0])}
    return write(tmp_path / "a", **a), write(tmp_path / "b", **b)


def test_sizes_by_hand(two):
    with WeightFiles(two[0]) as a, WeightFiles(two[1]) as b:
        rows = {(row["layer"], row["module"]): row for row in compare_weights(a, b)}
    assert list(rows) == [
        *(("whole model", ""), ("language 0", ""), ("language 0", "mlp"), ("language 1", ""), ("language 1", "mlp")),
        *(("vision 0", ""), ("vision 0", "attn"), ("others", ""), ("others", "lm_head")),
    ]
    assert rows["language 0", ""] | {"layer": 0, "module": 0} == {
        **{"layer": 0, "module": 0, "parameters": 2},
        **{"size": 0.0, "relative": 0.0, "cosine": 1.0},
    }
    assert rows["language 1", "mlp"]["size"] == rows["language 1", "mlp"]["relative"] == 1.0
    assert rows["language 1", "mlp"]["cosine"] == pytest.approx(1 / math.sqrt(2))
    assert (rows["others", ""]["size"], rows["others", ""]["relative"], rows["others", ""]["cosine"]) == (2, None, None)
    assert rows["whole model", ""]["size"] == pytest.approx(math.sqrt(1 + 4))
    assert rows["whole model", ""]["relative"] == pytest.approx(math.sqrt(5 / (25 + 1 + 2)))


@pytest.mark.parametrize(
    ("layers", "weight", "l1", "head"),
    [
        ("none", 1.0, [1.0, 0.0], 0.0),
        ("all", 1.0, [1.0, 1.0], 2.0),
        ("1", 1.0, [1.0, 1.0], 0.0),
        ("0", 1.0, [1.0, 0.0], 0.0),
        ("vision:0", 1.0, [1.0, 0.0], 0.0),
        ("0-1,others", 0.25, [1.0, 0.25], 0.5),
        ("all", 0.0, [1.0, 0.0], 0.0),
    ],
)
def test_a_range_of_layers_comes_from_the_other_model(two, tmp_path, layers, weight, l1, head):
    part = MergedPart(two[1], weight, read_ranges(layers.split(","), where="layers"))
    merge_weights(two[0], [part], tmp_path / "out")
    merged = read(tmp_path / "out")
    assert merged[BASE.format(1)].tolist() == l1
    assert merged["lm_head.weight"].tolist() == [head]
    assert merged[BASE.format(0)].tolist() == [3.0, 4.0]


def test_several_models_add_up(two, tmp_path):
    every = read_ranges(["all"], where="layers")
    c = tmp_path / "c"
    shutil.copytree(two[1], c)
    save_file({**read(c), BASE.format(1): torch.tensor([5.0, 0.0])}, c / "model.safetensors")
    merge_weights(two[0], [MergedPart(two[1], 0.5, every), MergedPart(c, 0.25, every)], tmp_path / "out")
    assert read(tmp_path / "out")[BASE.format(1)].tolist() == [1.0 + 0.25 * 4.0, 0.5]


@pytest.fixture
def sharded(tmp_path) -> tuple[Path, Path]:
    """The tiny model in bfloat16 in several files, and one whose every weight is moved, in a single file."""
    section = ModelSection(path=str(tiny_model_dir("qwen2_5_vl")), dtype="bfloat16")
    model = load_weights(section)
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        shutil.copytree(section.path, folder, ignore=shutil.ignore_patterns("*.safetensors*"))
    model.save_pretrained(one, max_shard_size="100KB")
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            parameter.add_(0.01 * (1 + number % 3))
    model.save_pretrained(other)
    return one, other


def test_sharded_folders_merge_bit_for_bit_and_still_load(sharded, tmp_path):
    one, other = sharded
    assert len(list(one.glob("*.safetensors"))) > 2
    results = {}
    for layers in ("none", "all", "1"):
        out = tmp_path / layers
        merge_weights(one, [MergedPart(other, 1.0, read_ranges([layers], where="layers"))], out)
        results[layers] = read(out)
        assert {p.name for p in out.iterdir()} == {p.name for p in one.iterdir()}
        assert (out / INDEX).read_bytes() == (one / INDEX).read_bytes()
    a, b = read(one), read(other)
    assert all(tensor.dtype == torch.bfloat16 and tensor.equal(a[name]) for name, tensor in results["none"].items())
    assert all(tensor.equal(b[name]) for name, tensor in results["all"].items())
    for name, tensor in results["1"].items():
        place = place_of(name)
        assert tensor.equal((b if (place.part, place.layer) == ("language", 1) else a)[name])
    load_weights(ModelSection(path=str(tmp_path / "1"), dtype="bfloat16"))


def test_the_mean_is_the_default_of_the_command_and_its_numbers_are_json(two, tmp_path):
    run = CliRunner().invoke
    done = run(app, ["merge", *map(str, two), "--out", str(tmp_path / "mean")])
    assert done.exit_code == 0, done.output
    assert "4 tensors mixed" in done.output
    assert read(tmp_path / "mean")[BASE.format(1)].tolist() == [1.0, 0.5]
    shown = run(app, ["compare-weights", *map(str, two)]).output
    assert "language 1" in shown and "mlp" not in shown
    assert "mlp" in run(app, ["compare-weights", *map(str, two), "--modules"]).output
    rows = json.loads(run(app, ["compare-weights", *map(str, two), "--json"]).output)
    assert rows[0]["layer"] == "whole model" and rows[0]["parameters"] == 7


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["0-9"], "language layer 9 is asked for, but the model's language part has layers 0 to 1"),
        (["vision:1"], "vision layer 1 is asked for"),
        (["3-1"], "ends before it begins; write 1-3"),
        (["late"], "'late' is no range of layers"),
        (["none", "1"], "'none' beside other ranges"),
    ],
)
def test_ranges_that_mean_nothing_are_told(two, tmp_path, words, message):
    with pytest.raises(ConfigError, match=message):
        merge_weights(two[0], [MergedPart(two[1], 1.0, read_ranges(words, where="layers"))], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_models_that_do_not_fit_are_refused(two, tmp_path):
    every = read_ranges(["all"], where="layers")
    wide = write(tmp_path / "wide", l0=torch.ones(3), l1=torch.ones(2), v0=torch.ones(2), head=torch.zeros(1))
    with pytest.raises(ConfigError, match=r"layers.0.mlp.up_proj.weight is \[2\] in .* and \[3\]"):
        merge_weights(two[0], [MergedPart(wide, 1.0, every)], tmp_path / "out")
    fewer = write(tmp_path / "fewer", l0=torch.ones(2))
    with pytest.raises(ConfigError, match=r"different tensors \(only in .*a: lm_head.weight"):
        merge_weights(two[0], [MergedPart(fewer, 1.0, every)], tmp_path / "out")
    with pytest.raises(ConfigError, match=r"no .safetensors file here"):
        WeightFiles(tmp_path / "nowhere")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "model.safetensors").write_bytes(b"\x80\x04 pickled")
    with pytest.raises(ConfigError, match="no safetensors file"):
        WeightFiles(tmp_path / "broken")
    with pytest.raises(ConfigError, match="holds files already"):
        merge_weights(two[0], [MergedPart(two[1], 1.0, every)], two[1])


@pytest.fixture
def thawed():
    vlm = tiny_vlm("qwen2_5_vl")
    yield vlm
    vlm.model.requires_grad_(True)


def test_frozen_layers_have_no_gradient(thawed):
    freeze(thawed.model, ["vision_tower"], family=thawed.processor.family, layers=["0", "others"])
    left = {place_of(name).name for name, p in thawed.model.named_parameters() if p.requires_grad}
    assert left == {"language 1"}
    with pytest.raises(ConfigError, match=r"model.freeze_layers: language layer 7 is asked for"):
        freeze(thawed.model, [], family=thawed.processor.family, layers=["7"])
    section = ModelSection(path=str(tiny_model_dir("qwen2_5_vl")), freeze_layers=("0", "vision:0"))
    model, _ = load_policy(section)
    frozen = {place_of(name).name for name, p in model.named_parameters() if not p.requires_grad}
    assert frozen == {"language 0", "vision 0"}
