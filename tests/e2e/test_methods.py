"""Each recipe of configs/methods trains two steps on a tiny model, without a judge or an encoder, on rows of text."""

import json
import math
from pathlib import Path

import pytest
from makers.rows import write_jsonl
from makers.tiny_models import tiny_model_dir

from mmrl.algorithms.registry import ADVANTAGES, POLICY_LOSSES
from mmrl.config.load import load_config
from mmrl.config.schema import RunConfig
from mmrl.plugins import shipped_dir, shipped_names
from mmrl.training.run import train

METHODS = sorted((shipped_dir("configs") / "methods").glob("*.yaml"))
TASK = "multiple choice"
# A reward that a random model gets sometimes, so that groups have a spread.
REWARD_FILE = """
def score(completion, sample):
    return sum(c.islower() for c in completion) / max(1, len(completion))
"""
LISTS = {"expert_steps": ["a", "b"]}  # columns that are no number
UNREACHABLE = ("confidence",)  # measurements of what a random model never writes
# What a method waits for, where a random model never writes it.
WRITTEN = {
    "spell": ('algorithm.plugin_options.spell={"answer_task": "multiple choice", "pattern": "(.)(.)", "verdicts": 2}',),
    "verifree": (
        "rollout.max_new_tokens=24",
        'algorithm.plugin_options={"verifree": {"mark": "e", "close": ""}}',
    ),
}
SMALL = (
    *("model.dtype=float32", "model.gradient_checkpointing=false", "model.lora=null", "rollout.engine=hf"),
    "rollout.steps_ahead=0",
    *("rollout.group_size=4", "rollout.max_new_tokens=6", "rewards.workers=0", "algorithm.aggregation_length=null"),
    *("stages.0.steps=2", "stages.0.warmup_steps=0", "stages.0.lr=1e-3", "stages.0.prompts_per_step=4"),
    *("train.micro_batch_tokens=4096", "data.decode_workers=1", "data.val=[]", "data.user_template=null"),
    *("validation.before_first=false", "checkpoint.best=null", "log.console=false", "log.trackers=[]"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("methods")
    (folder / "reward.py").write_text(REWARD_FILE)
    return folder


def columns_of(config: RunConfig) -> set[str]:
    """Columns that a recipe's measurements read from the row."""
    return {part.options["column"] for part in config.rewards.tasks[TASK] if "column" in part.options}


def small(path: Path, folder: Path) -> RunConfig:
    """A recipe as it is, but for the model, its rows, its size, and rewards that ask a model or that chance never gets.

    The first part of its task is the outcome.
    """
    shipped = load_config(path)
    columns = {name: LISTS.get(name, 0.4) for name in sorted(columns_of(shipped))}
    rows = [{"problem": f"q{n}", "answer": "a", "problem_type": TASK, **columns} for n in range(6)]
    own = [f"model.path={tiny_model_dir('qwen2_5_vl')}", f"out_dir={folder / 'runs'}", f"cache.dir={folder / 'cache'}"]
    own.append(f"data.train.0.path={write_jsonl(folder / f'{path.stem}.jsonl', rows)}")
    parts = [part.model_dump(mode="json") for part in shipped.rewards.tasks[TASK]]
    for number, part in enumerate(parts):
        if number == 0 or part["reward"] in UNREACHABLE or {"endpoint", "encoder"} & part["options"].keys():
            part |= {"reward": f"{folder / 'reward.py'}:score", "options": {}, "name": part["name"] or part["reward"]}
    own.append(f"rewards.tasks.{TASK}={json.dumps(parts)}")
    if "prime" in shipped.algorithm.plugin_options:
        own.append(f"algorithm.plugin_options.prime.model={tiny_model_dir('qwen2_5_vl')}")
    if shipped.algorithm.overlong_buffer:
        own.append("algorithm.overlong_buffer=4")
    return load_config(path, [*own, *SMALL, *WRITTEN.get(path.stem, ())])


def test_every_method_has_a_recipe():
    used: set[str] = set()
    for path in METHODS:
        algorithm = load_config(path).algorithm
        assert load_config(path).name == path.stem
        used |= {algorithm.advantage, algorithm.policy_loss, *algorithm.plugins}
    assert {*shipped_names("algorithms"), *ADVANTAGES, *POLICY_LOSSES} <= used


@pytest.mark.parametrize("path", METHODS, ids=lambda path: path.stem)
def test_two_steps(path: Path, folder: Path):
    config = small(path, folder)
    assert train(config) == 0
    lines = (folder / "runs" / config.name / "metrics.jsonl").read_text().splitlines()
    steps = [row for row in map(json.loads, lines) if "lr" in row]
    assert [row["step"] for row in steps] == [1, 2]
    assert all(row["reward/unscored"] == 0 for row in steps)
    numbers = [value for row in steps for value in row.values() if isinstance(value, float)]
    assert all(math.isfinite(value) for value in numbers)
    assert any(row["grad_norm"] > 0 for row in steps)
    hooks = " ".join(json.loads((folder / "runs" / config.name / "hooks.json").read_text()))
    assert all(name in hooks for name in config.algorithm.plugins)
