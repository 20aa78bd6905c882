"""Each recipe of configs/stages trains two steps a stage on a tiny model."""

import json
import math
from pathlib import Path

import pytest
from makers.rows import write_jsonl
from makers.tiny_models import tiny_model_dir

from mmrl.config.load import load_config
from mmrl.config.schema import RunConfig
from mmrl.data.rollout_roles import ROW_MAKERS
from mmrl.plugins import check_options, shipped_dir
from mmrl.training.run import train

RECIPES = sorted((shipped_dir("configs") / "stages").glob("*.yaml"))
SMALL = (
    *("model.dtype=float32", "model.gradient_checkpointing=false", "model.lora=null", "rollout.engine=hf"),
    *("rollout.group_size=4", "rollout.max_new_tokens=6", "rewards.workers=0", "train.micro_batch_tokens=4096"),
    *("data.decode_workers=1", "data.val=[]", "data.user_template=null", "validation.before_first=false"),
    *("checkpoint.best=null", "log.console=false", "log.trackers=[]"),
)


# What a trained model would have said of a prompt: a random one never ends a completion, or writes a tag.
MAKERS = """
from dataclasses import replace

from mmrl.data.rollout_roles import ROW_MAKERS


def rows(group, chance, *, kind, **options):
    size = len(group.texts)
    said = tuple(f"<question>{n} {text}?</question><answer>{n}</answer>" for n, text in enumerate(group.texts))
    right, formed = tuple(n % 2 for n in range(size)), tuple(n // 2 % 2 for n in range(size))
    return ROW_MAKERS[kind](replace(group, texts=said, scores=right, forms=formed, cut=(0,) * size), chance, **options)
"""


def rows_of(name: str) -> list[dict]:
    """Rows of the form that the recipe's card reads."""
    if name == "dpo":
        return [{"prompt": f"q{n}", "chosen": "good", "rejected": f"bad {n}"} for n in range(6)]
    task = "ask" if name == "spell" else "multiple choice"
    more = {"demonstration": "<think>so</think><answer>a</answer>"} if name == "ton" else {}
    return [{"problem": f"q{n}", "answer": "a", "problem_type": task, **more} for n in range(6)]


def small(path: Path, folder: Path) -> RunConfig:
    """A recipe as it is, but for model, rows and size, and the completions of its sample stages."""
    own = [f"model.path={tiny_model_dir('qwen2_5_vl')}", f"out_dir={folder / 'runs'}", f"cache.dir={folder / 'cache'}"]
    own.append(f"data.train.0.path={write_jsonl(folder / f'{path.stem}.jsonl', rows_of(path.stem))}")
    (folder / "makers.py").write_text(MAKERS)
    for number, stage in enumerate(load_config(path).stages):
        key = f"stages.{number}"
        own += [f"{key}.steps=2", f"{key}.warmup_steps=0", f"{key}.lr=1e-3", f"{key}.prompts_per_step=4"]
        if stage.kind == "sample":
            sample = {"rows": f"{folder / 'makers.py'}:rows", "n": 8}
            sample["options"] = {**stage.sample.options, "kind": stage.sample.rows}
            own.append(f"{key}.sample={json.dumps(sample)}")
    return load_config(path, [*own, *SMALL])


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_two_steps_a_stage(path: Path, tmp_path: Path):
    config = small(path, tmp_path)
    assert config.name == path.stem
    assert train(config) == 0
    lines = (tmp_path / "runs" / config.name / "metrics.jsonl").read_text().splitlines()
    steps = [row for row in map(json.loads, lines) if "lr" in row]
    assert [row["stage"] for row in steps] == [stage.name for stage in config.stages for _ in range(2)]
    numbers = [value for row in steps for value in row.values() if isinstance(value, float)]
    assert all(math.isfinite(value) for value in numbers)
    assert all(row["sample/rows"] > 0 for row in steps if "sample/rows" in row)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_the_options_are_those_of_the_makers(path: Path):
    for stage in load_config(path).stages:
        if stage.kind == "sample":
            check_options(ROW_MAKERS[stage.sample.rows], stage.sample.options, where=path.name, skip=2)
