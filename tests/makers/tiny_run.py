"""A complete tiny run on disk: model, pictures, clips, rows and a configuration, small enough for a test."""

from __future__ import annotations

from pathlib import Path

import yaml
from makers.configs import media_rows, write_config
from makers.rows import text_rows, write_jsonl
from makers.tiny_models import Kind, tiny_model_dir

CARD = {"columns": {name: name for name in ("prompt", "answer", "task", "images", "videos", "id")}}
# A reward that a random model gets sometimes: the share of lower-case letters, so that groups have a spread.
REWARD_FILE = """
def score(completion, sample):
    return sum(c.islower() for c in completion) / max(1, len(completion))
"""
STAGES = [
    {"name": "warmup", "kind": "sft", "steps": 3, "prompts_per_step": 4, "lr": 1e-3},
    {"name": "rl", "kind": "grpo", "steps": 3, "prompts_per_step": 4, "lr": 1e-3, "lr_schedule": "linear"},
]


def write_run(folder: Path, *, kind: Kind = "qwen2_5_vl", clips: int = 2, **changes: object) -> Path:
    """config.yaml of an sft and a grpo stage on 5 pictures, 2 clips and 2 texts; changes replace top-level keys."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "reward.py").write_text(REWARD_FILE)
    rows = [*media_rows(folder, images=5, clips=clips), *text_rows(2, task="t")]
    held_out = write_jsonl(folder / "val.jsonl", rows[:6])
    tree = {
        "name": "tiny",
        "out_dir": str(folder / "runs"),
        "rollout": {"group_size": 3, "max_new_tokens": 4},
        "rewards": {
            "workers": 0,
            "tasks": {
                "t": [
                    {"reward": "./reward.py:score", "name": "letters"},
                    {"reward": "format", "weight": 0.1, "is_format": True},
                ]
            },
        },
        "stages": STAGES,
        "checkpoint": {"keep_last": 20},
        "log": {"console": False, "trackers": []},
        **changes,
    }
    path = write_config(folder, rows, **tree)
    written = yaml.safe_load(path.read_text())
    written["data"]["val"] = [{"path": str(held_out), "card": CARD, "name": "held_out"}]
    written["model"] = {"path": str(tiny_model_dir(kind)), "dtype": "float32", "gradient_checkpointing": False}
    path.write_text(yaml.safe_dump(written))
    return path
