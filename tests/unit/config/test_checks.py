from pathlib import Path

import pytest

from mmrl.config.load import load_config
from mmrl.errors import ConfigError

HEAD = "model: {path: m}\n"
RUN = (
    HEAD
    + "data: {train: [{path: x.jsonl}]}\n"
    + "rewards: {tasks: {box: [{reward: './r.py:score'}]}}\n"
    + "stages:\n- {name: a, kind: grpo, steps: 5, prompts_per_step: 4}\n"
)

CASES = {  # override: the message after its place
    "model.freeze=[vision_tower, projector, language_model]": "'model.freeze' names every module group, so nothing"
    " would be trained; leave out one of vision_tower, projector, language_model",
    "data.mixture=weights": "'data.mixture' is 'weights' but 'data.train' is empty; add datasets or remove the mixture",
    "budgets.gui={min_pixels: 9000, max_pixels: 4000}": "'budgets.gui.min_pixels' (9000) is above"
    " 'budgets.gui.max_pixels' (4000); lower the first or raise the second",
    "budgets.image.max_frames=2": "'budgets.image.min_frames' (4) is above 'budgets.image.max_frames' (2);"
    " lower the first or raise the second",
    "budgets={'a b': {max_frames: 9}}": "'budgets' holds the key 'a b', which is no name of a budget class; use a"
    " letter, then letters, digits, '_' and '-'",
    "stages.a.warmup_steps=6": "'stages.0.warmup_steps' (6) is above 'stages.0.steps' (5); the rate would never be"
    " reached, lower warmup_steps",
    "rewards.tasks={}": "'stages.0.kind' is grpo but 'rewards.tasks' is empty; list the reward parts of each task",
    "stages.a.tasks=[bax]": "'stages.0.tasks' names 'bax', which 'rewards.tasks' lacks; did you mean 'box'?",
    "algorithm.updates_per_batch=5": "'algorithm.updates_per_batch' (5) is above 'stages.0.prompts_per_step' (4); an"
    " update needs at least one whole group; lower the first or raise the second",
    "rollout.group_size=1": "'rollout.group_size' is 1 but 'algorithm.advantage' 'grpo' compares completions of a"
    " group, so every advantage would be 0; set group_size to 2 or more",
    "rollout.top_p=0": "'rollout.top_p' is 0, which keeps no token; 1 switches the filter off",
    "rollout.max_new_tokens=40000": "'rollout.max_new_tokens' (40000) does not fit 'rollout.max_batch_tokens' (32768),"
    " which counts prompt and completion together; raise it",
    "algorithm.dual_clip=1.0": "'algorithm.dual_clip' is 1.0, which clips the ratio 1 of unchanged tokens; use a value"
    " above 1 (3 is usual) or null",
    "algorithm={clip_low: 0, clip_high: 0}": "'algorithm.clip_low' and 'algorithm.clip_high' are both 0, so no token"
    " could move; 0.2 and 0.28 are usual",
    "algorithm.aggregation_length=9": "'algorithm.aggregation_length' is set but 'algorithm.aggregation' is"
    " 'token-mean'; only the -norm modes use it, remove it or change the mode",
    "algorithm.overlong_buffer=600": "'algorithm.overlong_buffer' (600) is above 'rollout.max_new_tokens' (512); the"
    " buffer is the last part of a completion, lower it",
    "algorithm.advantage=grop": "key 'algorithm.advantage': 'grop' is unknown (known: grpo, dr_grpo, rloo, "
    "pass_at_k, gpg, reinforce_pp, reinforce_pp_baseline, gae);"
    " did you mean 'grpo'?",
    "algorithm.policy_loss=./nowhere.py:loss": "key 'algorithm.policy_loss': plug-in file {cwd}/nowhere.py does not"
    " exist (written './nowhere.py:loss')",
    "algorithm.plugins=[nothing]": "key 'algorithm.plugins.0': unknown plug-in 'nothing' in algorithms/; known: ",
    "rewards.tasks.box.0.reward=no.such:score": "key 'rewards.tasks.box.0.reward': plug-in module 'no.such' is not"
    " installed (written 'no.such:score')",
    "checkpoint.best=val/mean": "'checkpoint.best' is 'val/mean' but 'data.val' is empty, so there is no score to rank"
    " checkpoints by; add validation data or set checkpoint.best to null",
    "data.user_template=Answer": "'data.user_template' does not contain {{prompt}}, so every question would be lost;"
    " write {{prompt}} where the question belongs",
    "model.revision=v1": "'model.revision' is set but 'model.path' ({cwd}/m) is a folder, which has no revisions;"
    " remove it, or name a hub id (ORG/NAME)",
    "model={path: m, lora: {}, freeze: [projector]}": "'model.freeze' is set beside 'model.lora', which freezes all"
    " weights anyway; remove it, and choose what is trained by 'model.lora.targets'",
    "model.quantization=nf4": "'model.quantization' is 'nf4' but quantized weights cannot be trained; set 'model.lora'"
    " to train adapters over them, or remove it",
    "model.lora={dropout: 0.1}": "'model.lora.dropout' is 0.1 but completions of grpo stages are sampled without it,"
    " so ratios would measure the dropout; set it to 0",
    "train={ema_decay: 0.9, zero_stage: 3}": "'train.ema_decay' is set but 'train.zero_stage' is 3, where no process"
    " has whole weights to average; set it to null, or use zero_stage 2 or lower",
    "stages.a.sft={thought_dropout: 0.5}": "'stages.0.sft' is set but 'stages.0.kind' is 'grpo'; remove it, or set the"
    " kind to sft",
    "cache.max_local_gb=5": "'cache.max_local_gb' is what the folder keeps of 'cache.remote', which is not set; set it,"
    " or keep the folder small with `mmrl cache prune`",
    "stages.a.early_stop={patience: 2}": "'stages.0.early_stop' is set but the stage is not validated while it runs;"
    " set 'validation.every' and list held-out rows in 'data.val'",
}


