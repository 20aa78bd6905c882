"""A continued run is the run that was begun: its finished stages stay, the one under way may only grow."""

import json

import pytest

from mmrl.config.schema import RunConfig
from mmrl.errors import ConfigError
from mmrl.training.resume import newest_checkpoint, stage_record

WARM = {"name": "warm", "kind": "sft", "steps": 2, "prompts_per_step": 1}
RL = {"name": "rl", "kind": "grpo", "steps": 4, "prompts_per_step": 1}


def config(*stages: dict) -> RunConfig:
    return RunConfig.model_validate({"model": {"path": "m"}, "stages": stages})


def write(folder, *, stage: int, stage_step: int):
    """A checkpoint of WARM and RL at a place; no more of it than is read here."""
    path = folder / "checkpoints" / "step-000003"
    path.mkdir(parents=True)
    (path / "COMPLETE").touch()
    position = {"stage": stage, "stage_step": stage_step}
    (path / "state.json").write_text(json.dumps({"position": position, "stages": stage_record(config(WARM, RL))}))
    return path


@pytest.mark.parametrize(
    "stages",
    [(WARM, RL), (WARM, {**RL, "steps": 9}), (WARM, {**RL, "steps": 3, "lr": 0.1}), (WARM, RL, {**RL, "name": "x"})],
)
def test_what_may_change(tmp_path, stages):
    path = write(tmp_path, stage=1, stage_step=3)
    assert newest_checkpoint(tmp_path, config(*stages)) == path


@pytest.mark.parametrize(
    ("stages", "fact"),
    [
        ((RL,), "stages.0 was 'warm' (sft) and is now 'rl' (grpo)"),
        ((WARM,), "stages.1 was 'rl' (grpo) and is now missing"),
        ((WARM, {**RL, "kind": "sft"}), "stages.1 was 'rl' (grpo) and is now 'rl' (sft)"),
        (({**WARM, "steps": 5}, RL), "stage 'warm' is finished with 2 steps and 'stages.0.steps' is now 5"),
        ((WARM, {**RL, "steps": 2}), "stage 'rl' has done 3 steps and 'stages.1.steps' is now 2"),
    ],
)
def test_what_may_not_change(tmp_path, stages, fact):  # faults 73, 74
    path = write(tmp_path, stage=1, stage_step=3)
    with pytest.raises(ConfigError) as error:
        newest_checkpoint(tmp_path, config(*stages))
    assert str(error.value).startswith(f"{path} cannot be continued: {fact}; ")


def test_more_steps_for_a_run_that_is_finished_are_not_zero_steps_with_success(tmp_path):  # fault 73
    write(tmp_path, stage=2, stage_step=0)
    assert newest_checkpoint(tmp_path, config(WARM, RL)) is not None
    with pytest.raises(ConfigError, match=r"stage 'rl' is finished with 4 steps and 'stages.1.steps' is now 6"):
        newest_checkpoint(tmp_path, config(WARM, {**RL, "steps": 6}))


def test_without_a_checkpoint_there_is_nothing_to_continue(tmp_path):
    assert newest_checkpoint(tmp_path, config(RL)) is None


def test_a_stage_that_has_not_begun_may_become_another(tmp_path):
    path = write(tmp_path, stage=1, stage_step=0)
    assert newest_checkpoint(tmp_path, config(WARM, {**RL, "name": "other", "kind": "sft", "steps": 1})) == path
