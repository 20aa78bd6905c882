"""A rollout server: vLLM in one process behind a small HTTP app, for trainers on other GPUs or machines.

vLLM's own OpenAI server takes pictures as URLs and text to be tokenised, and its AsyncLLM keeps the engine in another
process that is reached by pickled calls. Here the engine is the one that trains colocated (`vllm_engine`), in the
process that listens: results are the same, weights are mapped and copied once, and a killed server leaves nothing.
"""

from __future__ import annotations

import asyncio
import math
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from mmrl.config.schema import RunConfig
from mmrl.errors import EngineError
from mmrl.rollout.server.model_facts import model_facts
from mmrl.rollout.server.token import obtain_token
from mmrl.rollout.server.transfer import gpu_id
from mmrl.rollout.server.weight_files import machine
from mmrl.rollout.weight_names import ExpectedWeights

# What is under way when the server is asked to end has this long.
GRACE_S = 30
MAX_HEAD_BYTES = 16 << 10
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True)
class Address:
    """Where to listen. Port 0: one that is free."""

    host: str = "127.0.0.1"
    port: int = 8765


def serve(config: RunConfig, address: Address, *, token_file: Path) -> int:
    """Answer requests until SIGTERM (returns 0) or Ctrl-C (returns 130); what is under way is answered first.

    Raises EngineError when vLLM cannot start or fails; OSError where the address is taken.
    """
    from mmrl.models.hub import pinned
    from mmrl.models.load import processor_of
    from mmrl.rollout.open import core_options

    token, token_place = obtain_token(token_file)
    with _bound(address) as listener:
        config = config.model_copy(update={"model": pinned(config.model)})
        processor = processor_of(config.model)
        from mmrl.rollout.vllm_engine import VllmEngine

        transfer = None if gpu_id() is None else "nccl"
        engine = VllmEngine(processor, core_options(config, processor.folder, weight_transfer=transfer))
        server = _HttpServer(engine, config, token)
        host, port = listener.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        print(f"rollout server: {processor.family.name} {config.model.path} at http://{shown}:{port}", flush=True)
        print(f"token: {token_place}; Ctrl-C ends", flush=True)
        if address.host not in _LOOPBACK:
            print("warning: not only this machine can connect, and traffic is not encrypted", file=sys.stderr)
        return server.run(listener)


class _HttpServer:
    """uvicorn around an engine's thread, with an end that tells why."""

    def __init__(self, engine: Any, config: RunConfig, token: str) -> None:
        import uvicorn

        from mmrl.rollout.server.app import Limits, RolloutApp
        from mmrl.rollout.server.connections import GuardedConnection
        from mmrl.rollout.server.worker import Worker

        self._failure: str | None = None
        self._worker = Worker(engine, on_failure=self._fail)
        facts = {
            "model": model_facts(engine.processor, engine.expected, dtype=config.model.dtype),
            "machine": machine(),
            "gpu": gpu_id(),
            "max_num_seqs": config.rollout.vllm.max_num_seqs,
            "max_model_len": engine.options.max_model_len,
        }
        limits = Limits(config.rollout.servers.max_request_mb << 20, largest_shard(engine.expected))
        app = RolloutApp(self._worker, facts=facts, limits=limits)
        self._server = uvicorn.Server(
            uvicorn.Config(
                app.asgi(token),
                http=GuardedConnection,
                h11_max_incomplete_event_size=MAX_HEAD_BYTES,
                log_level="warning",
                access_log=False,
                lifespan="off",
                ws="none",
                timeout_keep_alive=75,
                timeout_graceful_shutdown=GRACE_S,
                server_header=False,
            )
        )

    def run(self, listener: socket.socket) -> int:
        with _noted_signals() as received:
            try:
                asyncio.run(self._server.serve(sockets=[listener]))
            except OSError as error:  # another server had bound the port, too, and was the first that listened
                host, port = listener.getsockname()[:2]
                raise _cannot_listen(host, port, error) from error
        self._worker.close()
        if self._failure is not None:
            raise EngineError(self._failure)
        if signal.SIGINT not in received():
            return 0
        print("interrupted: the server was stopped, what was under way is answered; give the same command again")
        return 130

    def _fail(self, message: str) -> None:
        """Called by the engine's thread: end, after the answers that tell of it."""
        self._failure = message
        self._server.should_exit = True


def largest_shard(expected: ExpectedWeights) -> int:
    """Bytes that a part of the weights may have: a trainer's usual part, and a tensor that is larger by itself."""
    from mmrl.rollout.server.push import SHARD_BYTES

    largest = max(math.prod(shape) for shape in expected.shapes.values())
    return SHARD_BYTES + 4 * largest + (16 << 20)


def _cannot_listen(host: str, port: int, error: Exception) -> EngineError:
    return EngineError(f"{host}:{port}: cannot listen there ({error})")


@contextmanager
def _bound(address: Address) -> Iterator[socket.socket]:
    """A socket that is bound and does not listen yet: a taken port is found before vLLM starts."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    # Said to be TCP, asyncio sends answers at once; else each waits 40 ms for an acknowledgement.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((address.host, address.port))
        except (OSError, OverflowError) as error:
            raise _cannot_listen(address.host, address.port, error) from error
        yield listener


@contextmanager
def _noted_signals() -> Iterator[Callable[[], set[int]]]:
    """uvicorn raises the signal that ended it again; here that only leaves a note."""
    noted: set[int] = set()

    def note(number: int, frame: FrameType | None) -> None:
        noted.add(number)

    if threading.current_thread() is not threading.main_thread():
        yield lambda: noted
        return
    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
