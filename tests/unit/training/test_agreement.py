"""Distance of trainer and sampler: exact numbers on made batches, and runs that warn or stop."""

import dataclasses
import json
import math
from pathlib import Path

import pytest
import torch
from makers.tiny_run import write_run

from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.load import load_config
from mmrl.config.schema import RolloutSection
from mmrl.errors import ConfigError, EngineError
from mmrl.training.agreement import GapMeter, gap_problem
from mmrl.training.run import train

STAGES = [{"name": "rl", "kind": "grpo", "steps": 2, "prompts_per_step": 2, "lr": 1e-3}]


def batch(sampler: list[list[float]], lengths: list[int]) -> RolloutBatch:
    count, width = len(sampler), len(sampler[0])
    return RolloutBatch(
        prompt_id=tuple(f"d/{n}" for n in range(count)),
        gid_N=torch.zeros(count, dtype=torch.long),
        ids_NC=torch.arange(10, 10 + count * width).reshape(count, width),
        mask_NC=torch.arange(width) < torch.tensor(lengths)[:, None],
        rollout_NC=torch.tensor(sampler),
        rewards_NK=torch.zeros(count, 1),
        reward_names=("r",),
        weights_NK=torch.ones(1),
        truncated_N=torch.zeros(count, dtype=torch.bool),
    )


def test_mean_and_maximum_are_over_the_completion_tokens_of_all_micro_batches():
    meter = GapMeter(RolloutSection())
    meter.add(torch.tensor([[-1.0, -2.0], [-1.0, -9.0]]), batch([[-1.5, -2.25], [-1.0, 0.0]], [2, 1]))
    meter.add(torch.tensor([[-3.0, -1.0]]), batch([[-3.0, 0.0]], [2]))
    metrics, worst = meter.take()
    assert metrics == {"policy/rollout_gap": 1.75 / 5, "policy/rollout_gap_max": 1.0}
    assert (
        str(worst) == "d/0: completion token 1 (id 11): log-prob -1.0000 by the trainer, 0.0000 by the sampler, 1 apart"
    )
    assert meter.take() == ({}, None)


@pytest.mark.parametrize("filters", [{"top_k": 5}, {"top_p": 0.9}, {"min_p": 0.1}])
def test_with_filters_the_distance_has_another_name(filters):
    meter = GapMeter(RolloutSection(**filters))
    meter.add(torch.tensor([[-1.0]]), batch([[-0.5]], [1]))
    assert meter.take()[0] == {"policy/filtered_gap": 0.5, "policy/filtered_gap_max": 0.5}


def test_rows_of_an_earlier_policy_and_empty_completions_do_not_count():
    meter = GapMeter(RolloutSection())
    rows = dataclasses.replace(batch([[-0.5], [-5.0], [-7.0]], [1, 1, 0]), kind=("fresh", "replay", "fresh"))
    meter.add(torch.tensor([[-1.0], [-1.0], [-1.0]]), rows)
    assert meter.take()[0] == {"policy/rollout_gap": 0.5, "policy/rollout_gap_max": 0.5}


def test_rows_that_were_sampled_ahead_do_not_count():
    """The policy has version 5; a row of version 4 differs because the policy moved."""
    meter = GapMeter(RolloutSection())
    rows = dataclasses.replace(batch([[-0.5], [-5.0]], [1, 1]), version_N=torch.tensor([5, 4]), policy_version=5)
    meter.add(torch.tensor([[-1.0], [-1.0]]), rows)
    assert meter.take()[0] == {"policy/rollout_gap": 0.5, "policy/rollout_gap_max": 0.5}


def test_not_a_number_is_the_worst_and_never_within_a_limit():
    meter = GapMeter(RolloutSection())
    meter.add(torch.tensor([[-1.0, math.nan]]), batch([[-9.0, -1.0]], [2]))
    meter.add(torch.tensor([[-1.0]]), batch([[-99.0]], [1]))
    _, worst = meter.take()
    assert (worst.token, math.isnan(worst.size)) == (1, True)
    assert gap_problem(worst, RolloutSection()) is None
    limited = RolloutSection(max_logprob_gap=1000.0)
    assert "more than rollout.max_logprob_gap (1000); look at both by tools/compare_logprobs.py" in gap_problem(
        worst, limited
    )


def rows_of(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "runs" / "tiny" / "metrics.jsonl").read_text().splitlines()]


def test_a_run_reports_both_and_warns_once_with_the_worst_sample(tmp_path, capsys):
    path = write_run(tmp_path, stages=STAGES)
    overrides = ["data.val=[]", "log.console=true", "rollout.max_logprob_gap=1e-12"]
    assert train(load_config(path, overrides)) == 0
    rows = rows_of(tmp_path)
    assert all(0 < row["policy/rollout_gap"] < row["policy/rollout_gap_max"] < 1e-5 for row in rows)
    [line] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("warning:")]
    assert line.startswith("warning: step 1 of stage 'rl': train/")
    assert "by the trainer" in line and "more than rollout.max_logprob_gap (1e-12)" in line


def test_a_run_may_stop_at_the_step(tmp_path):
    path = write_run(tmp_path, stages=STAGES)
    config = load_config(path, ["data.val=[]", "rollout.max_logprob_gap=1e-12", "rollout.on_logprob_gap=error"])
    with pytest.raises(EngineError, match=r"^step 1 of stage 'rl': train/.* apart, more than rollout.max_logprob_gap"):
        train(config)
    assert rows_of(tmp_path) == []


def test_a_limit_beside_filters_is_refused_with_its_line(tmp_path):
    path = write_run(tmp_path, stages=STAGES, rollout={"top_p": 0.9, "min_p": 0.1, "max_logprob_gap": 0.1})
    with pytest.raises(ConfigError) as refused:
        load_config(path)
    assert "'rollout.max_logprob_gap' is 0.1 beside 'rollout.top_p' and 'rollout.min_p'" in str(refused.value)
