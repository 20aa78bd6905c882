"""The engine `vllm_server`: completions from rollout servers, from as many threads as ask.

All traffic runs in one event loop in a thread of its own. `generate` may be called from a background thread while the
trainer computes, also several times at once; `sync_weights` may come in between.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import uuid
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from mmrl.errors import EngineError
from mmrl.models.families import FamilyProcessor
from mmrl.rollout.server.http import BehindError, LostError, ServerHttp
from mmrl.rollout.server.model_facts import model_facts
from mmrl.rollout.server.pool import Pool, Server, Work
from mmrl.rollout.server.push import Way, push_weights
from mmrl.rollout.server.transfer import WeightTransfer, can_transfer
from mmrl.rollout.server.weight_files import remove_left_files
from mmrl.rollout.server.wire import WeightsId, pack_request, unpack_group
from mmrl.rollout.types import Group, Request
from mmrl.rollout.vllm_decode import GivenUpError, check_vllm_request
from mmrl.rollout.weight_names import ExpectedWeights

LOG = logging.getLogger("mmrl.rollout")
T = TypeVar("T")


@dataclass(frozen=True)
class ClientOptions:
    """`rollout.servers` of the configuration, see there."""

    urls: tuple[str, ...]
    health_interval_s: float
    start_timeout_s: float
    timeout_s: float
    retries: int
    weights: Way


@dataclass(frozen=True)
class Processes:
    """The trainer's processes. All have an engine; the main one gives the servers their weights.

    together: what a function returns on this process; where it raises in one, all raise. shared: the main one's value.
    """

    is_main: bool
    count: int
    together: Callable[[Callable[[], Any]], Any]
    shared: Callable[[Any], Any]


class ServerEngine:
    """Implements the Engine protocol with rollout servers (`mmrl serve-rollouts`).

    A request that a server does not answer goes to another one, so each is answered once. `retried` counts those.
    Raises EngineError when no server answers, refuses the token, or serves another model.
    """

    def __init__(
        self,
        processor: FamilyProcessor,
        http: ServerHttp,
        options: ClientOptions,
        *,
        expected: ExpectedWeights,
        dtype: str,
        processes: Processes,
    ) -> None:
        self.processor = processor
        self.retried = 0
        self._options, self._processes, self._http = options, processes, http
        self._expected = expected
        self._transfer: WeightTransfer | None = None
        self._pool = Pool(options.urls, http, model=model_facts(processor, expected, dtype=dtype))
        self._session = processes.shared(uuid.uuid4().hex)
        self._number = 0
        self._syncing = threading.Lock()
        self._closing = threading.Lock()
        self._closed = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="rollout servers", daemon=True)
        self._thread.start()
        if processes.is_main:
            remove_left_files()
        try:
            processes.together(lambda: self._call(self._open()))
        except BaseException:  # Ctrl-C, too: the loop's thread must not outlive a failed start
            self.close()
            raise

    @property
    def banned_ids(self) -> tuple[int, ...]:
        """Vision tokens and ids without a token."""
        return self.processor.banned_ids

    @property
    def policy_version(self) -> int:
        """Of the weights that were sent last; 0 before."""
        return self._pool.weights.policy_version if self._pool.weights is not None else 0

    @property
    def has_weights(self) -> bool:
        """False before the first weights, and, where one process decides, while a server waits for the present ones."""
        waits = self._processes.count == 1 and any(server.state == "behind" for server in self._pool.servers)
        return self._pool.weights is not None and not waits

    def generate(self, requests: Iterable[Request]) -> Iterator[Group]:
        """Yield one Group per request as it comes back. Raises EngineError, before anything is sent, for requests that
        cannot be served; later for those a server refuses, for one that was lost too often, and when no server is left.

        `policy_version` of a completion is that of the weights its server had.
        """
        requests = list(requests)
        if self._closed:
            raise EngineError("the engine is closed")
        if self._pool.weights is None:
            raise EngineError("the rollout servers have no weights yet; sync_weights comes before generate")
        longest = min((s.facts["max_model_len"] for s in self._pool.servers if s.facts), default=0)
        for request in requests:
            check_vllm_request(request, banned_ids=self.banned_ids, max_model_len=longest)
        return self._groups(requests)

    def sync_weights(self, named_tensors: Iterable[tuple[str, torch.Tensor]], policy_version: int) -> None:
        """Give all servers that answer the trainer's weights, merged and by the names of transformers; returns when
        they have them. Servers that do not answer are left out until they are back and the next weights come.

        Requests on their way end with the old weights; the servers do not mix. Raises EngineError where names or shapes
        are not the servers', or no server takes the weights.
        """
        with self._syncing:
            # Counted whatever comes of it: a server that took weights of a sync that failed must not pass for right.
            self._number += 1
            tensors, weights = iter(named_tensors), WeightsId(self._session, self._number, policy_version)
            taken = self._processes.shared(self._processes.together(lambda: self._send(tensors, weights)))
            self._call(self._end_sync(weights, taken))

    def sleep(self) -> None:
        """Nothing: the servers' memory is not the trainer's."""

    def wake(self) -> None:
        """Nothing, as for `sleep`."""

    def close(self) -> None:
        """Give up what is on its way. The servers stay."""
        with self._closing:  # what is in the loop now is given up by `_shut`, and nothing comes after
            if self._closed:
                return
            self._closed = True
        self._call(self._shut())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """What a coroutine returns, run in the engine's loop, awaited in this thread."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    async def _open(self) -> None:
        await self._pool.open(timeout_s=self._options.start_timeout_s)
        self._watch = asyncio.create_task(self._pool.watch(self._options.health_interval_s))

    async def _shut(self) -> None:
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._http.close()

    def _groups(self, requests: Sequence[Request]) -> Iterator[Group]:
        answers: queue.SimpleQueue[Group | BaseException] = queue.SimpleQueue()
        with self._closing:
            if self._closed:
                raise EngineError("the engine is closed")
            job = asyncio.run_coroutine_threadsafe(self._answer_all(requests, answers), self._loop)
        # Of no meaning behind the answers; before them it says that there will be none.
        job.add_done_callback(lambda job: answers.put(EngineError("the engine was closed")))
        try:
            for _ in requests:
                answer = answers.get()
                if isinstance(answer, BaseException):
                    raise answer
                yield answer
        finally:
            job.cancel()

    async def _answer_all(self, requests: Sequence[Request], answers: queue.SimpleQueue[Group | BaseException]) -> None:
        """Put one answer per request. A request that is given up is one that its server gives up, too."""

        async def answer(request: Request) -> None:
            try:
                answers.put(await self._answer(request))
            except EngineError as error:
                answers.put(error)
                raise

        with suppress(BaseExceptionGroup):  # of errors that were put; whoever takes the first one raises it
            async with asyncio.TaskGroup() as tasks:
                for request in requests:
                    tasks.create_task(answer(request))

    async def _answer(self, request: Request) -> Group:
        tokens = len(request.prompt.prompt_ids_T) + request.n * request.sampling.max_new_tokens
        work, tried = Work(tokens, request.n), _Tried(request)
        while True:
            server = await self._next_server(work, tried)
            try:
                return await self._ask(server, request)
            except BehindError as error:
                self._pool.fall_behind(server, str(error))
            except (LostError, GivenUpError) as error:
                self.retried += 1
                tried.note(server, error)
                if isinstance(error, LostError):
                    self._pool.lose(server, str(error))
                if len(tried.problems) > self._options.retries:
                    raise EngineError(tried.told()) from error
            finally:
                self._pool.release(server, work)

    async def _next_server(self, work: Work, tried: _Tried) -> Server:
        """One that has not given up the request."""
        try:
            return await self._pool.acquire(work, without=tried.gave_up)
        except EngineError as error:
            if not tried.gave_up:
                raise
            raise EngineError(f"{tried.told()}; {error}") from error

    async def _ask(self, server: Server, request: Request) -> Group:
        assert self._pool.weights is not None
        body = pack_request(request, self._pool.weights)
        try:
            return unpack_group(await self._http.post(f"{server.url}/generate", content=body), request)
        except (LostError, BehindError, GivenUpError):
            raise
        except EngineError as error:
            raise EngineError(f"rollout server {server.url}: {error}") from error

    def _send(self, tensors: Iterator[tuple[str, torch.Tensor]], weights: WeightsId) -> list[str]:
        """URLs of the servers that took the weights. Every process goes through all tensors: under ZeRO-3 each of them
        is gathered by all.
        """
        try:
            if not self._processes.is_main:
                return []
            receivers = _Receivers(self, self._call(self._pool.begin_sync()))
            transfer = self._transfer_to(receivers.servers)
            push_weights(tensors, receivers, weights, way=self._options.weights, transfer=transfer)
            return [server.url for server in receivers.servers]
        except BaseException:  # Ctrl-C, too: requests would wait for ever for the end of the update
            self._call(self._give_up_sync())
            raise
        finally:
            for _ in tensors if self._processes.count > 1 else ():
                pass

    def _transfer_to(self, servers: list[Server]) -> WeightTransfer | None:
        """The transfer between GPUs where it is wanted and possible; None: weights go through host memory."""
        possible = can_transfer(servers)
        if self._options.weights == "nccl" and not possible:
            raise EngineError(
                "rollout.servers.weights is nccl, but trainer and servers do not each have a GPU of their own; use auto"
            )
        if self._options.weights not in ("auto", "nccl") or not possible:
            return None
        if self._transfer is None:
            self._transfer = WeightTransfer(self._expected, timeout_s=self._options.timeout_s)
        return self._transfer

    async def _give_up_sync(self) -> None:
        self._pool.give_up_sync()

    async def _end_sync(self, weights: WeightsId, taken: Sequence[str]) -> None:
        self._pool.end_sync(weights, [server for server in self._pool.servers if server.url in taken])


