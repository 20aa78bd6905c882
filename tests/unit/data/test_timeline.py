"""Which frames are decoded together, by the work that the packets show."""

from array import array

import numpy as np
import pytest

from mmrl.data.video_readers.timeline import (
    NS_PER_PIXEL,
    PART_NS,
    PIPE_FRAMES,
    Packets,
    Timeline,
    plan_runs,
    timeline_of,
)

PIXELS = 100


def even_line(*, frames: int, gop: int, cost: float = PIXELS * NS_PER_PIXEL) -> Timeline:
    entries = np.arange(0, frames, gop)
    return Timeline(np.arange(frames), entries, entries, np.arange(frames + 1) * cost, 0, 0)


@pytest.mark.parametrize(
    ("wanted", "runs"),
    [
        ([2, 9, 33, 40], [(0, [2, 9]), (1, [33, 40])]),
        ([2, 28, 33], [(0, [2, 28, 33])]),  # a seek would save frame 29 only
        ([2, 24, 33], [(0, [2, 24]), (1, [33])]),  # it saves 25 to 29: as many as it costs
        ([2, 25, 33], [(0, [2, 25, 33])]),
        ([95], [(3, [95])]),
        ([], []),
    ],
)
def test_a_seek_that_saves_what_it_costs(wanted, runs):
    assert PIPE_FRAMES == 5
    assert plan_runs(wanted, even_line(frames=120, gop=30), pixels=PIXELS) == runs


def test_bytes_count_as_work():
    """Frames 25 to 28 are skipped; they are few but large, so the seek is worth it."""
    line = even_line(frames=60, gop=30)
    costs = np.diff(line.work_N1)
    costs[27] *= 3
    heavy = Timeline(line.ticks_N, line.entries_K, line.seeks_K, np.concatenate(([0.0], np.cumsum(costs))), 0, 0)
    assert plan_runs([2, 26, 33], line, pixels=PIXELS) == [(0, [2, 26, 33])]
    assert plan_runs([2, 26, 33], heavy, pixels=PIXELS) == [(0, [2, 26]), (1, [33])]


def test_long_runs_are_cut_at_entry_points():
    line = even_line(frames=120, gop=10, cost=PART_NS / 30)
    everything = list(range(120))
    runs = plan_runs(everything, line, pixels=round(PART_NS / NS_PER_PIXEL))
    assert runs == [(place * 3, everything[place * 30 : place * 30 + 30]) for place in range(4)]


def test_a_part_by_itself_is_the_run_it_was():
    line = even_line(frames=3000, gop=50, cost=PART_NS / 200)
    wanted = sorted({(index * index) % 3000 for index in range(300)})
    runs = plan_runs(wanted, line, pixels=PIXELS)
    assert len(runs) > 10 and [index for _, run in runs for index in run] == wanted
    for run in runs:
        assert plan_runs(run[1], line, pixels=PIXELS) == [run]


def packets(rows) -> Packets:
    pts, dts, sizes, keys = zip(*rows, strict=True)
    return Packets(array("q", pts), array("q", dts), array("q", sizes), bytearray(keys))


def test_a_timeline_orders_packets_by_presentation():
    # I P B as a file holds them, then a group whose keyframe (tick 12) comes before its leading picture (tick 9)
    rows = [(0, -3, 100, 1), (6, 0, 50, 0), (3, 3, 10, 0), (12, 6, 200, 1), (9, 9, 20, 0)]
    line = timeline_of(packets(rows), pixels=1000, missing=0, seeks_by_decoding_time=False)
    assert line.ticks_N.tolist() == [0, 3, 6, 9, 12]
    assert (line.entries_K.tolist(), line.seeks_K.tolist(), line.start) == ([0, 4], [-3, 12], -3)
    assert np.diff(line.work_N1).tolist() == [1000 + 65 * size for size in (100, 10, 50, 20, 200)]
    by_decoding = timeline_of(packets(rows), pixels=1000, missing=0, seeks_by_decoding_time=True)
    assert by_decoding.seeks_K.tolist() == [-3, 6]


def test_without_marked_keyframes_everything_is_decoded_from_the_start():
    line = timeline_of(
        packets([(tick, tick, 10, 0) for tick in range(90)]), pixels=1000, missing=0, seeks_by_decoding_time=False
    )
    assert (line.entries_K.tolist(), line.seeks_K.tolist()) == ([0], [0])
    assert plan_runs([3, 80], line, pixels=1000) == [(0, [3, 80])]
