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
    if key == "cache.dir":
        assert "'cache.dir' is" in mmrl("preprocess", config, f"{key}={file}").line_with("error: ")


def test_wandb_without_a_key_is_said_before_the_model_loads(config, tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    for name in ("WANDB_MODE", "WANDB_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "none"))
    said = mmrl("train", config, "log.trackers=[wandb]")
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
    assert "'log.trackers': wandb has no API key; run `wandb login`, or set WANDB_MODE=offline" in said.err


def refused(config, *overrides):
    """The one error line of a training that may not begin, which `check` finds too; nothing is loaded before it."""
    said = mmrl("train", config, *overrides)
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1), said
    checked = mmrl("check", config, *overrides, "--media=none")
    assert checked.code == 2 and said.err.removeprefix("error: ").rstrip() in (checked.out + checked.err)
    return said.err


def test_lora_targets_are_looked_up_without_weights(config):
    line = refused(config, "model.lora={targets: [language_model, qproj]}")
    assert "'model.lora={targets: [language_model, qproj]}': model.lora.targets: no linear layer is called" in line
    assert "did you mean 'q_proj'?" in line and "mlp.0, mlp.2" in line
    assert "no module is called 'head'" in refused(config, "model.lora={modules_to_save: [head]}")


@pytest.mark.parametrize(
    ("override", "known"),
    [
        ("checkpoint.best=val/maen", "did you mean 'val/mean'?"),
        ("checkpoint.best=val/task/u", "val/task/t"),
        ("checkpoint.best=val/dataset/train", "val/dataset/held_out"),
        ("stages.rl.early_stop={score: val/part/t/letter}", "did you mean 'val/part/t/letters'?"),
    ],
)
def test_scores_that_no_validation_gives(config, override, known):
    line = refused(config, "validation.every=1", override)
    assert f"override '{override}': '" in line and "which is not measured; known: val/mean, val/unscored" in line
    assert known in line


def test_a_reward_of_a_task_that_no_row_has_is_noted(config):
    said = mmrl("check", config, "rewards.tasks.tt=[{reward: choice}]", "--media=none")
    assert said.code == 0
    assert "no row has the task 'tt' of 'rewards.tasks'; did you mean 't'?" in said.line_with("note: ")


@pytest.mark.parametrize("key", ["rollout.group_size", "stages.rl.prompts_per_step"])
def test_absurd_sizes(config, key):
    assert "less than or equal to 1000000, not 1000000000" in refused(config, f"{key}=1000000000")


@pytest.mark.parametrize("value", ["./no.jinja", "missing"])
def test_a_chat_template_that_is_not_there(config, value):
    line = refused(config, f"model.chat_template={value}")
    assert line.startswith(f"error: override 'model.chat_template={value}': model.chat_template")
    assert "model.path" not in line


def test_plugins_are_named_as_they_were_written(config, tmp_path):
    assert "(written './nope.py')" in refused(config, "algorithm.plugins=[./nope.py]")
    (tmp_path / "r.py").write_text("def three(a, b, c): ...")
    line = refused(config, f"rewards.tasks.t=[{{reward: '{tmp_path}/r.py:three'}}]")
    assert line.rstrip().endswith("; it has (a, b, c)")
