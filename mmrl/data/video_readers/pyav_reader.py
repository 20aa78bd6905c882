"""Reading clips with PyAV. Also the probe of all readers: times come from packets, so nothing is decoded for them.

Wanted frames are decoded run by run (timeline.plan_runs): seek to the keyframe before them when that skips enough,
else decode on. On the way to a wanted frame, pictures that no other picture refers to are skipped in codecs where that
is certain. Runs do not depend on each other, so twins of a clip can decode them side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.error import FFmpegError, InvalidDataError
from av.stream import Discard
from PIL import Image

from mmrl.data.image import on_white
from mmrl.data.source import media_errors
from mmrl.data.video import ClipInfo, mean_rate, not_a_clip
from mmrl.data.video_readers.container_size import is_cut
from mmrl.data.video_readers.timeline import Timeline, counted_timeline, plan_runs, scan_packets, timeline_of
from mmrl.errors import MediaError

FALLBACK_FPS = 25.0
"""Rate of a clip that states none; also what FFmpeg assumes for raw streams."""

_SKIP_IS_EXACT = frozenset({"h264", "mpeg4", "mpeg2video", "mpeg1video"})
"""Codecs whose 'non-reference' mark is absolute. In HEVC it holds within one temporal layer only."""


def version() -> str:
    return av.__version__


def open_clip(path: Path) -> PyavClip:
    return PyavClip(path)


def probe(path: Path) -> ClipInfo:
    """Timeline, size and rotation of a clip, for the readers that cannot tell them."""
    clip = PyavClip(path)
    clip.close()
    return clip.info


_ALPHA_FORMATS = frozenset({"bgra", "rgba", "argb", "abgr", "pal8", "yuva420p", "yuva444p", "ya8", "rgba64le", "gbrap"})
"""Pixel formats with transparency, seen against white as pictures are."""


class PyavClip:
    """See mmrl.data.video.DivisibleClip."""

    def __init__(self, path: Path, *, twin_of: PyavClip | None = None) -> None:
        self._path = path
        if twin_of is not None:
            self._open()
            self._timeline, self.info = twin_of._timeline, twin_of.info
            return
        # Every reader probes here, so none opens what this refuses: errors of this part suggest no other reader.
        with media_errors(path, hint=" (PyAV, which all readers probe with)"):
            self._open()
            try:
                self._timeline = self._read_timeline()
                self.info = self._describe()
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        self._container.close()

    def parts(self, indices: Sequence[int]) -> list[list[int]]:
        """See mmrl.data.video.DivisibleClip.parts."""
        return [wanted for _, wanted in self._runs(indices)]

    def twin(self) -> PyavClip:
        """See mmrl.data.video.DivisibleClip.twin."""
        return PyavClip(self._path, twin_of=self)

    def frames(self, indices: Sequence[int]) -> Iterator[tuple[int, np.ndarray]]:
        """See mmrl.data.video.Clip.frames."""
        missing = set(indices)
        runs = self._runs(indices)
        for entry, wanted in runs:
            for index, frame in self._decode_run(entry, wanted):
                missing.discard(index)
                yield index, self._rgb(frame)
        if missing and any(entry > 0 for entry, _ in runs):
            # Some streams mark entry points from which nothing useful decodes; from the start everything does.
            for index, frame in self._decode_run(0, sorted(missing)):
                yield index, self._rgb(frame)

    def _open(self) -> None:
        try:
            # Only local files: a playlist that poses as a clip may not open others over the network.
            self._container = av.open(str(self._path), options={"protocol_whitelist": "file"})
        except (InvalidDataError, EOFError) as error:
            raise not_a_clip(self._path, "no readable container (not a video, or cut before its index)") from error
        self._stream: Any = self._container.streams.best("video")
        if self._stream is None:
            self.close()
            raise MediaError(self._path, "holds no video stream")
        if self._stream.codec_context is None:
            self.close()
            raise MediaError(self._path, "PyAV, which all readers probe with, does not know its video codec")
        for other in self._container.streams:
            if other.index != self._stream.index:
                other.discard = Discard.all
        # One thread: clips are decoded side by side in processes, and threads would cost more CPU time in total.
        self._stream.codec_context.thread_count = 1

    def _rewind(self, tick: int) -> None:
        """Go to the entry point at a tick; streams that cannot seek are opened again."""
        try:
            self._container.seek(tick, stream=self._stream, backward=True)
        except FFmpegError:
            self.close()
            self._open()

    def _read_timeline(self) -> Timeline:
        packets = scan_packets(self._container, self._stream)
        if not packets:
            raise MediaError(self._path, "its video stream holds no frames")
        container = self._container.format.name
        # AVI stores no times: FFmpeg guesses them, and guesses wrong where pictures are reordered.
        reordered_avi = "avi" in container and self._stream.codec_context.has_b_frames
        if reordered_avi or not packets.are_timed:
            return self._count_frames(len(packets))
        missing: int | None = 0
        if "mov" in container:
            missing = max(self._stream.frames - packets.hidden - len(packets), 0)
        if missing == 0 and (packets.cut or is_cut(self._path)):
            missing = None
        # FFmpeg takes presentation times here, also for MP4, whose index is by decoding time: a keyframe's own decoding
        # time would lead to the keyframe before it. In MPEG-TS it looks for the decoding time, in whatever packet.
        by_decoding_time = "mpegts" in container
        return timeline_of(packets, pixels=self._pixels, missing=missing, seeks_by_decoding_time=by_decoding_time)

    @property
    def _pixels(self) -> int:
        context = self._stream.codec_context
        return max(1, context.width * context.height)

    def _count_frames(self, num_packets: int) -> Timeline:
        """The timeline of a stream without times: its frames, counted by decoding, one after the other."""
        self._rewind(0)
        sound = [is_sound for _, is_sound in _decode(self._container, self._stream)]
        count = sum(sound)
        broken = not all(sound) or not count
        missing = None if is_cut(self._path) else max(num_packets - count, 1) if broken else 0
        return counted_timeline(count, missing=missing)

    def _describe(self) -> ClipInfo:
        first = self._first_frame()
        line, stream = self._timeline, self._stream  # after the first frame: rewinding may open the file again
        declared = float(stream.average_rate or stream.base_rate or FALLBACK_FPS)
        tick_s = 1.0 / declared if line.synthetic else float(stream.time_base)
        times_s = tuple(((line.ticks_N - line.ticks_N[0]) * tick_s).tolist())
        rotation = round(first.rotation / 90) * 90 % 360
        size = (first.height, first.width) if rotation in (90, 270) else (first.width, first.height)
        return ClipInfo(
            timestamps_s=times_s,
            start_s=float(line.ticks_N[0] * tick_s),
            size=size,
            rotation=rotation,
            codec=stream.codec_context.codec.canonical_name,
            container=self._container.format.name,
            fps=mean_rate(times_s, declared),
            missing_frames=line.missing,
            synthetic_times=line.synthetic,
            edit_list=line.hidden > 0,
            video_stream=[other.index for other in self._container.streams.video].index(stream.index),
        )

    def _first_frame(self) -> av.VideoFrame:
        self._rewind(self._timeline.start)
        for frame, is_sound in _decode(self._container, self._stream):
            if is_sound:
                return frame
        raise MediaError(self._path, "none of its frames decodes")

    def _runs(self, indices: Sequence[int]) -> list[tuple[int, list[int]]]:
        return plan_runs(sorted(set(indices)), self._timeline, pixels=self._pixels)

    def _decode_run(self, entry: int, wanted: Sequence[int]) -> Iterator[tuple[int, av.VideoFrame]]:
        line = self._timeline
        self._rewind(int(line.seeks_K[entry]))
        if line.synthetic:
            among = frozenset(wanted)
            for index, (frame, is_sound) in enumerate(_decode(self._container, self._stream)):
                if is_sound and index in among:
                    yield index, frame
            return
        index_of = {int(line.ticks_N[index]): index for index in wanted}
        for frame, is_sound in _decode(self._container, self._stream, until=frozenset(index_of)):
            if is_sound and frame.pts in index_of:
                yield index_of[frame.pts], frame

    def _rgb(self, frame: av.VideoFrame) -> np.ndarray:
        if frame.format.name in _ALPHA_FORMATS:
            rgb = on_white(Image.fromarray(frame.to_ndarray(format="rgba")))
        else:
            rgb = frame.to_ndarray(format="rgb24")
        return np.rot90(rgb, self.info.rotation // 90)


def _packets(container: Any, stream: Any) -> Iterator[Any]:
    """Packets up to where the file is readable; the empty last one makes the decoder give what it still holds."""
    try:
        yield from container.demux(stream)
    except FFmpegError:
        return


def _decode(
    container: Any, stream: Any, *, until: frozenset[int] | None = None
) -> Iterator[tuple[av.VideoFrame, bool]]:
    """Frames from the current position on, each with whether it is sound; stops once the ticks `until` are decoded.

    After a packet that does not decode, frames up to the next keyframe are built on what is missing: FFmpeg conceals
    that without a mark, so they count as unsound here.
    """
    context = stream.codec_context
    skips = until is not None and context.name in _SKIP_IS_EXACT
    left, unsound, broken = set(until or ()), set(), False
    for packet in _packets(container, stream):
        context.skip_frame = "NONREF" if skips and packet.pts not in left else "DEFAULT"
        broken = broken and not packet.is_keyframe
        try:
            frames = packet.decode()
        except FFmpegError:
            frames, broken = [], True
        if broken:
            unsound.add(packet.pts)
        yield from ((frame, frame.pts not in unsound and not frame.is_corrupt) for frame in frames)
        left.discard(packet.pts)
        if until and not left:
            yield from ((frame, frame.pts not in unsound and not frame.is_corrupt) for frame in context.decode(None))
            return