class _Tried:
    """What became of a request so far. gave_up: servers that are well and could not answer it."""

    def __init__(self, request: Request) -> None:
        self.gave_up: list[Server] = []
        self.problems: list[str] = []
        self._request = request

    def note(self, server: Server, error: LostError | GivenUpError) -> None:
        self.problems.append(f"{server.url}: {error}")
        if isinstance(error, GivenUpError):
            LOG.warning("rollout server %s gave up a request, which goes to another: %s", server.url, error)
            self.gave_up.append(server)

    def told(self) -> str:
        name = f"request {self._request.request_id} ({self._request.prompt.sample_id})"
        return f"{name} has no answer; servers asked: {len(self.problems)}; {'; '.join(self.problems)}"


class _Receivers:
    """See `push.Receivers`."""

    def __init__(self, engine: ServerEngine, servers: list[Server]) -> None:
        self.servers = servers
        self._engine = engine

    def post(self, path: str, body: Callable[[Server], dict[str, Any]]) -> None:
        outcomes = self._engine._call(self._post_all(path, body))
        for server, outcome in zip(list(self.servers), outcomes, strict=True):
            if isinstance(outcome, LostError):
                self.servers.remove(server)
        for outcome in outcomes:
            if outcome is not None and not isinstance(outcome, LostError):
                raise outcome
        if not self.servers:
            raise EngineError(f"no rollout server took the weights: {'; '.join(map(str, outcomes))}")

    async def _post_all(self, path: str, body: Callable[[Server], dict[str, Any]]) -> list[EngineError | None]:
        return await asyncio.gather(*(self._post(server, path, body(server)) for server in self.servers))

    async def _post(self, server: Server, path: str, body: dict[str, Any]) -> EngineError | None:
        try:
            await self._engine._http.post(server.url + path, **body)
        except LostError as error:
            self._engine._pool.lose(server, str(error))
            return LostError(f"{server.url}: {error}")
        except EngineError as error:
            return EngineError(f"rollout server {server.url}: {error}")
        return None
