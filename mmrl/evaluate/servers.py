"""Benchmarks answered by OpenAI-compatible servers: any number of them, a question going to whichever is free.

A question is sent as its conversation, with the pictures and frames that the cache holds, as they were resized, inside
the request: pictures as PNG, a clip as JPEG frames with the second of each before it. The server's own chat template
renders it. What a server does not answer is tried on the others, and is a Failure when none of them answers it: no
failure becomes an answer.

Of a family that cuts pictures into tiles the cache holds no picture. The whole picture is then sent, with the settings
by which vLLM's processor cuts it as ours (`mm_processor_kwargs`); a server that counts another number of prompt tokens
than we did has cut it otherwise, and its answer is a Failure.
"""

from __future__ import annotations

import itertools
import queue
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from mmrl.data.image import open_image
from mmrl.data.locations import FrameFiles
from mmrl.data.opening import OpenJob
from mmrl.data.render import spoken
from mmrl.data.rendered import MediaEntry
from mmrl.data.sample import Sample
from mmrl.errors import ConfigError, EngineError, JudgeError, MmrlError
from mmrl.evaluate.flight import Answered, Failure, SizedFlight
from mmrl.evaluate.records import Reply
from mmrl.models.families import FamilyProcessor
from mmrl.rollout.types import Request, Sampling
from mmrl.scoring.judge.endpoint import Answer, ChatClient, Endpoint
from mmrl.scoring.judge.material import Picture, PictureFormat, chat_content, encoded, joined

_FORMATS: Mapping[str, PictureFormat] = {"image": "png", "video": "jpeg"}
_REFUSED = ("llava_onevision",)
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

    jobs_of: how the media of a sample were opened. Raises ConfigError where a server does not answer or has no such
    model, and for LLaVA-OneVision.
    """

    def __init__(
        self,
        servers: Sequence[Endpoint],
        processor: FamilyProcessor,
        *,
        size: int,
        jobs_of: Callable[[Sample], Sequence[OpenJob]],
    ) -> None:
        if processor.family.name in _REFUSED:
            raise ConfigError(
                f"a server takes the tiles of the {processor.family.name} family from the model's config.json and not "
                "from a request, so it would not see pictures as the budgets say; answer with --engine hf or vllm"
            )
        super().__init__(size)
        self._processor, self._jobs_of = processor, jobs_of
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
            asking = self._asking(request, sample)
            asked = [replace(asking, seed=request.seed + n) for n in range(request.n)]
            return Answered(request, tuple(map(self._reply, asked)))
        except MmrlError as error:
            return Failure(request, str(error))

    def _asking(self, request: Request, sample: Sample) -> _Asked:
        media = request.prompt.media
        if self._processor.geometry.has_model_pixels or not media:
            shown = [[*_shown(entry)] for entry in media]
            return _Asked(_messages(sample, media, shown, self._processor), request.sampling, request.seed)
        jobs = self._jobs_of(sample)
        messages = _messages(sample, media, [[_whole(job)] for job in jobs], self._processor)
        settings = [self._processor.geometry.processor_settings("image", job.budget) for job in jobs]
        if any(other != settings[0] for other in settings):
            raise EngineError("its pictures are under several budgets, and a server cuts all of a request alike")
        return _Asked(messages, request.sampling, request.seed, settings[0], len(request.prompt.prompt_ids_T))

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
    """finish_reason, num_tokens, prompt_tokens: as the server says; it need not say how many tokens."""

    finish_reason: str = "stop"
    num_tokens: int = 0
    prompt_tokens: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """One answer that is asked for. cut_by: settings of the server's processor. prompt_tokens: that they must give."""

    messages: tuple[Mapping[str, Any], ...]
    sampling: Sampling
    seed: int
    cut_by: Mapping[str, Any] | None = None
    prompt_tokens: int | None = None

    def body(self, endpoint: Endpoint) -> dict[str, Any]:
        """top_k, which not every server knows, only where it is set."""
        sampling = self.sampling
        body: dict[str, Any] = {"messages": self.messages, "max_tokens": sampling.max_new_tokens, "seed": self.seed}
        if self.cut_by:
            body["mm_processor_kwargs"] = self.cut_by
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
        usage = response.get("usage") or {}
        return _ServerAnswer(
            _text(choice["message"]),
            finish_reason=reason,
            num_tokens=int(usage.get("completion_tokens") or 0),
            prompt_tokens=usage.get("prompt_tokens"),
        )


def _text(message: Mapping[str, Any]) -> str:
    """The whole answer, with a thought that the server has put aside before it; a thought without end stays open."""
    content, thought = message.get("content"), message.get("reasoning_content") or message.get("reasoning")
    if not thought:
        return content or ""
    return f"<think>{thought}</think>{content}" if content else f"<think>{thought}"


def _reply_of(client: ChatClient, asked: _Asked) -> Reply:
    answer = client.reply(asked)
    assert isinstance(answer, _ServerAnswer)
    if asked.prompt_tokens is not None and answer.prompt_tokens != asked.prompt_tokens:
        raise EngineError(
            f"the server at {client.endpoint.url} made {answer.prompt_tokens} tokens of a prompt"
            f" of {asked.prompt_tokens}: it cuts pictures otherwise (vLLM does as asked), or has another chat template"
        )
    return Reply(answer.text, answer.finish_reason == "length", answer.num_tokens)


def _messages(
    sample: Sample,
    media: Sequence[MediaEntry],
    shown: Sequence[Sequence[str | Picture]],
    processor: FamilyProcessor,
) -> tuple[dict[str, Any], ...]:
    """shown: what each medium is sent as."""
    found = []
    for role, parts in spoken(sample, media, processor):
        pieces = (p for part in parts for p in ([part] if isinstance(part, str) else shown[part]))
        found.append({"role": role, "content": chat_content(joined(pieces))})
    return tuple(found)


def _shown(entry: MediaEntry) -> Iterator[str | Picture]:
    """A picture; of a clip every frame behind its second, as Qwen3-VL's own template writes it."""
    for number, frame_3HW in enumerate(entry.frames_F3HW):
        if entry.kind == "video":
            yield f"<{entry.timestamps_s[number]:.1f} seconds>"
        pixels_HW3 = np.ascontiguousarray(frame_3HW.numpy().transpose(1, 2, 0))
        yield encoded(pixels_HW3, _FORMATS[entry.kind])


def _whole(job: OpenJob) -> Picture:
    """The picture as it is before it is resized and cut."""
    if job.ref.kind != "image" or isinstance(job.ref.source, FrameFiles):
        raise EngineError("a clip, whose frames a server would cut into tiles; answer with --engine hf or vllm")
    return encoded(open_image(job.ref.source), "png")
