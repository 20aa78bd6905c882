"""Rows 65, 66, 73 to 75 of the public faults, and the bugs found by reading code, on real runs of a tiny model."""

import json
import shutil

import pytest
from makers.command import mmrl
from makers.rows import write_jsonl
from makers.tiny_run import write_run

from mmrl.training.checkpoint import find_checkpoints

COVERED = {
    65: [
        "unit/algorithms/test_advantages.py::test_a_constant_group_gets_exactly_zero",
        "faults/test_training.py::test_groups_without_signal_change_nothing_and_are_counted",
    ],
    66: [
        "unit/algorithms/test_algorithm.py::test_generation_that_never_fills_the_batch_ends_with_a_reason",
        "faults/test_training.py::test_dynamic_sampling_that_never_fills_ends_with_a_reason",
    ],
    73: [
        "unit/data/test_loader.py::test_resume_at_an_epoch_boundary_goes_on_with_the_next_epoch",
        "faults/test_training.py::test_resume",
    ],
    74: ["e2e/test_train.py::test_resuming_gives_the_same_weights_and_metrics", "faults/test_training.py::test_resume"],
    75: [
        "unit/training/test_checkpoint.py::test_a_save_that_dies_leaves_no_checkpoint",
        "faults/test_training.py::test_a_damaged_checkpoint_is_named",
    ],
    "a prompt cut inside image tokens": [
        "unit/data/test_render.py::test_too_long_is_an_error_with_numbers_and_nothing_is_cut"
    ],
    "the reward of an empty completion": ["unit/algorithms/test_rollout_batch.py::test_only_empty_completions"],
    "a regex without DOTALL": ["unit/scoring/test_parse.py::test_the_answer_is_found_where_it_stands"],
    "groups by prompt text": ["faults/test_training.py::test_rows_with_one_question_are_groups_of_their_own"],
    "groups without signal make the trainer wait": [
        "faults/test_training.py::test_dynamic_sampling_that_never_fills_ends_with_a_reason"
    ],
}

STAGE = {"name": "rl", "kind": "grpo", "steps": 2, "prompts_per_step": 3, "lr": 1e-3}
CONSTANT = "def score(completion, sample):\n    return 1.0\n"


def write(folder, *, rows: int = 3, reward: str | None = None, **changes: object):
    """A run on text rows alone that all ask the same."""
    config = write_run(folder, stages=[STAGE], **changes)
    write_jsonl(folder / "train.jsonl", [{"prompt": "q", "answer": "a", "task": "t", "id": n} for n in range(rows)])
    if reward is not None:
        (folder / "reward.py").write_text(reward)
    return config


def metrics(folder) -> list[dict]:
    return [json.loads(line) for line in (folder / "runs" / "tiny" / "metrics.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def constant(tmp_path_factory):
    """A finished run whose every group has the same rewards."""
    folder = tmp_path_factory.mktemp("constant")
    said = mmrl("train", write(folder, reward=CONSTANT, checkpoint={"every": 1, "keep_last": 9}), "data.val=[]")
    assert said.code == 0, said
    return folder


def test_groups_without_signal_change_nothing_and_are_counted(constant):  # fault 65
    rows = metrics(constant)
    assert [row["groups/zero_std"] for row in rows] == [1.0, 1.0]
    first, last = (c / "model" / "model.safetensors" for c in find_checkpoints(constant / "runs" / "tiny"))
    assert first.read_bytes() == last.read_bytes()


def test_rows_with_one_question_are_groups_of_their_own(constant):  # GRPO-Zero merges them
    rows = [json.loads(line) for line in (constant / "runs" / "tiny" / "rollouts.jsonl").read_text().splitlines()]
    trained = [row["sample_id"] for row in rows if row["split"] == "train"]
    assert [sorted(trained[:3]), sorted(trained[3:])] == [["0", "1", "2"]] * 2


def test_dynamic_sampling_that_never_fills_ends_with_a_reason(tmp_path):  # fault 66
    sampling = ("algorithm.dynamic_sampling=true", "algorithm.max_generation_rounds=2", "data.val=[]")
    said = mmrl("train", write(tmp_path, reward=CONSTANT), *sampling)
    assert said.code == 2
    assert "after 2 rounds of generation only 0 of 3 groups" in said.line_with("error: ")
    # Nothing was trained, so the folder is free for the next try.
    assert mmrl("train", tmp_path / "config.yaml", *sampling[1:]).code == 0


def copy_with_checkpoints(constant, folder, *steps: int):
    shutil.copytree(constant, folder, symlinks=True)
    run = folder / "runs" / "tiny"
    for checkpoint in find_checkpoints(run):
        if int(checkpoint.name[-6:]) not in steps:
            shutil.rmtree(checkpoint)
    return run, ("data.val=[]", f"out_dir={folder / 'runs'}")


def test_resume(constant, tmp_path):  # faults 73, 74: 3 rows and 3 prompts a step, so step 1 ends an epoch
    _, overrides = copy_with_checkpoints(constant, tmp_path / "copy", 1)
    said = mmrl("train", constant / "config.yaml", *overrides, "--resume")
    assert said.code == 0, said
    assert [row["step"] for row in metrics(tmp_path / "copy")] == [1, 2]
    more = mmrl("train", constant / "config.yaml", *overrides, "stages.0.steps=3", "--resume")
    assert more.code == 2
    assert "stage 'rl' is finished with 2 steps and 'stages.0.steps' is now 3" in more.line_with("error: ")


def test_a_damaged_checkpoint_is_named(constant, tmp_path):  # fault 75
    run, overrides = copy_with_checkpoints(constant, tmp_path / "copy", 1, 2)
    newest = find_checkpoints(run)[-1]
    weights = newest / "model" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    said = mmrl("train", constant / "config.yaml", *overrides, "--resume")
    assert said.code == 2
    assert said.line_with("error: ", str(newest), "damaged")


def test_another_model_or_an_occupied_folder_is_refused(constant):
    config = constant / "config.yaml"
    assert mmrl("train", config, "data.val=[]").line_with("error: ", "already holds a run; continue it with resume")
    other = mmrl("train", config, "data.val=[]", "model.path=/elsewhere", "--resume")
    assert (other.code, "would go on with its weights" in other.line_with("error: ")) == (2, True)


@pytest.mark.parametrize("override", ["model.path=/nowhere", "stages=[]", "data.train.0.card=quikstart"])
def test_what_ends_before_training_leaves_nothing_in_the_way(tmp_path, override):
    config = write(tmp_path)
    said = mmrl("train", config, override, "data.val=[]")
    assert said.code == 2 and said.err.count("\n") == 1
    assert said.err.startswith(f"error: override {override!r}: ")
    assert not (tmp_path / "runs" / "tiny" / "checkpoints").exists()


def test_an_algorithm_plugin_is_checked_before_a_model_loads(tmp_path):
    (tmp_path / "plug.py").write_text("def advantages(rewards_N, batch, settings):\n    return rewards_N\n")
    config = write(tmp_path, algorithm={"plugins": ["./plug.py"]})
    said = mmrl("check", config, "model.path=/nowhere")
    assert said.code == 2
    assert "did you mean 'advantage'?" in said.line_with(f"error: {config}:", "'advantages' is no hook")
