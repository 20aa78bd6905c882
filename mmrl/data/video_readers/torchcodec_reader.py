"""Reading clips with torchcodec, which needs FFmpeg's shared libraries on the machine.

Its exact mode knows every frame's time from a scan of the file; still each frame's time is compared with the wanted
one. Edit lists, MPEG-TS and streams without times it was found to read wrongly, so such clips are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.metadata import version as package_version
from pathlib import Path

import numpy as np

from mmrl.data.video import ClipInfo, frame_at
from mmrl.data.video_readers.pyav_reader import probe
from mmrl.errors import MediaError

_INSTALL = "pip install 'mmrl[torchcodec]' and FFmpeg 4 to 9 with its shared libraries (apt-get install ffmpeg)"

try:
    import torchcodec  # pyright: ignore[reportMissingImports]
    from torchcodec.decoders import VideoDecoder  # pyright: ignore[reportMissingImports]
except (ImportError, OSError, RuntimeError) as error:  # RuntimeError: how older versions tell that FFmpeg is missing
    raise ImportError(f"{str(error).splitlines()[0]}; it needs {_INSTALL}") from error
if torchcodec.ffmpeg_major_version is None:
    raise ImportError(f"torchcodec finds no FFmpeg libraries; it needs {_INSTALL}")


def version() -> str:
    """With FFmpeg's own: it decodes."""
    return f"{package_version('torchcodec').partition('+')[0]} with FFmpeg {torchcodec.ffmpeg_major_version}"


def open_clip(path: Path) -> TorchcodecClip:
    return TorchcodecClip(path)


class TorchcodecClip:
    """See mmrl.data.video.Clip."""

    def __init__(self, path: Path) -> None:
        self.info = probe(path)
        _check_exact(self.info, path)
        self._path = path
        # One thread: clips are decoded side by side in processes.
        self._decoder = VideoDecoder(str(path), dimension_order="NHWC", num_ffmpeg_threads=1, seek_mode="exact")
        if self._decoder.metadata.num_frames != self.info.num_frames:
            counts = f"{self._decoder.metadata.num_frames} frames where {self.info.num_frames} are presented"
            raise MediaError(path, f"reader torchcodec counts {counts}; use data.video.reader: pyav")
        self._first_s = self._decoder.metadata.begin_stream_seconds_from_content or 0.0

    def close(self) -> None:
        del self._decoder

    def frames(self, indices: Sequence[int]) -> Iterator[tuple[int, np.ndarray]]:
        """See mmrl.data.video.Clip.frames."""
        for index in sorted(set(indices)):
            try:
                frame = self._decoder.get_frame_at(index)
            except RuntimeError:  # it does not decode
                continue
            found = frame_at(self.info.timestamps_s, frame.pts_seconds - self._first_s)
            if found != index:
                raise MediaError(self._path, f"reader torchcodec returned frame {found} for {index}; use pyav")
            yield index, frame.data.numpy()


def _check_exact(info: ClipInfo, path: Path) -> None:
    if info.edit_list:
        raise MediaError(path, "reader torchcodec shows frames that the edit list hides; use data.video.reader: pyav")
    if info.synthetic_times or "mpegts" in info.container:
        kind = "streams without times" if info.synthetic_times else info.container
        raise MediaError(path, f"reader torchcodec returns other frames of {kind}; use data.video.reader: pyav")
