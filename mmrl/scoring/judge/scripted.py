"""A judge that says what it is told to: an OpenAI-compatible endpoint on this machine, for golden cases and tests.

    with ScriptedJudge(['{mark} {"score": 7}']) as judge: ... judge.endpoint ...

`{mark}` becomes the mark of the question. A mapping instead of a text is a reply's first token, as {"Yes": 0.6,
"No": 0.4}; a list the log-probs of the tokens behind an `<answer>` that the prompt holds; an integer a reply with that
status and no content. The replies are given in turn; the last one stays.
"""

from __future__ import annotations

import json
import math
import re
import threading
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = str | int | Mapping[str, float] | Sequence[float]
MODEL = "scripted"
_MARK = re.compile(r"\[[0-9a-f]{12}\]")


class ScriptedJudge:
    """Listens while it is open. bodies: the requests it got, in the order they came.

    says: the model that its replies say to be from; None: they do not say.
    """

    def __init__(self, replies: Sequence[Reply], *, says: str | None = None) -> None:
        self.says = says
        self.bodies: list[dict[str, Any]] = []
        self._replies = list(replies)
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())

    def __enter__(self) -> ScriptedJudge:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def endpoint(self) -> dict[str, Any]:
        """The option of judge rewards, with questions asked one after the other and no answer remembered."""
        url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        return {"url": url, "model": MODEL, "concurrency": 1, "retries": 2, "timeout_s": 5.0, "store": None}

    def _reply_to(self, body: dict[str, Any]) -> Reply:
        with self._lock:
            self.bodies.append(body)
            return self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        judge = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._send(200, {"data": [{"id": MODEL}]})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                reply = judge._reply_to(body)
                if isinstance(reply, int):
                    self._send(reply, {"error": {"message": "as told"}})
                else:
                    said = {} if judge.says is None else {"model": judge.says}
                    self._send(200, {**_response(reply, body), **said})

            def _send(self, status: int, record: dict[str, Any]) -> None:
                content = json.dumps(record).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: Any) -> None:
                """Says nothing."""

        return Handler


def _response(reply: str | Mapping[str, float] | Sequence[float], body: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(reply, str | Mapping):
        return {"choices": [_choice(reply, body)]}
    tokens = [("<answer>", -1.0), *((f"token {n}", value) for n, value in enumerate(reply))]
    prompt = [{str(n): {"decoded_token": text, "logprob": value}} for n, (text, value) in enumerate(tokens)]
    return {"choices": [{"message": {"content": ""}}], "prompt_logprobs": [None, *prompt]}


def _choice(reply: str | Mapping[str, float], body: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(reply, str):
        mark = _MARK.search(body["messages"][0]["content"])
        return {"message": {"content": reply.replace("{mark}", mark[0] if mark else "")}}
    top = [{"token": token, "logprob": math.log(p) if p else -100.0} for token, p in reply.items()]
    return {"message": {"content": next(iter(reply))}, "logprobs": {"content": [{"top_logprobs": top}]}}
