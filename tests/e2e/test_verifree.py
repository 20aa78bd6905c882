"""A run by VeriFree on the tiny model: thoughts are cut, references forced behind them, and both learnt from."""

import json

import pytest
import torch
from makers.batches import make_batch
from makers.rows import write_jsonl
from makers.tiny_models import tiny_model_dir
from makers.vlm import tiny_vlm

from mmrl.config.load import load_config
from mmrl.plugins import shipped_dir
from mmrl.training.run import train
from mmrl.training.second_round import SecondRound

SMALL = (
    *("model.dtype=float32", "model.gradient_checkpointing=false", "model.lora=null", "rollout.engine=hf"),
    *("rollout.group_size=4", "rollout.max_new_tokens=24", "rewards.workers=0", "stages.0.steps=2"),
    *("stages.0.warmup_steps=0", "stages.0.prompts_per_step=4", "log.console=false", "rollout.steps_ahead=0"),
    *("train.micro_batch_tokens=4096", "data.decode_workers=1", "data.val=[]", "data.user_template=null"),
    *("validation.before_first=false", "checkpoint.best=null", "log.trackers=[]"),
)


def test_references_are_forced_and_learnt(tmp_path):
    """Any e ends a thought, since a random model writes no tags. All rewards are equal: only p can make a spread."""
    (tmp_path / "reward.py").write_text("def score(completion, sample):\n    return 0.5\n")
    rows = [{"problem": f"q{n}", "answer": "a", "problem_type": "multiple choice"} for n in range(4)]
    options = {"verifree": {"mark": "e", "close": ""}}
    config = load_config(
        shipped_dir("configs") / "methods" / "verifree.yaml",
        [
            *(f"model.path={tiny_model_dir('qwen2_5_vl')}", f"out_dir={tmp_path / 'runs'}"),
            *(f"cache.dir={tmp_path / 'cache'}", f"data.train.0.path={write_jsonl(tmp_path / 'rows.jsonl', rows)}"),
            f"rewards.tasks.multiple choice={json.dumps([{'reward': f'{tmp_path}/reward.py:score'}])}",
            *(f"algorithm.plugin_options={json.dumps(options)}", *SMALL),
        ],
    )
    assert train(config) == 0
    lines = (tmp_path / "runs" / "verifree" / "metrics.jsonl").read_text().splitlines()
    steps = [row for row in map(json.loads, lines) if "lr" in row]
    assert len(steps) == 2
    for row in steps:
        assert row["policy/verifree"] > 0 and row["grad_norm"] > 0
        assert 0 < row["reward_shaped/mean"] < 0.5
        assert row["groups/reward_std"] > 0


@pytest.mark.parametrize(
    ("text", "mark", "kept"),
    [("so it is <answer>7</answer>", "<answer>", "so it is <answer>"), ("a b a c", "a", "a b a"), ("none", "#", None)],
)
def test_a_completion_up_to_a_mark(text, mark, kept):
    vlm = tiny_vlm("qwen2_5_vl")
    ids = vlm.processor.encode_text(text)
    batch = make_batch([len(ids)])
    batch.ids_NC[0] = torch.tensor(ids)
    run = type("Run", (), {"processor": vlm.processor})()
    given = SecondRound(run, None, [], seed=(0, 0), progress=0.0, to_batch=None)  # type: ignore
    found = given.until(batch, 0, mark)
    assert (None if found is None else vlm.processor.decode(found, skip_special_tokens=True)) == kept
    if found is not None:
        shared = min(len(found), len(ids)) - 1
        assert found[: shared - 1] == ids[: shared - 1]
    assert given.encode("7", ends=True) == [*vlm.processor.encode_text("7"), vlm.processor.eos_ids[0]]
