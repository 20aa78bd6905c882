"""The HTTP side of a rollout server: who may ask, how much, and what is asked of the engine's thread.

Every answer to a POST is a stream: an empty line a second while the work lasts, then one line of JSON, which holds the
result or `error` with `kind`: `refused` (asking again will not help), `behind` (other weights are needed), `given_up`
(another server may answer; this one goes on) or `failed` (this server is at its end). So a trainer can tell a server
that works for long from one that is gone.

    GET  /health          what the server is and which weights it has
    POST /generate        a request (wire.pack_request); the completions
    POST /weights/begin   {"weights": {...}, "by_transfer": false}: new weights come; answered once they can be taken
    POST /weights/shard   a part of them: safetensors with the header X-Checksum (xxh3-128), or {"file": name}
    POST /weights/end     {"abort": reason or null}; answered once they are loaded
    POST /weights/transfer  {"call": ..., "arguments": {...}}: instead of parts, a step of vLLM's own weight transfer
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from typing import Any

import xxhash
from pydantic import TypeAdapter, ValidationError
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from mmrl.errors import EngineError
from mmrl.rollout.server.token import matches
from mmrl.rollout.server.weight_files import read_weight_file
from mmrl.rollout.server.wire import WeightsId, pack_group, unpack, unpack_request
from mmrl.rollout.server.worker import BehindError, FailedError, WeightStream, Worker
from mmrl.rollout.vllm_decode import GivenUpError
from mmrl.rollout.vllm_types import TransferCall, TransferStep

HEARTBEAT_S = 1.0
# A trainer that is silent for so long within an update is taken for dead.
PATIENCE_S = 300.0
# Longest time for the body of one request, from its head to its last byte.
BODY_S = 300.0
_WEIGHTS = TypeAdapter(WeightsId)


class BodyTooLargeError(EngineError):
    """A body above the limit of its route."""


class SlowBodyError(EngineError):
    """A body that did not come within BODY_S."""


@dataclass(frozen=True)
class Limits:
    """Largest bodies in bytes: of a request with its media, and of a part of the weights."""

    request: int
    shard: int


class RequireToken:
    """Refuses whatever lacks the token, before its body is read and whatever its path."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope.get("headers", ()))
        if matches(headers.get(b"authorization", b""), self._token):
            await self._app(scope, receive, send)
        else:
            refusal = {"error": "the token is missing or wrong", "kind": "refused"}
            await JSONResponse(refusal, status_code=401)(scope, receive, send)


class RolloutApp:
    """The routes. facts: what `/health` tells of the server beside its state."""

    def __init__(self, worker: Worker, *, facts: dict[str, Any], limits: Limits) -> None:
        self._worker, self._facts, self._limits = worker, facts, limits
        self._stream: WeightStream | None = None

    def asgi(self, token: str) -> ASGIApp:
        routes = [
            Route("/health", self._health, methods=["GET"]),
            Route("/generate", self._generate, methods=["POST"]),
            Route("/weights/begin", self._begin, methods=["POST"]),
            Route("/weights/shard", self._shard, methods=["POST"]),
            Route("/weights/transfer", self._transfer, methods=["POST"]),
            Route("/weights/end", self._finish, methods=["POST"]),
        ]
        return RequireToken(Starlette(routes=routes, exception_handlers={EngineError: _refusal}), token)

    async def _health(self, request: HttpRequest) -> Response:
        self._worker.check()
        weights = self._worker.weights
        state = {"outstanding": self._worker.outstanding, "answered": self._worker.answered}
        return JSONResponse({**self._facts, **state, "weights": None if weights is None else asdict(weights)})

    async def _generate(self, request: HttpRequest) -> Response:
        body = await _body(request, self._limits.request)
        asked, weights = unpack_request(body)
        future = self._worker.submit(asked, weights)

        async def result() -> dict[str, Any]:
            return pack_group(await asyncio.wrap_future(future))

        return _answer(request, result, on_gone=lambda: self._worker.drop(asked))

    async def _begin(self, request: HttpRequest) -> Response:
        record = await _json(request)
        weights, by_transfer = _field(_WEIGHTS, record, "weights"), _field(TypeAdapter(bool), record, "by_transfer")
        stream = WeightStream(weights, patience_s=PATIENCE_S, by_transfer=by_transfer)
        if self._stream is not None and not self._stream.done.done():
            self._stream.end("another update of the weights was begun")
        self._worker.update(stream)
        self._stream = stream
        return _answer(request, _done(stream.started), on_gone=lambda: stream.end("the trainer is gone"))

    async def _shard(self, request: HttpRequest) -> Response:
        stream = self._stream_under_way()
        if stream.by_transfer:
            raise EngineError("this update of the weights is by transfer")
        if request.headers.get("content-type") == "application/json":
            name = _field(TypeAdapter(str), await _json(request), "file")
            tensors = await asyncio.to_thread(read_weight_file, name)
        else:
            body = await _body(request, self._limits.shard)
            _, tensors = await asyncio.to_thread(_checked, body, request.headers.get("x-checksum", ""))
        return _answer(request, _done(stream.put(tensors)), on_gone=lambda: stream.end("the trainer is gone"))

    async def _transfer(self, request: HttpRequest) -> Response:
        stream, record = self._stream_under_way(), await _json(request)
        arguments = _field(TypeAdapter(dict[str, Any]), record, "arguments")
        step = TransferStep(_field(TypeAdapter(TransferCall), record, "call"), arguments)
        return _answer(request, _done(stream.put(step)), on_gone=lambda: stream.end("the trainer is gone"))

    async def _finish(self, request: HttpRequest) -> Response:
        stream = self._stream_under_way()
        stream.end(_field(TypeAdapter(str | None), await _json(request), "abort"))
        return _answer(request, _done(stream.done), on_gone=lambda: None)

    def _stream_under_way(self) -> WeightStream:
        if self._stream is None:
            raise EngineError("no update of the weights was begun")
        return self._stream


