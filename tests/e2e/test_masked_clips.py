"""Prompts of a training whose clips a plug-in changes: sampled and trained on so, and as they are at the end."""

from pathlib import Path

import yaml
from makers.configs import media_rows
from makers.rows import write_jsonl
from makers.tiny_run import CARD, write_run

from mmrl.config.load import load_config
from mmrl.training import grpo
from mmrl.training.run import train

STAGES = [{"name": "rl", "kind": "grpo", "steps": 4, "prompts_per_step": 2, "lr": 1e-3}]


def black_frames(prompt) -> int:
    [entry] = prompt.media
    return sum(not frame.any() for frame in entry.frames_F3HW)


def test_hard_clips_are_masked_at_first(tmp_path: Path, monkeypatch):
    path = write_run(tmp_path, stages=STAGES, algorithm={"plugins": ["video_tg"]})
    clips = [row for row in media_rows(tmp_path, images=0, clips=2) if row.get("videos")]
    rows = [{**row, "span": [0.0, 0.01], "mean_score": 0.0} for row in clips]
    tree = yaml.safe_load(path.read_text())
    tree["data"] = {"train": [{"path": str(write_jsonl(tmp_path / "clips.jsonl", rows)), "card": CARD}]}
    options = {"interval": "span", "mask": 1.0, "relaxed_at": 0.75}
    tree["algorithm"] = {"plugins": ["video_tg"], "plugin_options": {"video_tg": options}}
    path.write_text(yaml.safe_dump(tree))
    trained: list[list[int]] = []
    update = grpo.GrpoStage._update

    def watched(self, batch, prompts):
        trained.append([black_frames(prompt) for prompt in prompts.values()])
        return update(self, batch, prompts)

    monkeypatch.setattr(grpo.GrpoStage, "_update", watched)
    config = load_config(path, ["checkpoint.best=null"])
    assert train(config) == 0
    assert [min(step) > 0 for step in trained] == [True, True, True, False]
    assert all(a >= b for a, b in zip(trained[0], trained[2], strict=True)) and trained[0] != trained[2]
    assert trained[3] == [0, 0]
