"""Training on cached features: the numbers of a training on pixels, and the vision tower is never run."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from makers.tiny_run import write_run
from makers.towers import counted_towers
from safetensors.torch import load_file

from mmrl import api
from mmrl.config.load import load_config
from mmrl.data.cache import PixelCache
from mmrl.data.feature_cache import FeatureCache
from mmrl.errors import CacheError, CacheMissError, ConfigError
from mmrl.training.checkpoint import find_checkpoints
from mmrl.training.run import train
from mmrl.training.runtime import open_runtime

FROZEN = "model.freeze=[vision_tower, projector]"
STEPS = ("stages.0.steps=2", "stages.1.steps=3", "checkpoint.every=1", "algorithm.ref_kl_coef=0.1")


def rows(folder: Path) -> list[dict]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if not k.startswith("perf/")} for line in lines]


def perf(folder: Path, key: str) -> list[float]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [line[f"perf/{key}"] for line in lines if f"perf/{key}" in line]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(find_checkpoints(folder)[-1] / "model" / "model.safetensors")


def test_a_run_on_features_equals_one_on_pixels_and_never_runs_the_tower(tmp_path: Path, monkeypatch):
    path, runs = write_run(tmp_path), tmp_path / "runs"
    with pytest.raises(CacheMissError, match="mmrl preprocess --level features"):
        train(load_config(path, [FROZEN, *STEPS, "name=none", "cache.level=features", "cache.on_miss=error"]))
    assert api.preprocess(path, FROZEN, level="features") == 0
    files = sorted((tmp_path / "cache" / "features").glob("*/*.safetensors"))
    assert len(files) == 7  # 5 pictures and 2 clips, each once, however many rows and groups show them
    assert api.preprocess(path, FROZEN, level="features") == 0
    assert sorted((tmp_path / "cache" / "features").glob("*/*.safetensors")) == files

    options = [FROZEN, *STEPS, "name=features", "cache.level=features", "cache.on_miss=error"]
    config = load_config(path, options)
    with counted_towers() as calls:
        assert train(config) == 0
        # The comparison of the first batch: one row without gradient, as pixels.
        assert calls == ["get_image_features"] or calls == ["get_video_features"]
        assert 0 <= perf(runs / "features", "feature_gap")[0] <= 1e-5
    assert perf(runs / "features", "cache_features_misses")[-1] == 0
    assert perf(runs / "features", "cache_features_hits")[-1] > 7

    assert train(load_config(path, [FROZEN, *STEPS, "name=pixels", "cache.level=pixels"])) == 0
    features, pixels = rows(runs / "features"), rows(runs / "pixels")
    assert [set(row) for row in features] == [set(row) for row in pixels]
    for ours, theirs in zip(features, pixels, strict=True):
        assert ours.pop("stage") == theirs.pop("stage")
        assert ours == pytest.approx(theirs, rel=1e-4, abs=1e-5)
    theirs = weights(runs / "pixels")
    assert all(torch.allclose(t, theirs[name], atol=1e-5) for name, t in weights(runs / "features").items())

    whole = rows(runs / "features"), weights(runs / "features")
    for checkpoint in find_checkpoints(runs / "features")[3:]:
        shutil.rmtree(checkpoint)
    assert train(config, resume=True) == 0
    assert rows(runs / "features") == whole[0]
    assert all(torch.equal(t, whole[1][name]) for name, t in weights(runs / "features").items())


def test_the_level_follows_what_is_frozen(tmp_path: Path):
    path = write_run(tmp_path)

    def cache_of(*options: str):
        config = load_config(path, options)
        folder = tmp_path / f"opened-{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        run = open_runtime(config, folder, model_path=Path(config.model.path))
        run.close()
        return run.cache

    assert isinstance(cache_of(FROZEN), FeatureCache)
    assert isinstance(cache_of("model.lora={rank: 4}"), FeatureCache)  # on the language model alone
    assert isinstance(cache_of("model.freeze=[vision_tower]"), PixelCache)
    assert isinstance(cache_of("model.lora={rank: 4, targets: [projector, language_model]}"), PixelCache)
    assert isinstance(cache_of(FROZEN, "cache.level=pixels"), PixelCache)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "'model.freeze' leaves out vision_tower and projector"),
        (("model.freeze=[vision_tower]",), "add projector to 'model.freeze'"),
        (("model.lora={rank: 4, targets: [projector, language_model]}",), "'model.lora.targets' names projector"),
    ],
)
def test_features_of_a_trained_tower_are_a_config_error(tmp_path: Path, options, message):
    with pytest.raises(ConfigError, match=r"'cache.level' is features") as raised:
        load_config(write_run(tmp_path), ["cache.level=features", *options])
    assert message in str(raised.value) and "set 'cache.level' to auto or pixels" in str(raised.value)


def test_adapters_by_names_that_mean_vision_layers_are_refused_before_the_model_is_loaded(tmp_path: Path):
    path = write_run(tmp_path)
    options = ["cache.level=features", "model.lora={rank: 4, targets: [gate_proj]}"]
    with pytest.raises(ConfigError, match=r"'cache.level' is features but 'model.lora.targets' mean 2 layers"):
        api.train(path, *options)


def test_a_store_that_loses_too_much_ends_the_run(tmp_path: Path):
    path = write_run(tmp_path)
    options = [FROZEN, "cache.feature_dtype=bfloat16", "cache.max_feature_gap=1e-7", "stages.0.steps=1", "data.val=[]"]
    with pytest.raises(CacheError, match=r"above cache.max_feature_gap \(1e-07\).*cache.feature_dtype, now bfloat16"):
        train(load_config(path, options))
