"""Weights from the trainer's GPU to servers' GPUs by vLLM's weight transfer (NCCL broadcasts), without host memory.

The trainer is rank 0 of a group of its own, each server one rank behind it. vLLM's trainer side does the broadcasts and
drives the servers through a client of four calls, which here are requests to them. When a server joins or leaves, the
group is made anew.

A server that dies within a broadcast leaves the others waiting in it; the trainer gives up after a time and the run
ends with an error. This way has not been run on GPUs yet.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import torch

from mmrl.errors import EngineError
from mmrl.rollout.server.pool import Server
from mmrl.rollout.server.push import Receivers, shards_where_they_are
from mmrl.rollout.vllm_guard import engine_errors
from mmrl.rollout.vllm_private import open_weight_transfer, parameter_meta
from mmrl.rollout.weight_names import ExpectedWeights, WeightCheck

# How much of the model is gathered on the trainer's GPU at once.
PART_BYTES = 1 << 30


def can_transfer(servers: list[Server]) -> bool:
    """Whether trainer and servers each have a GPU that no other of them has."""
    gpus = [gpu_id(), *(server.facts.get("gpu") for server in servers)]
    return None not in gpus and len(set(gpus)) == len(gpus)


def gpu_id() -> str | None:
    """The GPU of this process; None where there is none."""
    if not torch.cuda.is_available():
        return None
    return str(torch.cuda.get_device_properties(torch.cuda.current_device()).uuid)


class WeightTransfer:
    """The trainer's end of the transfer, kept from one update to the next. timeout_s: for one part of the weights."""

    def __init__(self, expected: ExpectedWeights, *, timeout_s: float) -> None:
        self._expected = expected
        self._timeout_s = timeout_s
        self._members: tuple[str, ...] = ()
        self._sender: Any = None
        self._source = _Part()

    def send(self, named_tensors: Iterator[tuple[str, torch.Tensor]], receivers: Receivers) -> None:
        """All weights, part by part, within an update that the servers have begun.

        Names and shapes are checked here before they are sent, for a server that refuses a part leaves the trainer
        waiting in the broadcast.
        """
        client = _Client(receivers)
        self._meet(client, receivers)
        check = WeightCheck(self._expected)
        for tensors in shards_where_they_are(check.passing(named_tensors), PART_BYTES):
            self._source.tensors = tensors
            within(self._timeout_s, self._sender.send_weights)
        check.finish()
        receivers.post("/weights/transfer", lambda server: step("finish_weight_update"))

    def _meet(self, client: _Client, receivers: Receivers) -> None:
        members = tuple(server.url for server in receivers.servers)
        if self._sender is not None and members == self._members:
            self._sender.client = client
            return
        if self._sender is not None:
            self._sender.shutdown()
        address = address_towards(receivers.servers[0].url)
        size = 1 + len(members)
        with engine_errors("opening the weight transfer"):
            self._sender = within(
                self._timeout_s,
                lambda: open_weight_transfer(client, self._source, address=address, group_size=size),
            )
        self._members = members


class _Part:
    """What is sent next, in the form of vLLM's `WeightSource`."""

    def __init__(self) -> None:
        self.tensors: dict[str, torch.Tensor] = {}

    def metadata(self) -> list[Any]:
        return [parameter_meta(name, tensor) for name, tensor in self.tensors.items()]

    def __iter__(self) -> Iterator[tuple[str, torch.Tensor]]:
        return iter(self.tensors.items())


class _Client:
    """vLLM's `VLLMWeightSyncClient` over the servers: one update of several parts is begun once and ended once."""

    def __init__(self, receivers: Receivers) -> None:
        self._receivers = receivers
        self._begun = False

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None:
        ranks = {server.url: 1 + number for number, server in enumerate(self._receivers.servers)}

        def body(server: Server) -> dict[str, Any]:
            return step("init_weight_transfer_engine", init_info={**init_info, "rank_offset": ranks[server.url]})

        self._receivers.post("/weights/transfer", body)

    def start_weight_update(self) -> None:
        if not self._begun:
            self._receivers.post("/weights/transfer", lambda server: step("start_weight_update"))
        self._begun = True

    def update_weights(self, update_info: dict[str, Any]) -> None:
        self._receivers.post("/weights/transfer", lambda server: step("update_weights", update_info=update_info))

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        """Not yet: other parts may follow."""


def step(call: str, **arguments: Any) -> dict[str, Any]:
    """The body of a request for one call of vLLM's worker."""
    return {"record": {"call": call, "arguments": arguments}}


def address_towards(url: str) -> tuple[str, int]:
    """An address of this machine that the server can reach, with a free port."""
    host = urlsplit(url).hostname or ""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((host, 9))  # sends nothing: only asks which way leads there
        own = probe.getsockname()[0]
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.bind((own, 0))
        return own, listener.getsockname()[1]


def within(seconds: float, work: Callable[[], Any]) -> Any:
    """What `work` returns; EngineError after so long. It goes on in its thread, which no exit waits for."""
    result: list[Any] = []
    problem: list[Exception] = []
    device = torch.cuda.current_device() if torch.cuda.is_available() else None

    def run() -> None:
        if device is not None:
            torch.cuda.set_device(device)
        try:
            with engine_errors("transferring weights"):
                result.append(work())
        except EngineError as error:
            problem.append(error)

    thread = threading.Thread(target=run, name="weight transfer", daemon=True)
    thread.start()
    thread.join(seconds)
    if problem:
        raise problem[0]
    if not result:
        raise EngineError(
            f"weights were not transferred within {seconds:g} s; a server may have died meanwhile: start the run again "
            "with --resume, or set rollout.servers.weights to upload"
        )
    return result[0]
