import json

import pytest

from mmrl.config.schema import RunConfig
from mmrl.errors import ConfigError
from mmrl.training.run_folder import is_running, only_run_in, open_run_folder


def config(out_dir, **more) -> RunConfig:
    return RunConfig.model_validate({"model": {"path": "/models/m"}, "out_dir": str(out_dir), **more})


def leave(folder, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("of the former attempt")


OF_STEPS = ("metrics.jsonl", "rollouts.jsonl", "skipped.jsonl", "tensorboard/events", "reference/rl/model.safetensors")


def test_a_folder_holds_what_the_run_was_started_with(tmp_path):
    folder, changes = open_run_folder(config(tmp_path), resume=False)
    assert (folder, changes) == (tmp_path / "run", [])
    assert {"mmrl", "torch", "deepspeed"} <= set(json.loads((folder / "environment.json").read_text())["versions"])
    assert json.loads((folder / "templates.json").read_text()) == {}


def test_a_folder_in_use_needs_a_decision(tmp_path):
    folder, _ = open_run_folder(config(tmp_path), resume=False)
    (folder / "metrics.jsonl").write_text('{"step": 1, "stage": "rl"}\n')
    with pytest.raises(ConfigError, match="already holds a run; continue it with resume"):
        open_run_folder(config(tmp_path), resume=False)
    folder, changes = open_run_folder(config(tmp_path, seed=1), resume=True)
    assert changes == ["seed: 0 -> 1"]
    leave(folder, "notes.txt")
    open_run_folder(config(tmp_path), resume=False, overwrite=True)
    assert not (folder / "notes.txt").exists()


@pytest.mark.parametrize("metrics", [None, "", '{"step": 0, "stage": "rl", "val/mean": 0.5}\n'])
def test_a_run_that_ended_before_its_first_step_is_in_nobodys_way(tmp_path, metrics):
    folder, _ = open_run_folder(config(tmp_path), resume=False)
    if metrics is not None:
        (folder / "metrics.jsonl").write_text(metrics)
    open_run_folder(config(tmp_path), resume=False)
    assert not (folder / "metrics.jsonl").exists()


def test_another_model_is_not_what_a_run_continues_with(tmp_path):
    folder, _ = open_run_folder(config(tmp_path), resume=False)
    other = config(tmp_path, model={"path": "/models/other"})
    assert open_run_folder(other, resume=True)[1] == ['model.path: "/models/m" -> "/models/other"']
    leave(folder, "checkpoints/step-000001/COMPLETE")
    with pytest.raises(ConfigError, match=r"was begun with model.path /models/other and would go on with its weights"):
        open_run_folder(config(tmp_path), resume=True)


def test_a_damaged_record_of_the_run_is_named(tmp_path):
    folder, _ = open_run_folder(config(tmp_path), resume=False)
    (folder / "resolved.yaml").write_text("a: [")
    with pytest.raises(ConfigError, match=r"resolved.yaml: damaged, so what the run was begun with is unknown"):
        open_run_folder(config(tmp_path), resume=True)


def test_without_a_checkpoint_nothing_that_belongs_to_steps_is_left(tmp_path):  # fault 74
    folder, _ = open_run_folder(config(tmp_path), resume=False)
    leave(folder, *OF_STEPS)
    open_run_folder(config(tmp_path), resume=True)
    assert [name for name in OF_STEPS if (folder / name).exists()] == []


def test_with_a_checkpoint_everything_is_kept(tmp_path):
    folder, _ = open_run_folder(config(tmp_path), resume=False)
    leave(folder, *OF_STEPS, "checkpoints/step-000001/COMPLETE")
    open_run_folder(config(tmp_path), resume=True)
    assert [name for name in OF_STEPS if (folder / name).exists()] == list(OF_STEPS)


def test_one_run_at_a_time_in_a_folder(tmp_path):
    assert not is_running(tmp_path / "run")
    with only_run_in(tmp_path / "run"):
        assert is_running(tmp_path / "run")
        with (
            pytest.raises(ConfigError, match="run: another process is training in this run folder"),
            only_run_in(tmp_path / "run"),
        ):
            pass
        open_run_folder(config(tmp_path), resume=False)
        open_run_folder(config(tmp_path), resume=False, overwrite=True)
        assert is_running(tmp_path / "run")
    assert not is_running(tmp_path / "run")
    with only_run_in(tmp_path / "run"):
        pass
