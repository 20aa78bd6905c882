import io

from rich.console import Console

from mmrl.training.console import TrainConsole, score_table, status_line


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


def console(monkeypatch, capsys):
    """A console without a terminal, a clock that the test sets, and what was printed."""
    clock = [0.0]
    monkeypatch.setattr("mmrl.training.console.time.monotonic", lambda: clock[0])
    return TrainConsole(enabled=True), clock, lambda: capsys.readouterr().out.splitlines()


def test_progress_lines_at_the_first_step_the_last_and_every_ten_seconds(monkeypatch, capsys):
    shown, clock, printed = console(monkeypatch, capsys)
    shown.start_stage("rl", done=2, total=10)
    for done, seconds in ((3, 3), (4, 6), (5, 13), (6, 14), (10, 20)):
        clock[0] = float(seconds)
        shown.step(done, {"reward/mean": 0.5})
    shown.end_stage()
    assert printed() == [
        "rl 3/10  reward 0.500  elapsed 3 s, left about 21 s",
        "rl 5/10  reward 0.500  elapsed 13 s, left about 22 s",
        "rl 10/10  reward 0.500  elapsed 20 s",
    ]


def test_a_stage_that_ends_early_shows_its_last_step(monkeypatch, capsys):
    shown, _, printed = console(monkeypatch, capsys)
    shown.start_stage("rl", done=0, total=10)
    shown.step(1, {})
    shown.step(2, {})
    shown.end_stage()
    assert [line.split("  ")[0] for line in printed()] == ["rl 1/10", "rl 2/10"]


def test_unscored_completions_of_a_validation_are_said(monkeypatch, capsys):
    shown, _, printed = console(monkeypatch, capsys)
    shown.validation(3, {"val/task/a": 0.5, "val/mean": 0.5, "val/unscored": 0.25}, [])
    assert printed() == ["held-out score at step 3: 0.500  (a 0.500); 25 % of the completions got no score"]


def test_status_line_shows_only_what_was_measured():
    assert status_line({"reward/mean": 0.51234, "perf/seconds_step": 1.5, "lr": 1e-3}) == "reward 0.512  s/step 1.500"
    assert status_line({"reward/mean": 0.5, "reward_shaped/mean": 0.25, "loss/total": 1.0}) == (
        "reward 0.500  shaped 0.250  loss 1.000"
    )


def test_a_run_begins_with_its_hooks_and_what_is_odd(monkeypatch, capsys):
    shown, _, printed = console(monkeypatch, capsys)
    shown.opening(["seed 0 -> 1"], ["task x is idle"], ["advantage: gae", "policy_loss: ppo_clip"])
    assert printed() == [
        "hooks of a step: advantage: gae; policy_loss: ppo_clip",
        "changed since this run was started: seed 0 -> 1",
        "note: task x is idle",
    ]
    shown.opening([], [], [])
    assert printed() == []
