"""Asking a model behind an OpenAI-compatible endpoint: many questions at once, with retries and remembered answers.

An answer that cannot be had is a JudgeError in its place, never a text: no failure can become a score.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Protocol, Self, TypeVar, get_args

import httpx2
import numpy as np

from mmrl.errors import ConfigError, JudgeError, did_you_mean, one_line
from mmrl.scoring.judge.answer_store import AnswerStore
from mmrl.scoring.judge.calls import JudgeCalls, report
from mmrl.scoring.judge.material import (
    Material,
    PictureFormat,
    as_key,
    as_sent,
    chat_content,
    encoded,
    pictures_of,
)

T = TypeVar("T")
Q = TypeVar("Q", bound="Asking")
_PASSING = frozenset((408, 409, 425, 429))  # and every 5xx: what asking again may mend
_LONGEST_WAIT_S = 30.0
_OF_PICTURES = ("max_pixels", "max_frames", "max_pictures", "picture_format")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a judge answers, and how it is asked.

    url: up to `/v1`. model: as the endpoint names it. api_key_env: the environment variable with the key, if any.
    timeout_s: of one request. retries: after the first try. concurrency: requests under way together.
    temperature, max_tokens: of an answer. store: folder for answers that are remembered; None: none are.
    extra: further fields of the request body, such as `chat_template_kwargs`.
    show_media: whether the judge sees the row's pictures and clips. max_pixels: width x height of a picture or frame,
    max_frames: of a clip, evenly. max_pictures: pictures and frames of one row together; more are an error.
    picture_format: png is exact, jpeg smaller. max_request_mb: of one request, in 10^6 bytes.
    version: of a judge that is named by model and version: answers are remembered wherever it answers, and one that
    says to be another model's is none. None: the model is what is behind the url, whatever it says.
    """

    url: str
    model: str
    api_key_env: str | None = None
    timeout_s: float = 60.0
    retries: int = 3
    concurrency: int = 16
    temperature: float = 0.0
    max_tokens: int = 1024
    store: str | None = ".mmrl_cache/judge"
    extra: Mapping[str, Any] = field(default_factory=dict)
    show_media: bool = False
    max_pixels: int = 401_408
    max_frames: int = 8
    max_pictures: int = 16
    picture_format: PictureFormat = "png"
    max_request_mb: float = 32.0
    version: int | None = None

    @classmethod
    def read(cls, options: Mapping[str, Any]) -> Endpoint:
        """From the option `endpoint` of a reward. ConfigError for a key that is unknown, missing or of another type."""
        known = {f.name: f for f in fields(cls)}
        for name, value in options.items():
            if name not in known:
                raise ConfigError(f"endpoint has no key {name!r}; it has {', '.join(known)}{did_you_mean(name, known)}")
            if problem := _problem(name, value):
                raise ConfigError(f"endpoint.{name} is {value!r}, not {problem}")
        if missing := [name for name in ("url", "model") if name not in options]:
            raise ConfigError(f"endpoint lacks the key {missing[0]!r}")
        if "show_media" not in options and (idle := [name for name in _OF_PICTURES if name in options]):
            raise ConfigError(f"endpoint.{idle[0]} does nothing without endpoint.show_media: true")
        return cls(**options)

    @property
    def headers(self) -> dict[str, str]:
        """ConfigError where the environment lacks the key."""
        if self.api_key_env is None:
            return {}
        key = os.environ.get(self.api_key_env)
        if not key:
            raise ConfigError(f"endpoint.api_key_env names {self.api_key_env!r}, which is not set in the environment")
        return {"Authorization": f"Bearer {key}"}


def _problem(name: str, value: Any) -> str | None:
    """What a key of an endpoint must be, where it is not."""
    if name in ("url", "model"):
        return None if isinstance(value, str) and value else "a text"
    if name in ("api_key_env", "store"):
        return None if value is None or isinstance(value, str) else "a text or null"
    if name == "extra":
        return None if isinstance(value, Mapping) else "a mapping"
    if name == "version":
        return None if value is None or _is_whole(value, least=1) else "a whole number from 1 on, or null"
    if name == "show_media":
        return None if isinstance(value, bool) else "true or false"
    if name == "picture_format":
        return None if value in get_args(PictureFormat) else f"one of {', '.join(get_args(PictureFormat))}"
    if name in ("retries", "concurrency", "max_tokens", "max_pixels", "max_frames", "max_pictures"):
        least = 0 if name == "retries" else 1
        return None if _is_whole(value, least=least) else f"a whole number from {least} on"
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return None if is_number and value >= 0 else "a number from 0 on"