@pytest.fixture(autouse=True)
def in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("r.py").write_text("")


def load(text: str, *overrides: str):
    Path("a.yaml").write_text(text)
    return load_config(Path("a.yaml"), overrides)


def test_the_base_case_is_sound_and_best_is_off_without_validation_data():
    assert load(RUN).checkpoint.best is None
    assert load(RUN, "data.val=[{path: v.jsonl}]").checkpoint.best == "val/mean"


@pytest.mark.parametrize("override", CASES)
def test_contradiction_names_the_keys_and_the_remedy(override):
    text = HEAD if override.startswith("data.mixture") else RUN
    with pytest.raises(ConfigError) as error:
        load(text, override)
    located = str(error.value).splitlines()[0]
    assert located.startswith((f"override {override!r}: ", "a.yaml:"))
    assert f": {CASES[override].format(cwd=Path.cwd())}" in located


def test_problems_are_collected_and_located_by_line():
    text = RUN.replace("x.jsonl}", "x.jsonl}, {path: d/x.jsonl}") + (
        "- name: a\n  kind: sft\n  prompts_per_step: 4\n  steps: 1\n  warmup_steps: 2\n  data: {}\n"
    )
    with pytest.raises(ConfigError) as error:
        load(text)
    assert str(error.value).splitlines() == [
        "a.yaml:2: two datasets of 'data.train' are called 'x'; give one of them another 'data.train.1.name'",
        "a.yaml:6: two stages of 'stages' are called 'a'; rename 'stages.1.name'",
        "a.yaml:10: 'stages.1.warmup_steps' (2) is above 'stages.1.steps' (1); the rate would never be reached,"
        " lower warmup_steps",
        "a.yaml:6: stage 'a' has no data: neither 'stages.1.data.train' nor 'data.train' lists a dataset; add one",
    ]


def test_without_a_grpo_stage_a_group_of_one_is_fine():
    assert load(HEAD, "rollout.group_size=1").rollout.group_size == 1


def test_a_plug_in_with_an_advantage_of_its_own_may_have_groups_of_one():
    assert load(RUN, "rollout.group_size=1", "algorithm.plugins=[spo]").rollout.group_size == 1
    with pytest.raises(ConfigError, match=r"'rollout.group_size' is 1 but"):
        load(RUN, "rollout.group_size=1", "algorithm.plugins=[rlcr]")


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".", "-x"])
def test_a_name_that_is_no_plain_folder_name_is_refused(name):
    with pytest.raises(ConfigError, match="key 'name' may hold only letters, digits"):
        load(HEAD, f"name='{name}'")


@pytest.mark.parametrize("override", ["train.betas=[0.9, 1.0]", "stages.0.lr=.inf"])
def test_numbers_no_optimizer_takes_are_refused(override):
    with pytest.raises(ConfigError, match="should be"):
        load(RUN, override)
