"""What the header of a clip says, without reading its packets: good for estimates, not for choosing frames."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import av

from mmrl.data.frame_clips import constant_rate
from mmrl.data.source import check_file, media_errors
from mmrl.data.video import ClipInfo

_SHORT_PROBE = {"protocol_whitelist": "file", "probesize": "500000"}


def header_info(path: Path) -> ClipInfo | None:
    """A clip of constant rate, as it lies in the file (not turned); None where the header tells no length or size.

    30 s at 30 frames a second: 900 frames, whatever their true times are.
    """
    check_file(path)
    with media_errors(path), av.open(str(path), options=_SHORT_PROBE) as container:
        stream = container.streams.best("video")
        if not isinstance(stream, av.VideoStream) or not stream.width or not stream.height:
            return None
        fps = float(stream.average_rate or stream.base_rate or 0)
        duration_s = _duration_s(container, stream)
        count = stream.frames or round(duration_s * fps)
        if not count:
            return None
        return constant_rate(count, (stream.width, stream.height), fps or count / duration_s)


def _duration_s(container: Any, stream: Any) -> float:
    if stream.duration and stream.time_base:
        return float(stream.duration * stream.time_base)
    return container.duration / av.time_base if container.duration else 0.0
