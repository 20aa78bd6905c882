import io
from pathlib import Path

from rich.console import Console

from mmrl.training.console import closing_lines, score_table, status_line


def shown(renderable) -> str:
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(renderable)
    return console.export_text()


def test_score_table_shows_every_task_and_what_the_last_stage_brought():
    before = {"val/task/box": 0.3, "val/task/quadrant": 0.4, "val/mean": 0.35}
    after = {"val/task/box": 0.8, "val/task/quadrant": 0.6, "val/mean": 0.7}
    text = shown(score_table([("warmup 3", before), ("rl 3", after)]))
    assert [line.split() for line in text.splitlines() if "0." in line] == [
        ["box", "│", "0.300", "│", "0.800", "│", "+0.500"],
        ["quadrant", "│", "0.400", "│", "0.600", "│", "+0.200"],
        ["mean", "│", "0.350", "│", "0.700", "│", "+0.350"],
    ]


def test_a_single_validation_has_no_change():
    assert "+" not in shown(score_table([("start", {"val/task/a": 0.5, "val/mean": 0.5})])).replace("─┼", "")


def test_closing_lines_say_where_things_are():
    text = closing_lines(
        folder=Path("runs/x"),
        checkpoint=Path("runs/x/checkpoints/step-000009"),
        cache={"hits": 24200, "misses": 3},
        seconds={"step": 20.0, "update": 12.4, "rollout": 30.2},
    )
    assert text.splitlines()[:4] == [
        "cache: 24200 hits, 3 misses",
        "seconds: rollout 30, update 12",
        "run folder: runs/x",
        "checkpoint: runs/x/checkpoints/step-000009/model (loads with transformers' from_pretrained)",
    ]


def test_status_line_shows_only_what_was_measured():
    assert status_line({"reward/mean": 0.51234, "perf/seconds_step": 1.5, "lr": 1e-3}) == "reward 0.512  s/step 1.500"
