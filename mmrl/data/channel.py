"""Processes that a program starts for work of its own (decoders, engines), and messages to and from them.

A message is a pickled object of ours, then raw bytes, over a socket.
"""

from __future__ import annotations

import os
import pickle
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

import mmrl

_HEADER = struct.Struct("<QQ")  # bytes of the object, bytes of the payload
_BUFFER_BYTES = 1 << 20
_PACKAGE_ROOT = str(Path(mmrl.__file__).resolve().parent.parent)


class Channel:
    """One end of a stream socket. Both ends are this program, so unpickling is safe."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def send(self, message: Any, payload: np.ndarray | None = None) -> None:
        """Send an object, and after it the bytes of a contiguous array."""
        body = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
        size = payload.nbytes if payload is not None else 0
        self._socket.sendall(_HEADER.pack(len(body), size) + body)
        if payload is not None:
            self._socket.sendall(payload.data.cast("B"))

    def receive(self) -> tuple[Any, np.ndarray]:
        """The next object and its payload, uint8 (bytes,). Raises EOFError when the other end is gone."""
        body_size, payload_size = _HEADER.unpack(self._read(_HEADER.size).tobytes())
        message = pickle.loads(self._read(body_size).tobytes())
        return message, self._read(payload_size)

    def _read(self, size: int) -> np.ndarray:
        data = np.empty(size, dtype=np.uint8)
        view, done = data.data, 0
        while done < size:
            try:
                count = self._socket.recv_into(view[done:])
            except ConnectionError as error:
                raise EOFError("the other end was closed") from error
            if not count:
                raise EOFError("the other end was closed")
            done += count
        return data


def start_program(module: str, *more: int, **environment: str) -> tuple[subprocess.Popen[bytes], Channel]:
    """`python -m MODULE FD MORE...` with one end of a socket, FD, and the other end.

    It must end when the socket closes. more: file descriptors that it inherits too. What it prints goes to standard
    error.
    """
    path = os.pathsep.join([_PACKAGE_ROOT, *filter(None, [os.environ.get("PYTHONPATH")])])
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *map(str, (theirs.fileno(), *more))],
            pass_fds=[theirs.fileno(), *more],
            stdin=subprocess.DEVNULL,
            stdout=2,
            env={**os.environ, "PYTHONPATH": path, **environment},
            process_group=0,  # Ctrl-C in a terminal goes to the program, which then ends this process
        )
    return process, Channel(ours)
