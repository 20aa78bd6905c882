"""How a trainer asks a rollout server, and what the answers mean."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx2

from mmrl.errors import EngineError
from mmrl.rollout.vllm_decode import GivenUpError

CONNECT_S = 10.0


class LostError(EngineError):
    """No answer, or not a whole one, or one that says that the server failed: another server may have it."""


class BehindError(EngineError):
    """The server has other weights than the request wants."""


@dataclass(frozen=True)
class Patience:
    """Seconds. total: for one answer. silence: without a sign of life while it is awaited."""

    total_s: float
    silence_s: float


class ServerHttp:
    """Requests to any rollout server, with the token. To be used in one event loop."""

    def __init__(self, token: str, patience: Patience) -> None:
        timeout = httpx2.Timeout(patience.silence_s, connect=CONNECT_S, pool=None)
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
        headers = {"Authorization": f"Bearer {token}"}
        # No proxy of the environment: it would see the token, and loopback is not behind it.
        self._client = httpx2.AsyncClient(timeout=timeout, limits=limits, headers=headers, trust_env=False)
        self._patience = patience

    async def health(self, url: str) -> dict[str, Any]:
        """What the server says of itself. Raises LostError, or EngineError where it refuses the token."""
        return await self._within(self._patience.silence_s, self._answer("GET", f"{url}/health"))

    async def post(
        self, url: str, *, content: bytes | None = None, record: Any = None, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """The answer to a body of bytes or JSON. Raises LostError, BehindError, GivenUpError, or EngineError
        for a refusal.
        """
        body: dict[str, Any] = {"json": record} if content is None else {"content": content}
        return await self._within(self._patience.total_s, self._answer("POST", url, headers=headers, **body))

    async def close(self) -> None:
        await self._client.aclose()

    async def _within(self, seconds: float, answer: Any) -> dict[str, Any]:
        try:
            async with asyncio.timeout(seconds):
                return await answer
        except TimeoutError as error:
            raise LostError(f"no answer within {seconds:g} s") from error
        except httpx2.TransportError as error:
            raise LostError(f"{type(error).__name__}: {error}".rstrip(": ")) from error

    async def _answer(self, method: str, url: str, **request: Any) -> dict[str, Any]:
        """The last line; those before it are empty and only say that the server lives."""
        last = ""
        async with self._client.stream(method, url, **request) as response:
            async for line in response.aiter_lines():
                last = line if line.strip() else last
        try:
            answer = json.loads(last)
            error = answer.get("error")
        except (ValueError, AttributeError, RecursionError) as problem:
            raise LostError(f"HTTP {response.status_code} with an answer that is not ours") from problem
        if error is None and response.status_code == 200:
            return answer
        raise _error_of(answer.get("kind"), f"{error or f'HTTP {response.status_code}'}", response.status_code)


def _error_of(kind: Any, message: str, status: int) -> EngineError:
    if kind == "behind":
        return BehindError(message)
    if kind == "given_up":
        return GivenUpError(message)
    return LostError(message) if kind == "failed" or status >= 500 else EngineError(message)
