"""Progress of several benchmarks, in a log file and in a terminal."""

import io
import re
import time

from makers.evaluation import job_of, question
from rich.console import Console

from mmrl.evaluate.progress import EvaluationProgress, to_ask

NAMES = ("maps", "signs")


def jobs_of(tmp_path, *, answered: int = 0):
    """Two benchmarks of 8 and 4 questions; of the first some were answered before."""
    jobs = [
        job_of(tmp_path, [question(f"{name}{n}", name=name) for n in range(count)], name=name)
        for name, count in zip(NAMES, (8, 4), strict=True)
    ]
    jobs[0].todo = range(answered, 8)
    return jobs


def ask_all(jobs, told, clock, *, seconds: float) -> None:
    """The questions, three of the first for one of the second, each after `seconds`; the second one fails."""
    order = [0, 1, 0, 0] * 4
    for place, number in enumerate(order):
        job = jobs[number]
        if job.done < len(job.todo):
            clock.append(clock[-1] + seconds)
            job.done += 1
            job.failed += place == 1
            told(job)


def told_of(jobs, monkeypatch, *, terminal: bool, seconds: float = 6.0) -> str:
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[-1])
    text = io.StringIO()
    with EvaluationProgress(Console(file=text, width=100, force_terminal=terminal), jobs) as told:
        ask_all(jobs, told, clock, seconds=seconds)
    return text.getvalue()


def test_a_log_has_one_line_for_all_at_most_every_ten_seconds_and_one_for_each_that_ends(tmp_path, monkeypatch):
    assert told_of(jobs_of(tmp_path), monkeypatch, terminal=False).splitlines() == [
        "all 1/12  elapsed 6 s, left about 66 s",
        "all 3/12  1 failed  elapsed 18 s, left about 54 s",
        "all 5/12  1 failed  elapsed 30 s, left about 42 s",
        "all 7/12  1 failed  elapsed 42 s, left about 30 s",
        "all 9/12  1 failed  elapsed 54 s, left about 18 s",
        "maps 8/8  elapsed 66 s",
        "signs 4/4  1 failed  elapsed 72 s",
    ]


def test_what_was_answered_before_counts_as_done_and_not_for_the_time(tmp_path, monkeypatch):
    jobs = jobs_of(tmp_path, answered=6)
    assert to_ask(jobs) == "6 questions of 2 benchmarks to ask, 6 answered before"
    assert to_ask(jobs[1:]) == "4 questions of signs to ask"
    lines = told_of(jobs, monkeypatch, terminal=False, seconds=600.0).splitlines()
    assert lines[0] == "all 7/12  elapsed 10 min, left about 50 min"
    assert lines[-1] == "signs 4/4  1 failed  elapsed 60 min"


def test_a_terminal_has_a_bar_for_all_and_one_for_each(tmp_path, monkeypatch):
    shown = told_of(jobs_of(tmp_path, answered=6), monkeypatch, terminal=True)
    last = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown).splitlines()[-3:]
    assert [line.split()[0] for line in last] == ["all", "maps", "signs"]
    assert [re.search(r" (\d+/\d+) ", line)[1] for line in last] == ["12/12", "8/8", "4/4"]
    assert ["1 failed" in line for line in last] == [True, False, True]
