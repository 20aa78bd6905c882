import json
import os
import signal

from makers.trained import tracked

from mmrl.training.metrics import JsonLines, MetricsLog, Stopwatch, peak_memory_gib
from mmrl.training.signals import stop_on_sigterm
from mmrl.training.trackers import TensorBoard


def test_metrics_are_rows_of_json_and_events(tmp_path):
    log = MetricsLog(tmp_path, [TensorBoard(tracked(tmp_path))])
    log.write(1, "warmup", {"loss/total": 0.5})
    log.close()
    assert json.loads((tmp_path / "metrics.jsonl").read_text()) == {"step": 1, "stage": "warmup", "loss/total": 0.5}
    assert list((tmp_path / "tensorboard").iterdir())


def test_a_continued_run_replaces_the_events_after_its_checkpoint(tmp_path):  # fault 74
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    killed = MetricsLog(tmp_path, [TensorBoard(tracked(tmp_path))])
    for step, loss in ((1, 0.5), (2, 0.25), (3, 9.0)):
        killed.write(step, "rl", {"loss": loss})
    killed.flush()
    continued = MetricsLog(tmp_path, [TensorBoard(tracked(tmp_path, next_step=3))])
    continued.write(3, "rl", {"loss": 0.125})
    continued.close()
    board = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [(event.step, event.value) for event in board.Scalars("loss")] == [(1, 0.5), (2, 0.25), (3, 0.125)]


def test_lines_are_cut_back_to_a_checkpoint(tmp_path):
    lines = JsonLines(tmp_path / "a.jsonl")
    lines.write({"step": 1})
    size = lines.size
    lines.write({"text": "größer"})
    lines.cut(size)
    lines.write({"step": 2})
    assert (tmp_path / "a.jsonl").read_text() == '{"step": 1}\n{"step": 2}\n'


def test_stopwatch_sums_and_forgets():
    watch = Stopwatch()
    for _ in range(2):
        with watch.time("rollout"):
            pass
    assert set(watch.take()) == {"rollout"}
    assert watch.take() == {}


def test_peak_memory_is_measured():
    assert peak_memory_gib()["perf/peak_host_gib"] > 0.01


def test_sigterm_only_sets_a_flag_and_the_old_handler_returns():
    before = signal.getsignal(signal.SIGTERM)
    with stop_on_sigterm() as stop:
        assert not stop
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop
    assert signal.getsignal(signal.SIGTERM) is before
