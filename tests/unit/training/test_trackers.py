"""Trackers: every one takes the same metrics and pictures, and a resumed run goes on in its record."""

import dataclasses
import importlib.util
import json
from pathlib import Path

import pytest
from makers.trained import tracked
from PIL import Image

from mmrl.errors import ConfigError
from mmrl.training.trackers import COLUMNS, TRACKERS, Generation, open_trackers, record_id

RED = Image.new("RGB", (40, 30), (255, 0, 0))


def generation(picture=RED, **more):
    row = {"task": "t", "sample_id": "geo|17", "completion": "a\nb", "answer": [1, 2], "reward": 0.5, **more}
    return Generation(row, picture)


@pytest.fixture
def quiet(monkeypatch, tmp_path):
    """No tracker reaches the network or the home folder."""
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file:{tmp_path / 'mlruns'}")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")


def need(name):
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")


@pytest.mark.parametrize("name", TRACKERS)
def test_every_tracker_takes_metrics_pictures_and_a_second_start(name, tmp_path, quiet):
    need(name)
    for next_step in (None, 2):
        [tracker] = open_trackers([name], tracked(tmp_path, next_step=next_step))
        tracker.scalars(1 if next_step is None else 2, {"val/mean": 0.5, "reward/task/a b": 1.0})
        tracker.generations(1, [generation(), generation(picture=None)])
        tracker.flush()
        tracker.close()


def test_tensorboard_holds_pictures_and_the_table(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    [tracker] = open_trackers(["tensorboard"], tracked(tmp_path))
    tracker.generations(4, [generation()])
    tracker.close()
    board = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    [picture] = board.Images("generations/0")
    assert (picture.step, picture.width, picture.height) == (4, 40, 30)
    [text] = board.Tensors("generations/text_summary")
    assert b"| t | geo\\|17 | a<br>b | [1, 2] | 0.5 |" in text.tensor_proto.string_val[0]


def test_mlflow_goes_on_in_the_same_record(tmp_path, quiet):
    need("mlflow")
    import mlflow

    for step in (1, 2):
        [tracker] = open_trackers(["mlflow"], tracked(tmp_path, next_step=step))
        tracker.scalars(step, {"val/mean": step / 4})
        tracker.generations(step, [generation()])
        tracker.close()
    client = mlflow.MlflowClient()
    [run] = client.search_runs([client.get_experiment_by_name("tests").experiment_id])
    assert [(m.step, m.value) for m in client.get_metric_history(run.info.run_id, "val/mean")] == [(1, 0.25), (2, 0.5)]
    folder = Path(client.download_artifacts(run.info.run_id, "generations/2", str(tmp_path)))
    assert sorted(path.name for path in folder.iterdir()) == ["0.png", "rows.json"]
    assert set(json.loads((folder / "rows.json").read_text())["rows"][0]) == set(COLUMNS)


def test_a_run_keeps_its_record_id(tmp_path):
    first = record_id(tmp_path)
    assert record_id(tmp_path) == first and len(first) == 12
    (tmp_path / "other").mkdir()
    assert record_id(tmp_path / "other") != first


def test_a_tracker_that_does_not_start_is_named(tmp_path, monkeypatch):
    (tmp_path / "tensorboard").touch()  # a file where its folder should be
    with pytest.raises(ConfigError, match=r"log\.trackers: tensorboard does not start: .*; mend that, or leave"):
        open_trackers(["tensorboard"], tracked(tmp_path))
    need("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    with pytest.raises(ConfigError, match=r"log\.trackers: wandb does not start: "):
        open_trackers(["wandb"], dataclasses.replace(tracked(tmp_path), project="a/b"))
