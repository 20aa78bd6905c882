"""Completions of earlier visits as drafts, in real runs: a policy that stands still is not sampled again."""

import json
from pathlib import Path

import pytest
from makers.in_processes import run_jobs
from makers.rows import write_jsonl
from makers.tiny_models import tiny_model_dir
from makers.tiny_run import write_run

from mmrl.config.load import load_config
from mmrl.plugins import shipped_dir
from mmrl.training.run import train

REWARD_FILE = """
def score(completion, sample):
    return sum(c.islower() for c in completion) / max(1, len(completion))
"""
SMALL = (
    *("model.dtype=float32", "model.gradient_checkpointing=false", "model.lora=null", "rollout.engine=hf"),
    *("rollout.group_size=4", "rollout.max_new_tokens=6", "rewards.workers=0", "stages.0.steps=3"),
    *("stages.0.warmup_steps=0", "stages.0.prompts_per_step=4", "log.rollouts_per_step=4", "log.console=false"),
    *("train.micro_batch_tokens=4096", "data.decode_workers=1", "data.val=[]", "data.user_template=null"),
    *("validation.before_first=false", "checkpoint.best=null", "log.trackers=[]"),
)


def trained(folder: Path, *more: str) -> tuple[list[dict], list[list[tuple[str, str]]]]:
    """Metrics of each step, and (prompt, first completion) of each step's prompts, sorted."""
    (folder / "reward.py").write_text(REWARD_FILE)
    rows = [{"problem": f"q{n}", "answer": "a", "problem_type": "multiple choice"} for n in range(4)]
    part = {"reward": f"{folder / 'reward.py'}:score"}
    config = load_config(
        shipped_dir("configs") / "methods" / "spec_rl.yaml",
        [
            *(f"model.path={tiny_model_dir('qwen2_5_vl')}", f"out_dir={folder / 'runs'}"),
            *(f"cache.dir={folder / 'cache'}", f"data.train.0.path={write_jsonl(folder / 'rows.jsonl', rows)}"),
            *(f"rewards.tasks.multiple choice={json.dumps([part])}", *SMALL, *more),
        ],
    )
    assert train(config) == 0
    run = folder / "runs" / config.name
    steps = [row for row in map(json.loads, (run / "metrics.jsonl").read_text().splitlines()) if "lr" in row]
    said = [json.loads(line) for line in (run / "rollouts.jsonl").read_text().splitlines()]
    texts = [(row["sample_id"], row["completion"]) for row in said if row["split"] == "train"]
    return steps, [sorted(texts[n : n + 4]) for n in range(0, len(texts), 4)]


@pytest.mark.parametrize("official", [True, False])
def test_a_policy_that_stands_still_keeps_every_token_that_is_remembered(tmp_path: Path, official: bool):
    """At a low temperature the eight most likely tokens are nearly all there is; drafts are exact to rounding."""
    options = json.dumps({"lenience": 1.5, "official": official, "floor": 0.0})
    more = [f"algorithm.plugin_options.spec_rl={options}", "stages.0.lr=1e-30", "rollout.temperature=0.004"]
    steps, texts = trained(tmp_path, *more)
    assert [row["spec_rl/kept_share"] for row in steps] == [0.0, 1.0, 1.0]
    assert steps[1]["spec_rl/whole_share"] == 1.0
    assert steps[1]["spec_rl/saved_tokens"] == steps[0]["tokens"] > 16
    assert texts[0] == texts[1] == texts[2]


def test_a_policy_that_moves_keeps_a_part(tmp_path: Path):
    more = ["stages.0.lr=1e-4", "rollout.temperature=0.05", 'algorithm.plugin_options.spec_rl={"lenience": 1.0}']
    steps, texts = trained(tmp_path, *more)
    assert 0.0 < steps[1]["spec_rl/kept_share"] < 1.0
    assert texts[0] != texts[1]
    assert all(row["policy/rollout_gap"] < 1e-4 for row in steps)  # log-probs are those of the present policy


def test_two_processes_reuse_as_one(tmp_path: Path):
    """Four prompts a step of nine: a prompt's drafts are those of whichever process had it last."""
    stage = {"name": "rl", "kind": "grpo", "steps": 5, "prompts_per_step": 4, "lr": 1e-4}
    algorithm = {"plugins": ["spec_rl"], "plugin_options": {"spec_rl": {"lenience": 1.0}}}
    rollout = {"group_size": 3, "max_new_tokens": 4, "temperature": 0.05}
    path = write_run(tmp_path, stages=[stage], algorithm=algorithm, rollout=rollout)
    options = ["train.eps=1e-2", "data.val=[]"]
    assert train(load_config(path, [*options, "name=one"])) == 0
    jobs = [{"name": "two", "train": [str(path), *options, "name=two"]}]
    assert run_jobs(tmp_path, jobs, processes=2)["two"] == 0
    one, two = (
        [json.loads(line) for line in (tmp_path / "runs" / name / "metrics.jsonl").read_text().splitlines()]
        for name in ("one", "two")
    )
    keys = ("spec_rl/saved_tokens", "spec_rl/kept_share", "spec_rl/whole_share", "reward/mean", "grad_norm")
    for mine, theirs in zip(one, two, strict=True):
        assert {key: theirs[key] for key in keys} == pytest.approx({key: mine[key] for key in keys}, rel=1e-3)
    assert one[-1]["spec_rl/saved_tokens"] > 0
