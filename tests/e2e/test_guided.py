"""Methods that change prompts or force tokens, in real runs over pictures and clips."""

import json
from pathlib import Path

import pytest
import yaml
from makers.tiny_run import write_run

from mmrl.config.load import load_config
from mmrl.training.run import train

GUIDE = {"marks": "darken", "boxes": [[0, 0, 500, 500]], "space": "0..1000"}
# Only answers to marked prompts are right; a wrong group is all the same.
MARKED = 'def score(completion, sample):\n    return float(sample.sample_id.endswith("~guided"))\n'


def trained(folder: Path, algorithm: dict, *, reward: str | None = None, rollout: dict | None = None, **columns):
    """Metrics of two steps, and the first completions of their prompts. columns: of every row."""
    stage = {"name": "rl", "kind": "grpo", "steps": 2, "prompts_per_step": 4, "lr": 1e-3}
    rollout = {"group_size": 4, "max_new_tokens": 12, **(rollout or {})}
    path = write_run(folder, stages=[stage], algorithm=algorithm, rollout=rollout)
    if reward is not None:
        (folder / "reward.py").write_text(reward)
    data = folder / yaml.safe_load(path.read_text())["data"]["train"][0]["path"]
    rows = [{**json.loads(line), **columns} for line in data.read_text().splitlines()]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = load_config(path)
    assert train(config) == 0
    run = folder / "runs" / config.name
    steps = [row for row in map(json.loads, (run / "metrics.jsonl").read_text().splitlines()) if "lr" in row]
    said = [json.loads(line) for line in (run / "rollouts.jsonl").read_text().splitlines()]
    return steps, [row["completion"] for row in said if row["split"] == "train"]


def test_answers_to_marked_prompts_are_imitated(tmp_path: Path):
    algorithm = {
        "plugins": ["vision_coach"],
        "policy_loss": "gspo",
        "aggregation": "seq-mean-token-mean",
        "plugin_options": {"vision_coach": {"hard": 2.0}},
    }
    steps, _ = trained(tmp_path / "with", algorithm, reward=MARKED, guide=GUIDE)
    for row in steps:
        assert row["groups/zero_std"] == 1.0 and row["grad_norm"] > 0  # nothing but the imitation teaches
        assert row["reward/unscored"] == 8 / 24  # two of each group's four more
        assert row["policy/rollout_gap"] < 1e-4
    without, _ = trained(tmp_path / "without", algorithm, reward=MARKED)
    assert [row["grad_norm"] for row in without] == [0.0, 0.0]


def test_answers_go_on_from_another_look(tmp_path: Path):
    options = {"again": 3, "kept": 0.5, "none_is_one": False}
    steps, _ = trained(tmp_path, {"plugins": ["scs"], "plugin_options": {"scs": options}})
    assert all(0.399 < row["scs/bonus"] <= 1.2 for row in steps)  # 4 * .3 / 3 where nothing agrees
    assert all(row["reward_shaped/change/t/scs"] == pytest.approx(row["scs/bonus"]) for row in steps)


def test_a_mode_is_forced_on_half_of_a_group(tmp_path: Path):
    options = {"short_words": "Short: ", "long_words": "Long: "}
    algorithm = {"plugins": ["thinking_modes"], "plugin_options": {"thinking_modes": options}}
    steps, said = trained(tmp_path / "long", algorithm, base_length=300)
    assert all(text.startswith("Long: ") for text in said)  # the first of each group
    assert [row["thinking_modes/long"] for row in steps] == [4.0, 4.0]
    assert all(row["policy/rollout_gap"] < 1e-4 for row in steps)
    _, said = trained(tmp_path / "free", algorithm, base_length=150)
    assert not any(text.startswith(("Long: ", "Short: ")) for text in said)


def test_trees_grow_where_the_sampler_was_unsure(tmp_path: Path):
    """At a low temperature: LATR's branches, DeepSearch's expansions, whole groups of TreeRL."""
    options = {"capacity": 4, "edits": 0.0}
    latr = {"plugins": ["latr"], "plugin_options": {"latr": options}}
    steps, _ = trained(tmp_path / "latr", latr, rollout={"temperature": 0.05})
    assert any(row["latr/branches"] > 0 for row in steps)
    assert all(row["policy/rollout_gap"] < 1e-3 for row in steps)
    search = {"plugins": ["deep_search"], "plugin_options": {"deep_search": {"stretch": 2, "threshold": 9.0}}}
    steps, _ = trained(tmp_path / "search", search)
    grown = {"plugins": ["tree_rl"]}
    more, _ = trained(tmp_path / "tree", grown)
    for row in (*steps, *more):
        assert row["policy/rollout_gap"] < 1e-4 and row["grad_norm"] > 0