def _is_whole(value: Any, *, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back. first_tokens: (text, log-prob) of the likeliest first tokens, where they were asked for.

    logprobs: of the tokens of a given text, where they were asked for.
    """

    text: str
    first_tokens: tuple[tuple[str, float], ...] = ()
    logprobs: tuple[float, ...] = ()


class Asking(Protocol):
    """What an endpoint can be asked; equal ones are asked once."""

    def body(self, endpoint: Endpoint) -> dict[str, Any]:
        """The request, but for the endpoint's own fields. Pictures stand in it as Picture."""
        ...

    def again(self) -> Self:
        """The same, to be asked once more."""
        ...

    def answer(self, response: Any) -> Answer:
        """What a response's JSON says. ValueError, LookupError, TypeError or AttributeError for another form."""
        ...


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked once. top_logprobs: how many of the likeliest first tokens to report (0: none).

    seed: two questions that differ in nothing else may be answered differently.
    """

    system: str
    user: Material
    top_logprobs: int = 0
    seed: int = 0

    def body(self, endpoint: Endpoint) -> dict[str, Any]:
        asked = [{"role": "system", "content": self.system}, {"role": "user", "content": chat_content(self.user)}]
        tokens = 1 if self.top_logprobs else endpoint.max_tokens
        body = {"messages": asked, "temperature": endpoint.temperature, "max_tokens": tokens, "seed": self.seed}
        return {**body, "logprobs": True, "top_logprobs": self.top_logprobs} if self.top_logprobs else body

    def again(self) -> Self:
        return replace(self, seed=self.seed + 1_000_003)

    def answer(self, response: Any) -> Answer:
        choice = response["choices"][0]
        content = (choice.get("logprobs") or {}).get("content") or []
        top = content[0]["top_logprobs"] if content else []
        first_tokens = tuple((entry["token"], float(entry["logprob"])) for entry in top)
        return Answer(choice["message"].get("content") or "", first_tokens)


class ChatClient:
    """Asks an OpenAI-compatible endpoint: a judge, or the server of a model that is measured. A context manager:
    connections are kept until it is closed.

    called: what messages call the model behind it.
    """

    def __init__(self, endpoint: Endpoint, *, called: str = "the judge") -> None:
        self.endpoint, self.called = endpoint, called
        self._client = httpx2.Client(timeout=endpoint.timeout_s, headers=endpoint.headers)
        self._store = AnswerStore(endpoint.store) if endpoint.store is not None else None

    def __enter__(self) -> ChatClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def ask(self, questions: Sequence[Q], read: Callable[[Q, Answer], T]) -> list[T | JudgeError]:
        """What `read` makes of the answer to each question; equal questions are asked once.

        read raises JudgeError for an answer that is no verdict; the question is then asked once more, with another
        seed. A JudgeError stands where no verdict was to be had.
        """
        distinct = list(dict.fromkeys(questions))
        with ThreadPoolExecutor(min(self.endpoint.concurrency, max(len(distinct), 1))) as threads:
            ended = threads.map(lambda q: self._verdict(q, read), distinct)
            found = dict(zip(distinct, ended, strict=True))
        counted: set[Q] = set()
        for question in questions:
            calls = found[question][1]
            report(replace(calls, remembered=calls.judged) if question in counted else calls)
            counted.add(question)
        return [found[question][0] for question in questions]

    def check(self) -> None:
        """ConfigError where the endpoint does not answer, or does not have the model."""
        try:
            response = self._client.get(f"{self.endpoint.url.rstrip('/')}/models")
            response.raise_for_status()
            names = [entry["id"] for entry in response.json()["data"]]
        except (httpx2.HTTPError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(
                f"{self.called} at {self.endpoint.url} does not answer: {_words(error)}; is it running?"
            ) from error
        if self.endpoint.model not in names:
            raise ConfigError(
                f"{self.called} at {self.endpoint.url} has no model {self.endpoint.model!r}; it has {', '.join(names)}"
                f"{did_you_mean(self.endpoint.model, names)}"
            )
        if self.endpoint.show_media or self.endpoint.version is not None:
            self._check_answer()

    def _check_answer(self) -> None:
        """ConfigError where the model takes no picture, which it is shown, or answers as another one."""
        material: Material = "Which colour is snow?"
        if self.endpoint.show_media:
            grey = encoded(np.full((56, 56, 3), 128, np.uint8), self.endpoint.picture_format)
            material = ("Which colour is this?", grey)
        question = Question("Reply with one word.", material)
        with ChatClient(replace(self.endpoint, max_tokens=1, store=None)) as client:
            try:
                client.reply(question)
            except JudgeError as error:
                raise ConfigError(str(error)) from error

    def _verdict(self, question: Q, read: Callable[[Q, Answer], T]) -> tuple[T | JudgeError, JudgeCalls]:
        attempts = (question, question.again())
        for answer in filter(None, map(self._remembered, attempts)):
            with contextlib.suppress(JudgeError):  # it was a verdict to another reader
                return read(question, answer), JudgeCalls(judged=1, remembered=1)
        problem, calls = JudgeError("not asked"), JudgeCalls()
        for attempt in attempts:
            calls = JudgeCalls(failed=1)
            try:
                answer = self.reply(attempt)
                calls = JudgeCalls(unread=1)
                verdict = read(question, answer)
            except JudgeError as error:
                problem = error
                continue
            if self._store is not None:
                self._store.put(self._key(attempt), json.dumps(asdict(answer)))
            return verdict, JudgeCalls(judged=1)
        return problem, calls

    def _remembered(self, question: Asking) -> Answer | None:
        stored = self._store.get(self._key(question)) if self._store is not None else None
        if stored is None:
            return None
        record = json.loads(stored)
        first_tokens = tuple((text, value) for text, value in record["first_tokens"])
        return Answer(record["text"], first_tokens, tuple(record.get("logprobs", ())))

    def _key(self, question: Asking) -> str:
        judge = self.endpoint.url if self.endpoint.version is None else {"version": self.endpoint.version}
        return json.dumps([judge, self._body(question)], sort_keys=True, default=as_key)

    def _body(self, question: Asking) -> dict[str, Any]:
        return {"model": self.endpoint.model, **question.body(self.endpoint), **self.endpoint.extra}

    def reply(self, question: Asking) -> Answer:
        """Ask until there is an answer, or asking again cannot help. Raises JudgeError. Threads may ask."""
        content, wait_s, reason = self._content(question), 0.5, ""
        url = f"{self.endpoint.url.rstrip('/')}/chat/completions"
        for attempt in range(self.endpoint.retries + 1):
            if attempt:
                time.sleep(min(wait_s, _LONGEST_WAIT_S))
                wait_s *= 2
            try:
                response = self._client.post(url, content=content, headers={"Content-Type": "application/json"})
            except httpx2.HTTPError as error:
                reason = _words(error)
                continue
            if response.status_code < 400:
                return self._read(question, response)
            reason = f"status {response.status_code}: {one_line(response.text[:200])}"
            if response.status_code not in _PASSING and response.status_code < 500:
                reason += self._refused_pictures(question)
                break
            wait_s = max(wait_s, _retry_after(response))
        raise JudgeError(f"{self.called} at {self.endpoint.url} gave no answer: {reason}")

    def _read(self, question: Asking, response: httpx2.Response) -> Answer:
        try:
            record = response.json()
            answer, model = question.answer(record), record.get("model")
        except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
            raise JudgeError(
                f"{self.called}'s response is not of the form asked for: {one_line(response.text[:200])}"
            ) from error
        self._check_model(model)
        return answer

    def _check_model(self, said: Any) -> None:
        """JudgeError where a judge that is named by model and version says that it is another one."""
        if self.endpoint.version is not None and isinstance(said, str) and said != self.endpoint.model:
            raise JudgeError(
                f"{self.called} at {self.endpoint.url} answers as {one_line(said)!r}, not as {self.endpoint.model!r};"
                " the model must be named as its server names it"
            )

    def _content(self, question: Asking) -> bytes:
        """The request as it is sent. JudgeError where it is too large."""
        content = json.dumps(self._body(question), default=as_sent).encode()
        if len(content) > self.endpoint.max_request_mb * 1_000_000:
            raise JudgeError(
                f"the request has {len(content) / 1_000_000:.1f} MB, endpoint.max_request_mb is"
                f" {self.endpoint.max_request_mb:g}: raise it, lower endpoint.max_pixels or max_frames, or take"
                " picture_format: jpeg"
            )
        return content

    def _refused_pictures(self, question: Asking) -> str:
        """What may help where a request with pictures was refused."""
        count = len(pictures_of(question.user)) if isinstance(question, Question) else 0
        if not count:
            return ""
        return (
            f"; pictures in the request: {count}. Does {self.endpoint.model} read pictures, and so many (vLLM:"
            " --limit-mm-per-prompt)? Else lower endpoint.max_frames or max_pixels, or set endpoint.show_media: false"
        )


def _retry_after(response: httpx2.Response) -> float:
    value = response.headers.get("retry-after", "")
    return float(value) if value.isdecimal() else 0.0


def _words(error: Exception) -> str:
    return one_line(f"{type(error).__name__}: {error}")


_judges: dict[str, ChatClient] = {}
_lock = threading.Lock()


def judge_of(options: Mapping[str, Any]) -> ChatClient:
    """Who asks the judge of an option `endpoint`, one per process and endpoint, so that connections are kept."""
    endpoint = Endpoint.read(options)
    key = repr(endpoint)
    with _lock:
        if key not in _judges:
            _judges[key] = ChatClient(endpoint)
        return _judges[key]


def preflight(options: Mapping[str, Any], timeout_s: float) -> None:
    """What every judge reward checks at start: the endpoint's keys, that it answers, and that time limits compose.

    timeout_s: `rewards.timeout_s`, which counts per completion: one request must fit into it. Several `votes` of a
    reward that has them must be able to differ.
    """
    endpoint = Endpoint.read(options["endpoint"])
    votes = options.get("votes", 1)
    if votes > 1 and not endpoint.extra.get("temperature", endpoint.temperature):
        raise ConfigError(
            f"'votes' is {votes}, but endpoint.temperature is 0, at which all votes are the same; set"
            " endpoint.temperature (such as 0.7), or 'votes' to 1"
        )
    if endpoint.timeout_s > timeout_s:
        raise ConfigError(
            f"endpoint.timeout_s ({endpoint.timeout_s:g}) is above rewards.timeout_s ({timeout_s:g}); a request must"
            " end before the reward is stopped: raise the latter or lower the former"
        )
    judge_of(options["endpoint"]).check()
