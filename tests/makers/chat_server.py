"""An OpenAI-compatible chat server on this machine, whose answers a function gives."""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MODEL = "tiny"


class ChatServer:
    """answer: the text for a request's body. fails: whether a request gets status 500. prompt_tokens: as it counts.
    bodies, tokens: what came.
    """

    def __init__(
        self,
        answer: Callable[[dict], str],
        *,
        fails: Callable[[dict], bool] = lambda body: False,
        prompt_tokens: int | None = None,
    ) -> None:
        self.bodies: list[dict] = []
        self.tokens: list[str | None] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.send(200, {"data": [{"id": MODEL}]})

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                server.bodies.append(body)
                server.tokens.append(self.headers["authorization"])
                if fails(body):
                    self.send(500, {"error": "The answer is A, B, C or D: overloaded"})
                    return
                usage = {"completion_tokens": 2, "prompt_tokens": prompt_tokens}
                choice = {"message": {"content": answer(body)}, "finish_reason": "stop"}
                self.send(200, {"choices": [choice], "usage": usage})

            def send(self, status, content):
                data = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format, *args):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()


def parts(body: dict, kind: str) -> list:
    """The parts of this kind (`text`, `image_url`) of the last message."""
    content = body["messages"][-1]["content"]
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if kind == "text" else []
    return [part for part in content if part["type"] == kind]
