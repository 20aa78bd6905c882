"""The program of an engine's process: `python -m mmrl.evaluate.engine_process FD` serves requests over the socket FD.

It is sent a LocalEngine, then, at any time, tuples of packed requests to answer and ids of requests to forget. It sends
News. It ends when the other end of the socket is gone, whatever it is doing.
"""

from __future__ import annotations

import os
import queue
import socket
import sys
import threading
from collections.abc import Iterator
from typing import Any

from mmrl.data.channel import Channel
from mmrl.errors import MmrlError
from mmrl.evaluate.engines import LocalEngine, LocalFlight, News, open_flight
from mmrl.evaluate.flight import Answered, Failure
from mmrl.evaluate.records import Reply
from mmrl.models.load import processor_of
from mmrl.rollout.server.wire import unpack_request
from mmrl.rollout.types import Request


def main(fd: int) -> None:
    channel = Channel(socket.socket(fileno=fd))
    inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(channel, inbox), daemon=True).start()
    engine: LocalEngine = inbox.get()
    try:
        with open_flight(engine, processor_of(engine.model)) as flight:
            channel.send(News(room=flight.room))
            for news in _served(flight, inbox):
                channel.send(news)
    except MmrlError as error:
        channel.send(News(problem=str(error)))


def _read(channel: Channel, inbox: queue.SimpleQueue[Any]) -> None:
    """Messages are taken while the engine works, so that the other end never waits to be rid of one."""
    try:
        while True:
            inbox.put(channel.receive()[0])
    except EOFError:
        os._exit(1)


def _served(flight: LocalFlight, inbox: queue.SimpleQueue[Any]) -> Iterator[News]:
    asked: dict[str, Request] = {}
    while True:
        messages = [] if flight.is_busy else [inbox.get()]
        while not inbox.empty():
            messages.append(inbox.get())
        ended = [refused for message in messages for refused in _take(message, flight, asked)]
        if flight.is_busy:
            ended += flight.step()
        for one in ended:
            del asked[one.request.request_id]
        if ended or messages:
            yield News(tuple(map(_told, ended)), flight.room)


def _take(message: Any, flight: LocalFlight, asked: dict[str, Request]) -> Iterator[Answered | Failure]:
    """The requests among those of a message that cannot be served."""
    if isinstance(message, str):
        if (dropped := asked.pop(message, None)) is not None:
            flight.drop(dropped)
        return
    for packed in message:
        request, _ = unpack_request(packed)
        asked[request.request_id] = request
        if (failure := flight.add(request)) is not None:
            yield failure


def _told(ended: Answered | Failure) -> tuple[str, tuple[Reply, ...] | str]:
    return ended.request.request_id, ended.replies if isinstance(ended, Answered) else ended.reason


if __name__ == "__main__":
    main(int(sys.argv[1]))
