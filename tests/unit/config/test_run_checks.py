"""What is found before a model is loaded and no row is needed for: folders, logins, layers of adapters."""

import pytest
from makers.command import mmrl
from makers.tiny_run import write_run


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("checked"))


@pytest.mark.parametrize("key", ["out_dir", "cache.dir"])
def test_a_folder_that_cannot_be_made_is_named_by_its_key(config, tmp_path, key):
    file = tmp_path / "afile"
    file.touch()
    for value in (file, file / "below", "/proc/xx"):
        said = mmrl("train", config, f"{key}={value}")
        assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
        assert f"override '{key}={value}': '{key}' is {value}, but nothing can be written there (" in said.err
        assert said.err.rstrip().endswith("; name a folder that can be made")
    assert mmrl("check", config, f"{key}={file}", "--media=none").code == 2


def test_wandb_without_a_key_is_said_before_the_model_loads(config, tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    for name in ("WANDB_MODE", "WANDB_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "none"))
    said = mmrl("train", config, "log.trackers=[wandb]")
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
    assert "'log.trackers': wandb has no API key; run `wandb login`, or set WANDB_MODE=offline" in said.err
