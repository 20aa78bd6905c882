"""Hints in a real run: a group that fails gets an answer to its hinted prompt, and learns from it with that prompt."""

import json
from pathlib import Path

from makers.rows import write_jsonl
from makers.tiny_models import tiny_model_dir

from mmrl.config.load import load_config
from mmrl.plugins import shipped_dir
from mmrl.training.run import train

REWARD_FILE = """
def score(completion, sample):
    return float(sample.sample_id.endswith("~hint2"))
"""
SMALL = (
    *("model.dtype=float32", "model.gradient_checkpointing=false", "model.lora=null", "rollout.engine=hf"),
    *("rollout.group_size=4", "rollout.max_new_tokens=6", "rewards.workers=0", "stages.0.steps=2"),
    *("stages.0.warmup_steps=0", "stages.0.lr=1e-3", "stages.0.prompts_per_step=2", "rollout.steps_ahead=0"),
    *("train.micro_batch_tokens=4096", "data.decode_workers=1", "data.val=[]", "data.user_template=null"),
    *("validation.before_first=false", "checkpoint.best=null", "log.console=false", "log.trackers=[]"),
)


def test_the_second_hint_helps_and_its_answer_is_trained_on(tmp_path: Path):
    (tmp_path / "reward.py").write_text(REWARD_FILE)
    rows = [
        {"problem": f"q{n}", "answer": "a", "problem_type": "multiple choice", "hints": ["plan", "solve it so"]}
        for n in range(4)
    ]
    part = {"reward": f"{tmp_path / 'reward.py'}:score"}
    own = [
        *(f"model.path={tiny_model_dir('qwen2_5_vl')}", f"out_dir={tmp_path / 'runs'}"),
        *(f"cache.dir={tmp_path / 'cache'}", f"data.train.0.path={write_jsonl(tmp_path / 'rows.jsonl', rows)}"),
        *(f"rewards.tasks.multiple choice={json.dumps([part])}", 'algorithm.plugin_options.scaf_grpo={"start": 0.0}'),
    ]
    config = load_config(shipped_dir("configs") / "methods" / "scaf_grpo.yaml", [*own, *SMALL])
    assert train(config) == 0
    lines = (tmp_path / "runs" / config.name / "metrics.jsonl").read_text().splitlines()
    steps = [row for row in map(json.loads, lines) if "lr" in row]
    assert [(row["scaf_grpo/helped"], row["scaf_grpo/level"]) for row in steps] == [(2.0, 2.0)] * 2
    assert all(row["reward/mean"] == 0 and row["groups/zero_std"] == 0 and row["grad_norm"] > 0 for row in steps)
    assert all(row["policy/rollout_gap"] < 1e-4 for row in steps)  # each row's log-probs are those of its own prompt