def _answer(
    request: HttpRequest, work: Callable[[], Awaitable[dict[str, Any]]], *, on_gone: Callable[[], None]
) -> Response:
    """The stream that tells how the work ended. on_gone: what to do when nobody waits for it any more."""

    async def lines() -> AsyncIterator[bytes]:
        task = asyncio.ensure_future(work())
        try:
            while not (await asyncio.wait([task], timeout=HEARTBEAT_S))[0]:
                yield b"\n"
                if await request.is_disconnected():
                    return
            yield json.dumps(_outcome(task)).encode() + b"\n"
        finally:
            if not task.done():
                task.cancel()
                on_gone()

    return StreamingResponse(lines(), media_type="application/jsonl")


def _outcome(task: asyncio.Future[dict[str, Any]]) -> dict[str, Any]:
    error = task.exception()
    if error is None:
        return task.result()
    if not isinstance(error, EngineError):
        raise error
    return {"error": str(error), "kind": _kind(error)}


def _kind(error: EngineError) -> str:
    if isinstance(error, BehindError):
        return "behind"
    if isinstance(error, GivenUpError):
        return "given_up"
    return "failed" if isinstance(error, FailedError) else "refused"


def _done(future: Future[None]) -> Callable[[], Awaitable[dict[str, Any]]]:
    async def wait() -> dict[str, Any]:
        await asyncio.wrap_future(future)
        return {}

    return wait


async def _refusal(request: HttpRequest, error: Exception) -> Response:
    assert isinstance(error, EngineError)
    statuses = ((BodyTooLargeError, 413), (SlowBodyError, 408), (FailedError, 503), (EngineError, 400))
    status = next(status for kind, status in statuses if isinstance(error, kind))
    return JSONResponse({"error": str(error), "kind": _kind(error)}, status_code=status)


async def _body(request: HttpRequest, limit: int) -> bytes:
    """The body, read no further than the limit, whatever length is announced."""
    parts, size = [], 0
    try:
        async with asyncio.timeout(BODY_S):
            async for part in request.stream():
                size += len(part)
                if size > limit:
                    raise BodyTooLargeError(f"the body has more than {limit} bytes")
                parts.append(part)
    except TimeoutError as error:
        raise SlowBodyError(f"the body did not come within {BODY_S:g} s") from error
    except ClientDisconnect as error:  # as when a trainer is killed; nobody reads the answer
        raise EngineError("the body ended early") from error
    return b"".join(parts)


async def _json(request: HttpRequest) -> Any:
    try:
        return json.loads(await _body(request, 1 << 20))
    except (ValueError, RecursionError) as error:
        raise EngineError("the body is not JSON") from error


def _field(kind: TypeAdapter[Any], record: Any, name: str) -> Any:
    try:
        return kind.validate_python(record[name])
    except (ValidationError, KeyError, TypeError) as error:
        raise EngineError(f"the body lacks {name!r}, or it is of another form") from error


def _checked(body: bytes, checksum: str) -> Any:
    if xxhash.xxh3_128_hexdigest(body) != checksum:
        raise EngineError("a part of the weights was damaged on its way: its checksum differs")
    return unpack(body)
