import json
import random

import numpy as np
import pytest
import torch

from mmrl.errors import CheckpointError
from mmrl.training.checkpoint import (
    MARKER,
    find_checkpoints,
    load_optimizer_state,
    load_state,
    prune_checkpoints,
    random_state,
    restore_random_state,
    save_checkpoint,
)


def write_model(folder):
    folder.mkdir()
    (folder / "config.json").write_text("{}")


def save(folder, step, *, save_model=write_model):
    optimizer = {"state": {0: {"exp_avg": torch.tensor([float(step)])}}, "param_groups": [{"lr": 0.1}]}
    return save_checkpoint(folder, step=step, state={"step": step}, optimizer_state=optimizer, save_model=save_model)


def test_round_trip(tmp_path):
    path = save(tmp_path, 3)
    assert path.name == "step-000003"
    assert load_state(path) == {"step": 3}
    assert load_optimizer_state(path)["state"][0]["exp_avg"].tolist() == [3.0]
    assert (path / "model" / "config.json").is_file()


def test_a_save_that_dies_leaves_no_checkpoint(tmp_path):  # fault 75
    save(tmp_path, 1)

    def dies(folder):
        folder.mkdir()
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        save(tmp_path, 2, save_model=dies)
    assert [p.name for p in find_checkpoints(tmp_path)] == ["step-000001"]
    save(tmp_path, 3)
    assert not list((tmp_path / "checkpoints").glob(".building-*"))


def test_a_folder_without_marker_is_not_a_checkpoint(tmp_path):  # fault 75
    path = save(tmp_path, 7)
    (path / MARKER).unlink()
    assert find_checkpoints(tmp_path) == []
    with pytest.raises(CheckpointError, match="not a complete checkpoint"):
        load_state(path)


def test_saving_the_same_step_again_replaces_it(tmp_path):
    save(tmp_path, 1)
    (tmp_path / "checkpoints" / "step-000001" / "old").touch()
    assert not (save(tmp_path, 1) / "old").exists()


def test_prune_keeps_the_last_and_the_best(tmp_path):
    for step in range(1, 6):
        save(tmp_path, step)
    prune_checkpoints(tmp_path, keep_last=2, best="step-000002")
    assert [p.name for p in find_checkpoints(tmp_path)] == ["step-000002", "step-000004", "step-000005"]
    assert (tmp_path / "checkpoints" / "best").resolve().name == "step-000002"
    assert (tmp_path / "checkpoints" / "latest").resolve().name == "step-000005"


def test_random_states_continue_exactly(tmp_path):
    path = save(tmp_path, 1)
    (path / "rng-0.json").write_text(json.dumps(random_state()))
    expected = (random.random(), np.random.rand(), torch.rand(2).tolist())
    restore_random_state(path)
    assert (random.random(), np.random.rand(), torch.rand(2).tolist()) == expected


def test_an_optimizer_file_holding_code_is_refused(tmp_path):
    path = save(tmp_path, 1)
    torch.save({"state": print}, path / "optimizer-0.pt")
    with pytest.raises(CheckpointError, match=r"optimizer-0.pt: damaged \(it holds more than tensors"):
        load_optimizer_state(path)


def test_a_missing_optimizer_file_is_an_error(tmp_path):
    path = save(tmp_path, 1)
    (path / "optimizer-0.pt").unlink()
    with pytest.raises(CheckpointError, match=r"optimizer-0.pt is missing; remove .*step-000001"):
        load_optimizer_state(path)


@pytest.mark.parametrize("name", ["state.json", "rng-0.json", "optimizer-0.pt"])
def test_a_damaged_file_is_named_with_the_remedy(tmp_path, name):  # fault 75
    path = save(tmp_path, 1)
    (path / name).write_bytes(b"{")
    load = {"state.json": load_state, "rng-0.json": restore_random_state, "optimizer-0.pt": load_optimizer_state}[name]
    remedy = f"remove {path} to continue from the checkpoint before it"
    with pytest.raises(CheckpointError, match=rf"{name}: damaged .*{remedy}"):
        load(path)
