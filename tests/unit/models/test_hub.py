"""Hub ids: read from the hub's cache without a network, pinned to a commit, and what is missing is said how to get."""

import json
import shutil
from pathlib import Path

import pytest
from makers.hub import COMMIT, HUB_ID, fake_hub
from makers.tiny_models import tiny_model_dir

from mmrl.config.load import load_config
from mmrl.config.schema import ModelSection
from mmrl.errors import ConfigError
from mmrl.models.hub import commit_of, model_folder, pinned
from mmrl.models.load import geometry_of, load_policy, processor_of
from mmrl.models.trained_with import trained_with


def section(**changes) -> ModelSection:
    return ModelSection.model_validate({"path": HUB_ID, "dtype": "float32", **changes})


@pytest.mark.parametrize("revision", [None, "main", COMMIT])
def test_a_hub_id_is_read_from_the_cache(revision, monkeypatch, tmp_path: Path):
    snapshot = fake_hub(monkeypatch, tmp_path, tiny_model_dir("qwen3_vl"))
    assert model_folder(section(revision=revision), weights=True) == snapshot
    assert pinned(section(revision=revision)).revision == commit_of(snapshot) == COMMIT
    model, processor = load_policy(section(revision=revision))
    assert type(model).__name__ == "Qwen3VLForConditionalGeneration"
    assert processor.geometry == geometry_of(section()) and processor.folder == snapshot


def test_preprocessing_and_checking_need_no_weights(monkeypatch, tmp_path: Path):
    fake_hub(monkeypatch, tmp_path, tiny_model_dir("qwen3_vl"), without=["model.safetensors"])
    assert processor_of(section()).geometry == geometry_of(section())
    fetch = f"model.safetensors is missing; fetch it with `hf download {HUB_ID} --revision {COMMIT}`"
    with pytest.raises(ConfigError) as error:
        load_policy(section())
    assert str(error.value).endswith(fetch)


def test_what_is_not_in_the_cache_names_the_command(monkeypatch, tmp_path: Path):
    fake_hub(monkeypatch, tmp_path, tiny_model_dir("qwen3_vl"), without=["processor_config.json", "tokenizer.json"])
    with pytest.raises(ConfigError, match=f"hf download {HUB_ID} --revision v2`, or name a folder"):
        geometry_of(section(revision="v2"))
    with pytest.raises(ConfigError, match=r"no such folder, .* HF_HUB_OFFLINE is set; .*`hf download acme/none`"):
        geometry_of(section(path="acme/none"))
    with pytest.raises(ConfigError) as error:
        geometry_of(section())
    assert str(error.value).endswith(f"are missing; fetch it with `hf download {HUB_ID} --revision {COMMIT}`")


def test_a_missing_shard_is_named(monkeypatch, tmp_path: Path):
    snapshot = fake_hub(monkeypatch, tmp_path, tiny_model_dir("qwen3_vl"), without=["model.safetensors"])
    shards = {"lm_head.weight": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    (snapshot / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))
    (snapshot / "model-00001-of-00002.safetensors").touch()
    with pytest.raises(ConfigError, match=r"model-00002-of-00002\.safetensors is missing; fetch it with `hf download"):
        load_policy(section())


def test_a_path_is_a_folder_unless_it_looks_like_a_hub_id_and_no_folder_is_there(tmp_path: Path):
    (tmp_path / "acme" / "there").mkdir(parents=True)
    for written, meant in {
        "acme/there": str(tmp_path / "acme" / "there"),
        "acme/gone": "acme/gone",
        "./acme/gone": str(tmp_path / "acme" / "gone"),
        "gone": str(tmp_path / "gone"),
        "a/b/c": str(tmp_path / "a" / "b" / "c"),
    }.items():
        (tmp_path / "a.yaml").write_text(f"model: {{path: {written}}}\n")
        assert load_config(tmp_path / "a.yaml").model.path == meant


def test_the_commit_is_part_of_what_a_checkpoint_says(monkeypatch, tmp_path: Path):
    fake_hub(monkeypatch, tmp_path / "hub", tiny_model_dir("qwen3_vl"))
    (tmp_path / "a.yaml").write_text(f"model: {{path: {HUB_ID}}}\n")
    config = load_config(tmp_path / "a.yaml")
    config = config.model_copy(update={"model": pinned(config.model)})
    record = trained_with(config, processor_of(config.model), policy_version=0)
    assert (record.base_model, record.revision, record.commit) == (HUB_ID, COMMIT, COMMIT)
    assert record.trust_remote_code is False


def test_weights_that_were_cut_short_are_named_before_they_are_loaded(tmp_path: Path):
    folder = Path(shutil.copytree(tiny_model_dir("qwen2_5_vl"), tmp_path / "model"))
    whole = (folder / "model.safetensors").read_bytes()
    for length in (len(whole) - 1, len(whole) // 2, 20, 8, 0):
        (folder / "model.safetensors").write_bytes(whole[:length])
        with pytest.raises(ConfigError, match=rf"model\.safetensors: damaged or cut short \({length} bytes\)"):
            model_folder(ModelSection(path=str(folder)), weights=True)
    (folder / "model.safetensors").write_bytes(whole)
    assert model_folder(ModelSection(path=str(folder)), weights=True) == folder
