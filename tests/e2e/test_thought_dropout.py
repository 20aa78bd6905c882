"""Thought dropout in an sft stage: which targets are learnt, and that a share of 0 is the plain stage."""

from pathlib import Path

import yaml
from makers.rows import text_rows, write_jsonl
from makers.tiny_run import write_run

from mmrl.config.load import load_config
from mmrl.data.thoughts import is_dropped
from mmrl.training.run import train
from mmrl.training.sft import SftStage

DEMONSTRATION = "<think>why {0}</think><answer>{0}</answer>"


def targets_of(folder: Path, monkeypatch, share: float) -> dict[str, str]:
    """What one pass over eight rows learns, by the row's id."""
    stages = [{"name": "sft", "kind": "sft", "steps": 2, "prompts_per_step": 4, "lr": 1e-3}]
    path = write_run(folder, stages=[{**stages[0], "sft": {"thought_dropout": share}}])
    rows = text_rows(8, task="t")
    for number, row in enumerate(rows):
        row["demonstration"] = DEMONSTRATION.format(number)
    tree = yaml.safe_load(path.read_text())
    tree["data"] = {"train": [{"path": str(write_jsonl(folder / "rows.jsonl", rows)), "name": "d"}]}
    path.write_text(yaml.safe_dump(tree))
    found: dict[str, str] = {}
    own = SftStage._target_ids

    def watched(self, item):
        ids = own(self, item)
        found[item.sample.prompt_id] = self.run.processor.decode(ids[:-1])
        return ids

    monkeypatch.setattr(SftStage, "_target_ids", watched)
    plain = ("checkpoint.best=null", "validation.before_first=false", "rollout.max_new_tokens=4")
    assert train(load_config(path, list(plain))) == 0
    monkeypatch.undo()
    return found


def test_the_thoughts_of_chosen_rows_are_learnt_empty(tmp_path: Path, monkeypatch):
    whole = targets_of(tmp_path / "whole", monkeypatch, 0.0)
    assert sorted(whole.values()) == [DEMONSTRATION.format(number) for number in range(8)]
    half = targets_of(tmp_path / "half", monkeypatch, 0.5)
    assert half.keys() == whole.keys()
    empty = {
        name for name, text in half.items() if text == f"<think>\n\n</think>{whole[name].partition('</think>')[2]}"
    }
    assert empty == {name for name in whole if is_dropped(f"0/sft/{name}", share=0.5)}
    assert 0 < len(empty) < 8
    assert all(half[name] == whole[name] for name in whole.keys() - empty)
