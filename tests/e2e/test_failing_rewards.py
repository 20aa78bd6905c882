"""Rewards that fail: said with the first sample, counted, and the end of a run that nothing could be learnt from."""

from makers.command import mmrl
from makers.tiny_run import write_run

RL = [{"name": "rl", "kind": "grpo", "steps": 2, "prompts_per_step": 4, "lr": 1e-3}]
ONLY_RL = ("data.val=[]", "log.console=true")
FAILURES = """
def always(completion, sample):
    raise ValueError("no\\ngold")

def nan(completion, sample):
    return float("nan")

def pictures(completion, sample):
    if sample.modality == "image":
        raise ValueError("no\\ngold")
    return float(len(completion))
"""


def reward(folder, name):
    (folder / "failing.py").write_text(FAILURES)
    return f"rewards.tasks.t=[{{reward: '{folder}/failing.py:{name}'}}]"


def test_a_step_without_any_score_stops_the_run_and_names_the_reward(tmp_path):
    config = write_run(tmp_path, stages=RL)
    for name, event in (("always", "raised: ValueError: no\\ngold"), ("nan", "not_finite: returned nan")):
        said = mmrl("train", config, *ONLY_RL, reward(tmp_path, name), f"name={name}")
        assert said.code == 2
        line = said.line_with("error: ")
        assert "step 1 of stage 'rl': no completion could be scored: " in line
        assert "train.jsonl:" in line and f"task 't', reward '{name}': {event}" in line


def test_some_failures_are_warned_of_once_and_counted_at_the_end(tmp_path):
    config = write_run(tmp_path, stages=RL)
    said = mmrl("train", config, *ONLY_RL, reward(tmp_path, "pictures"))
    assert said.code == 0, said.err
    warning = said.line_with("warning: ")
    assert "task 't', reward 'pictures': raised: ValueError: no\\ngold" in warning and "train.jsonl:" in warning
    assert "% of the completions got no reward" in said.line_with("unscored: ")
    assert "mmrl score" in said.line_with("rollouts.jsonl")
