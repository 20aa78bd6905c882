"""Benchmarks answered by OpenAI-compatible servers: any number of them, a question going to whichever is free.

A question is sent as its conversation, with the pictures and frames that the cache holds, as they were resized, inside
the request: pictures as PNG, a clip as JPEG frames with the second of each before it. The server's own chat template
renders it. What a server does not answer is tried on the others, and is a Failure when none of them answers it: no
failure becomes an answer.
"""

from __future__ import annotations

import itertools
import queue
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from mmrl.data.render import spoken
from mmrl.data.rendered import MediaEntry
from mmrl.data.sample import Sample
from mmrl.errors import ConfigError, JudgeError, MmrlError
from mmrl.evaluate.flight import Answered, Failure, SizedFlight
from mmrl.evaluate.records import Reply
from mmrl.models.families import FamilyProcessor
from mmrl.rollout.types import Request, Sampling
from mmrl.scoring.judge.endpoint import Answer, ChatClient, Endpoint
from mmrl.scoring.judge.material import Picture, PictureFormat, chat_content, encoded, joined

_FORMATS: Mapping[str, PictureFormat] = {"image": "png", "video": "jpeg"}
_LOOK_S = 0.02
_RETRIES = 4


def endpoints(urls: Sequence[str], *, model: str, api_key_env: str | None, timeout_s: float) -> tuple[Endpoint, ...]:
    """One for each URL, which ends in /v1. ConfigError for a URL twice."""
    if len(set(urls)) < len(urls):
        raise ConfigError("a server is named twice in --server")
    common: dict[str, Any] = {"model": model, "api_key_env": api_key_env, "timeout_s": timeout_s, "store": None}
    return tuple(Endpoint(url, retries=_RETRIES, max_request_mb=float("inf"), **common) for url in urls)


class ServerFlight(SizedFlight):
    """A context manager. size: questions under way together, over all servers.

    Raises ConfigError where a server does not answer or has no such model, and for a family that sees pictures in
    tiles: what the cache holds is then no picture.
    """

    def __init__(self, servers: Sequence[Endpoint], processor: FamilyProcessor, *, size: int) -> None:
        if not processor.geometry.has_model_pixels:
            raise ConfigError(
                f"the {processor.family.name} family cuts pictures into tiles, which no server takes as pictures; "
                "answer with --engine hf"
            )
        super().__init__(size)
        self._processor = processor
        self._clients = [ChatClient(server, called="the server") for server in servers]
        for client in self._clients:
            client.check()
        self._free: queue.SimpleQueue[ChatClient] = queue.SimpleQueue()
        for client in itertools.islice(itertools.cycle(self._clients), max(size, len(self._clients))):
            self._free.put(client)
        self._threads = ThreadPoolExecutor(size, thread_name_prefix="server")
        self._ended: queue.SimpleQueue[Future[Answered | Failure]] = queue.SimpleQueue()
        self._dropped: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients:
            client.__exit__()
        self._threads.shutdown(cancel_futures=True)

    @property
    def shows_thought(self) -> bool:
        """A server may keep a thought back."""
        return False

    def add(self, request: Request, sample: Sample) -> Failure | None:
        self._count += 1
        self._threads.submit(self._answer, request, sample).add_done_callback(self._ended.put)
        return None

    def step(self) -> list[Answered | Failure]:
        ended: list[Answered | Failure] = []
        try:
            ended.append(self._ended.get(timeout=_LOOK_S).result())
            while True:
                ended.append(self._ended.get_nowait().result())
        except queue.Empty:
            pass
        late = {e.request.request_id for e in ended} & self._dropped
        self._dropped -= late
        self._count -= len(ended)
        return [e for e in ended if e.request.request_id not in late]

    def drop(self, request: Request) -> None:
        """Its place becomes free when the server's own time limit ends it."""
        self._dropped.add(request.request_id)

    def _answer(self, request: Request, sample: Sample) -> Answered | Failure:
        try:
            messages = _messages(sample, request.prompt.media, self._processor)
            asked = [_Asked(messages, request.sampling, request.seed + n) for n in range(request.n)]
            return Answered(request, tuple(map(self._reply, asked)))
        except MmrlError as error:
            return Failure(request, str(error))

    def _reply(self, asked: _Asked) -> Reply:
        """Of the server that is free, else of the others in turn. Raises JudgeError."""
        first = self._free.get()
        try:
            return _reply_of(first, asked)
        except JudgeError as error:
            problem = error
        finally:
            self._free.put(first)
        for client in self._clients:
            if client is not first:
                try:
                    return _reply_of(client, asked)
                except JudgeError as error:
                    problem = error
        raise problem


@dataclass(frozen=True, slots=True)
class _ServerAnswer(Answer):
    """finish_reason, num_tokens: as the server says; it need not say how many tokens."""

    finish_reason: str = "stop"
    num_tokens: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """One answer that is asked for."""

    messages: tuple[Mapping[str, Any], ...]
    sampling: Sampling
    seed: int

    def body(self, endpoint: Endpoint) -> dict[str, Any]:
        """top_k, which not every server knows, only where it is set."""
        sampling = self.sampling
        body = {"messages": self.messages, "max_tokens": sampling.max_new_tokens, "seed": self.seed}
        if sampling.greedy:
            return {**body, "temperature": 0.0, **self._stop}
        body |= {"temperature": sampling.temperature, "top_p": sampling.top_p, **self._stop}
        return {**body, "top_k": sampling.top_k} if sampling.top_k else body

    @property
    def _stop(self) -> dict[str, Any]:
        return {"stop": list(self.sampling.stop)} if self.sampling.stop else {}

    def again(self) -> Self:
        return self

    def answer(self, response: Any) -> _ServerAnswer:
        """ValueError for an answer that was not given to its end for another reason than its length."""
        [choice] = response["choices"]
        reason = choice.get("finish_reason") or "stop"
        if reason not in ("stop", "length"):
            raise ValueError(f"finish_reason {reason}")
        tokens = (response.get("usage") or {}).get("completion_tokens") or 0
        return _ServerAnswer(_text(choice["message"]), finish_reason=reason, num_tokens=int(tokens))


def _text(message: Mapping[str, Any]) -> str:
    """The whole answer, with a thought that the server has put aside before it; a thought without end stays open."""
    content, thought = message.get("content"), message.get("reasoning_content") or message.get("reasoning")
    if not thought:
        return content or ""
    return f"<think>{thought}</think>{content}" if content else f"<think>{thought}"


def _reply_of(client: ChatClient, asked: _Asked) -> Reply:
    answer = client.reply(asked)
    assert isinstance(answer, _ServerAnswer)
    return Reply(answer.text, answer.finish_reason == "length", answer.num_tokens)


def _messages(sample: Sample, media: Sequence[MediaEntry], processor: FamilyProcessor) -> tuple[dict[str, Any], ...]:
    found = []
    for role, parts in spoken(sample, media, processor):
        pieces = (p for part in parts for p in ([part] if isinstance(part, str) else _shown(media[part])))
        found.append({"role": role, "content": chat_content(joined(pieces))})
    return tuple(found)


def _shown(entry: MediaEntry) -> Iterator[str | Picture]:
    """A picture; of a clip every frame behind its second, as Qwen3-VL's own template writes it."""
    for number, frame_3HW in enumerate(entry.frames_F3HW):
        if entry.kind == "video":
            yield f"<{entry.timestamps_s[number]:.1f} seconds>"
        pixels_HW3 = np.ascontiguousarray(frame_3HW.numpy().transpose(1, 2, 0))
        yield encoded(pixels_HW3, _FORMATS[entry.kind])
