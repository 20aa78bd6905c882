"""Section D of the public faults: mixed modalities, several processes, weights on their way."""

import gc
import json

import pytest
from makers.tiny_run import write_run

from mmrl.config.load import load_config
from mmrl.data.rendered import MediaEntry
from mmrl.training import step
from mmrl.training.journal import Journal
from mmrl.training.run import train

COVERED = {
    53: ["e2e/test_processes.py::test_every_pair_of_modalities_gives_the_gradients_of_one_process"],
    54: [
        "e2e/test_processes.py::test_every_pair_of_modalities_gives_the_gradients_of_one_process",
        "unit/models/test_logprobs.py::test_a_mixed_micro_batch_equals_one_row_at_a_time",
    ],
    55: [
        "e2e/test_processes.py::test_every_pair_of_modalities_gives_the_gradients_of_one_process",
        "unit/models/test_logprobs.py::test_a_mixed_micro_batch_equals_one_row_at_a_time",
    ],
    56: [
        "e2e/test_processes.py::test_zero_3_weights_are_gathered_one_by_one_for_an_engine",
        "e2e/test_vllm_processes.py::test_the_engines_of_two_processes_generate_what_one_generates",
        "unit/rollout/test_weight_names.py::test_tensors_that_fit_pass_uncopied_and_the_others_are_named",
        "unit/rollout/test_vllm_engine.py::test_weights_that_do_not_fit_are_named_and_nothing_is_generated_with_them",
    ],
    57: ["e2e/test_processes.py::test_two_processes_under_zero_3_train_as_one_does"],
    58: [
        "unit/models/test_load.py::test_a_saved_model_has_the_keys_of_its_base_and_loads_everywhere",
        "unit/models/test_load.py::test_a_base_that_names_its_weights_otherwise_keeps_its_names",
        "unit/rollout/test_vllm_engine.py::test_weights_that_do_not_fit_are_named_and_nothing_is_generated_with_them",
        "unit/commands/test_export_vllm.py::test_vllm_loads_the_folder_itself_and_agrees",
    ],
    59: [
        "unit/models/test_lora.py::test_every_adapter_gets_a_gradient",
        "unit/models/test_freeze.py::test_freezing_changes_no_other_gradient",
    ],
    60: ["unit/rollout/test_vllm_engine.py::test_behavior_logprobs_equal_the_trainers"],
    61: [
        "faults/test_section_d.py::test_media_are_held_once_a_group_and_let_go_of_after_the_step",
        "unit/data/test_media_commands.py::test_structs_of_hub_datasets_in_parquet",
    ],
}


def alive() -> int:
    gc.collect()
    return sum(isinstance(thing, MediaEntry) for thing in gc.get_objects())


@pytest.mark.parametrize("ahead", [0, 1])
def test_media_are_held_once_a_group_and_let_go_of_after_the_step(tmp_path, monkeypatch, ahead):  # fault 61
    """Four prompts a step, groups of six: the update holds the media of its prompts, at most one each, whatever the
    number of rollouts and of steps before it, and those of the batches that are read ahead; when the step is noted only
    the latter are left.
    """
    before, during, after = alive(), [], []
    record, apply_step = Journal.record_step, step.apply_step

    def updated(engine):
        during.append(alive() - before)
        return apply_step(engine)

    def noted(self, section, values):
        after.append(alive() - before)
        return record(self, section, values)

    monkeypatch.setattr(step, "apply_step", updated)
    monkeypatch.setattr(Journal, "record_step", noted)
    stage = {"name": "rl", "kind": "grpo", "steps": 4, "prompts_per_step": 4, "lr": 1e-3}
    rollout = {"group_size": 6, "max_new_tokens": 4}
    assert (
        train(
            load_config(write_run(tmp_path, stages=[stage], rollout=rollout), ["data.val=[]", f"data.prefetch={ahead}"])
        )
        == 0
    )
    assert len(during) == 4 and 0 < max(during) <= 4 + 4 * ahead
    assert len(after) == 4 and max(after) <= 4 * ahead
    rows = [json.loads(line) for line in (tmp_path / "runs" / "tiny" / "metrics.jsonl").read_text().splitlines()]
    assert all(row["perf/peak_host_gib"] > 0 for row in rows)
