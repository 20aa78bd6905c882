"""The timeline of a clip from its packets, and which wanted frames are decoded from which entry point: pure arithmetic.

What decoding costs is told from sizes alone: a frame takes time by its pixels and by its bytes (measured by
tests/bench/bench_long_video.py). Arrays are of one number a frame, so an hour of video takes a few megabytes.

Letters: N frames, K entry points, P packets.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from av.error import FFmpegError

NS_PER_PIXEL, NS_PER_BYTE = 1.0, 65.0
"""What decoding a frame costs. Codecs differ by a factor of 2; that makes a choice a little worse, never wrong."""

PIPE_FRAMES = 5
"""Frames that a seek costs: those in the decoder's pipe are decoded and lost. Finding the place takes under 0.1 ms."""

PART_NS = 300_000_000
"""Runs are cut at the first entry point after this much decoding: parts that several threads can share. A cut costs a
seek, about one percent of it, whether one thread decodes the clip or many; so all of them decode the same."""

_NO_TIME = -(1 << 63)


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """Frames in presentation order, in stream ticks.

    ticks_N. entries_K, seeks_K: frame of each entry point and the tick to seek to for it, the first one frame 0.
    work_N1: nanoseconds of decoding before each frame, and of all. start: tick of the first packet.
    missing: frames promised but not held, None for an unknown number. hidden: frames held but not to be shown.
    """

    ticks_N: np.ndarray
    entries_K: np.ndarray
    seeks_K: np.ndarray
    work_N1: np.ndarray
    start: int
    missing: int | None
    hidden: int = 0
    synthetic: bool = False


@dataclass(slots=True)
class Packets:
    """The packets of frames that are to be shown, in the order of the file; one number a packet of each."""

    pts_P: array[int] = field(default_factory=lambda: array("q"))
    dts_P: array[int] = field(default_factory=lambda: array("q"))
    sizes_P: array[int] = field(default_factory=lambda: array("q"))
    keys_P: bytearray = field(default_factory=bytearray)
    hidden: int = 0
    cut: bool = False

    def __len__(self) -> int:
        return len(self.sizes_P)

    @property
    def are_timed(self) -> bool:
        return _NO_TIME not in self.pts_P

    def start(self) -> int:
        return min(tick for tick in (self.pts_P[0], self.dts_P[0]) if tick != _NO_TIME)


def scan_packets(container: Any, stream: Any) -> Packets:
    """All packets of a stream from where the container stands; `cut` where reading failed. Nothing is decoded."""
    found = Packets()
    try:
        for packet in container.demux(stream):
            if packet.size and packet.is_discard:
                found.hidden += 1
            elif packet.size:
                found.pts_P.append(_NO_TIME if packet.pts is None else packet.pts)
                found.dts_P.append(_NO_TIME if packet.dts is None else packet.dts)
                found.sizes_P.append(packet.size)
                found.keys_P.append(packet.is_keyframe)
    except FFmpegError:
        found.cut = True
    return found


def timeline_of(packets: Packets, *, pixels: int, missing: int | None, seeks_by_decoding_time: bool) -> Timeline:
    """The timeline of packets that all have times. pixels: of one frame."""
    pts_P, dts_P = np.asarray(packets.pts_P), np.asarray(packets.dts_P)
    ticks_N, index_P = np.unique(pts_P, return_inverse=True)
    cost_N = np.bincount(index_P, weights=np.asarray(packets.sizes_P)) * NS_PER_BYTE + pixels * NS_PER_PIXEL
    keys_K = np.flatnonzero(np.frombuffer(packets.keys_P, np.uint8))
    entries_K, first_K = np.unique(index_P[keys_K], return_index=True)
    places_K = keys_K[first_K]
    by_decoding = seeks_by_decoding_time & (dts_P[places_K] != _NO_TIME)
    seeks_K = np.where(by_decoding, dts_P[places_K], pts_P[places_K])
    if len(entries_K) and entries_K[0] == 0:
        entries_K, seeks_K = entries_K[1:], seeks_K[1:]
    start = packets.start()
    return Timeline(
        ticks_N=ticks_N,
        entries_K=np.concatenate(([0], entries_K)),
        seeks_K=np.concatenate(([start], seeks_K)),
        work_N1=np.concatenate(([0.0], np.cumsum(cost_N))),
        start=start,
        missing=missing,
        hidden=packets.hidden,
    )


def counted_timeline(count: int, *, missing: int | None) -> Timeline:
    """The timeline of a stream without times, which can only be decoded from its start."""
    zero = np.zeros(1, np.int64)
    return Timeline(np.arange(count), zero, zero, np.arange(count + 1.0), 0, missing, synthetic=True)


def plan_runs(wanted: Sequence[int], line: Timeline, *, pixels: int) -> list[tuple[int, list[int]]]:
    """Split sorted wanted frames into runs: (place of the entry point, frames decoded from there on).

    A run ends where seeking to a later entry point skips more work than the seek costs, and at an entry point where
    it has grown long. It does not depend on how many threads share the runs.

    Frames of one work, entry points at 0 and 30, wanted 2, 9, 33 and 40: from 10 to 29 nothing is wanted, so the runs
    are (0, [2, 9]) and (1, [33, 40]). Wanted 2, 28 and 33: one run.
    """
    runs: list[tuple[int, list[int]]] = []
    wanted_W = np.asarray(wanted, np.int64)
    entry_W = np.searchsorted(line.entries_K, wanted_W, side="right") - 1
    before_entry_W, after_frame_W = line.work_N1[line.entries_K[entry_W]], line.work_N1[wanted_W + 1]
    seek_ns, begun, reached = PIPE_FRAMES * pixels * NS_PER_PIXEL, 0.0, 0.0
    for place, index in enumerate(wanted):
        entry, here = int(entry_W[place]), float(before_entry_W[place])
        if runs and here - reached < seek_ns and (entry == runs[-1][0] or here - begun < PART_NS):
            runs[-1][1].append(index)
        else:
            runs.append((entry, [index]))
            begun = here
        reached = float(after_frame_W[place])
    return runs
