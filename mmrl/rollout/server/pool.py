"""The rollout servers of a trainer: which can be asked, which is next, what became of the others.

Everything here runs in one event loop.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from mmrl.errors import EngineError
from mmrl.rollout.server.http import LostError, ServerHttp
from mmrl.rollout.server.wire import WeightsId

LOG = logging.getLogger("mmrl.rollout")


@dataclass(eq=False)
class Server:
    """One server as the trainer sees it.

    state: `ready` has the present weights; `behind` answers but has others; `syncing` is taking the present ones;
    `lost` does not answer, for `reason`. tokens, completions: asked for and not answered yet.
    """

    url: str
    state: Literal["ready", "behind", "syncing", "lost"] = "lost"
    reason: str = "not asked yet"
    facts: dict[str, Any] = field(default_factory=dict)
    tokens: int = 0
    completions: int = 0


@dataclass(frozen=True, slots=True)
class Work:
    """What a request costs at most: tokens of prompt and completions, and the completions."""

    tokens: int
    completions: int


class Pool:
    """Chooses servers and keeps an eye on them. model: what each must serve (`serve.model_facts`)."""

    def __init__(self, urls: Sequence[str], http: ServerHttp, *, model: Mapping[str, Any]) -> None:
        self.servers = [Server(url.rstrip("/")) for url in urls]
        self.weights: WeightsId | None = None
        self._http = http
        self._model = model
        self._changed = asyncio.Event()
        self._probing = asyncio.Lock()

    async def open(self, *, timeout_s: float) -> None:
        """Wait for all servers, until the time is over; then go on with those that answer. EngineError for none."""
        end = time.monotonic() + timeout_s
        while True:
            await self.probe_all()
            lost = self._in_state("lost")
            if not lost or time.monotonic() >= end:
                break
            await asyncio.sleep(min(1.0, timeout_s))
        if len(lost) == len(self.servers):
            raise EngineError(f"no rollout server answers: {self._told()}")
        for server in lost:
            LOG.warning("rollout server %s is left out: %s", server.url, server.reason)

    async def watch(self, interval_s: float) -> None:
        """Ask all servers how they are, again and again."""
        while True:
            await asyncio.sleep(interval_s)
            try:
                await self.probe_all()
            except EngineError as error:  # a server of another model came up at a known address
                LOG.warning("%s", error)

    async def probe_all(self) -> None:
        """Bring the states up to date. Raises EngineError for a server that can never be right."""
        async with self._probing:
            await asyncio.gather(*(self._probe(server) for server in self.servers if server.state != "syncing"))

    async def acquire(self, work: Work, *, without: Collection[Server] = ()) -> Server:
        """The ready server with the least work, once one has room. EngineError, which tells of all, for none.

        without: servers that are not to be asked.
        """
        while True:
            ready = [server for server in self._in_state("ready") if server not in without]
            free = [server for server in ready if _has_room(server, work)]
            if free:
                server = min(free, key=lambda server: server.tokens)
                server.tokens += work.tokens
                server.completions += work.completions
                return server
            if not ready and not self._in_state("syncing"):
                await self.probe_all()
                if all(server in without for server in self._in_state("ready", "syncing")):
                    raise EngineError(f"no rollout server can answer: {self._told()}")
                continue
            await self._changed.wait()

    def release(self, server: Server, work: Work) -> None:
        server.tokens -= work.tokens
        server.completions -= work.completions
        self._tell()

    def lose(self, server: Server, reason: str) -> None:
        """Ask this server no more, until it is found well."""
        if server.state != "lost":
            others = len(self._in_state("ready", "syncing")) - (server.state in ("ready", "syncing"))
            LOG.warning("rollout server %s is lost (%s); %d are left", server.url, reason, others)
        self._set(server, "lost", reason)

    def fall_behind(self, server: Server, reason: str) -> None:
        """Ask this server no more, until it has the present weights."""
        if server.state == "ready":
            LOG.warning("rollout server %s waits for the next weights: %s", server.url, reason)
            self._set(server, "behind", reason)

    async def begin_sync(self) -> list[Server]:
        """All servers that answer; they are asked for nothing else from now on. EngineError for none."""
        await self.probe_all()
        reached = self._in_state("ready", "behind")
        if not reached:
            raise EngineError(f"no rollout server can take weights: {self._told()}")
        for server in reached:
            self._set(server, "syncing", "is taking weights")
        return reached

    def end_sync(self, weights: WeightsId, taken: Sequence[Server]) -> None:
        """These servers have the weights, which are now the present ones."""
        self.weights = weights
        for server in self._in_state("ready", "syncing", "behind"):
            self._set(server, "ready" if server in taken else "behind", "has other weights")

    def give_up_sync(self) -> None:
        """What the servers now have is not known."""
        for server in self._in_state("syncing"):
            self._set(server, "behind", "did not get the present weights")

    async def _probe(self, server: Server) -> None:
        try:
            facts = await self._http.health(server.url)
        except LostError as error:
            self.lose(server, str(error))
            return
        except EngineError as error:
            raise EngineError(f"rollout server {server.url}: {error}") from error
        if server.state == "syncing":  # since it was asked
            return
        server.facts = facts
        self._check_model(server)
        held = facts.get("weights")
        if server.state == "lost" and self.weights is not None:
            LOG.warning("rollout server %s is back; without the present weights it waits for the next", server.url)
        if self.weights is not None and held is not None and WeightsId(**held) == self.weights:
            self._set(server, "ready", "")
        elif server.state == "ready":
            self.fall_behind(server, "it has other weights, as after a restart")
        else:
            self._set(server, "behind", "has other weights" if held else "has no weights")

    def _check_model(self, server: Server) -> None:
        theirs = server.facts.get("model", {})
        different = [name for name, value in self._model.items() if theirs.get(name) != value]
        if different:
            self._set(server, "lost", "serves another model")
            raise EngineError(
                f"rollout server {server.url} serves another model or setting; different: {', '.join(different)}; "
                "start it with the configuration of this run"
            )

    def _in_state(self, *states: str) -> list[Server]:
        return [server for server in self.servers if server.state in states]

    def _set(self, server: Server, state: Literal["ready", "behind", "syncing", "lost"], reason: str) -> None:
        server.state, server.reason = state, reason
        self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _told(self) -> str:
        return "; ".join(
            f"{server.url} {server.state} ({server.reason})" if server.reason else f"{server.url} {server.state}"
            for server in self.servers
        )


def _has_room(server: Server, work: Work) -> bool:
    """Two batches at most are with a server: what it does not decode yet could still go to another."""
    most = 2 * server.facts["max_num_seqs"]
    return server.completions == 0 or server.completions + work.completions <= most
