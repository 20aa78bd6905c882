"""The program of a decoder process: `python -m mmrl.data.decode_worker FD COUNT` serves jobs over the socket FD.

COUNT names a SharedCount: how many threads may work on a job, which changes as cores become idle or are needed.

It sends None when ready, then answers each (OpenJob, VideoSection) with (fields of OpenedMedia without the frames,
their shape) and the frames' bytes, or with a MediaError. It ends when the other end of the socket is gone, even in
the middle of a job.
"""

from __future__ import annotations

import dataclasses
import os
import select
import socket
import sys
import threading

import torch

from mmrl.config.schema import VideoSection
from mmrl.data.channel import Channel
from mmrl.data.opening import OpenedMedia, OpenJob, open_medium
from mmrl.data.parts import Threads
from mmrl.data.shared_count import SharedCount
from mmrl.errors import MediaError


def main(fd: int, count: int) -> None:
    torch.set_num_threads(1)
    threading.Thread(target=_end_with_parent, args=(fd,), daemon=True).start()
    channel = Channel(socket.socket(fileno=fd))
    threads = SharedCount(count)
    channel.send(None)
    while True:
        try:
            (job, video), _ = channel.receive()
        except EOFError:
            return
        _answer(channel, OpenJob(*job), video, threads.get)


def _answer(channel: Channel, job: OpenJob, video: VideoSection, threads: Threads) -> None:
    try:
        opened = open_medium(job, video, threads=threads)
    except MediaError as error:
        channel.send((error.path, error.reason))
        return
    frames_F3HW = opened.frames_F3HW.numpy()
    fields = {f.name: getattr(opened, f.name) for f in dataclasses.fields(OpenedMedia) if f.name != "frames_F3HW"}
    channel.send((fields, frames_F3HW.shape), frames_F3HW)


def _end_with_parent(fd: int) -> None:
    """End this process when the other end of the socket closes: a reader that hangs must not outlive its program."""
    poll = select.poll()
    poll.register(fd, 0)  # no events asked for: only hang-up and errors are reported
    poll.poll()
    os._exit(1)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
