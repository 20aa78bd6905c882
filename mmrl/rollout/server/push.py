"""Weights from the trainer to its rollout servers: one function, whatever the way.

`shared_memory`: a file in /dev/shm, which a server of the same machine maps. `upload`: HTTP bodies with a checksum.
Both go part by part, SHARD_BYTES at a time, so neither side holds the model a second time. `nccl`: vLLM's weight
transfer from GPU to GPUs (see `transfer`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import asdict
from typing import Any, Literal, Protocol

import torch
import xxhash

from mmrl.errors import EngineError
from mmrl.rollout.server.pool import Server
from mmrl.rollout.server.weight_files import has_room, machine, weight_file
from mmrl.rollout.server.wire import WeightsId, pack

SHARD_BYTES = 256 << 20
Way = Literal["auto", "shared_memory", "upload", "nccl"]
NamedTensors = Iterable[tuple[str, torch.Tensor]]


class Receivers(Protocol):
    """The servers that take an update. Those that are lost meanwhile leave."""

    @property
    def servers(self) -> list[Server]: ...

    def post(self, path: str, body: Callable[[Server], dict[str, Any]]) -> None:
        """Ask all at once and wait for all. EngineError where one refuses, or none is left."""
        ...


class Transfer(Protocol):
    """See `transfer.WeightTransfer`."""

    def send(self, named_tensors: Iterator[tuple[str, torch.Tensor]], receivers: Receivers) -> None: ...


def push_weights(
    named_tensors: NamedTensors, receivers: Receivers, weights: WeightsId, *, way: Way, transfer: Transfer | None = None
) -> None:
    """Give the servers these weights, under the names of transformers. transfer: for the way `nccl`.

    Requests on their way end with the old weights first; requests that come meanwhile wait for the new ones. Raises
    EngineError where names or shapes are not the server's, with which it then has no weights.
    """
    try:
        begin = {"weights": asdict(weights), "by_transfer": transfer is not None}
        receivers.post("/weights/begin", lambda server: {"record": begin})
        if transfer is not None:
            transfer.send(iter(named_tensors), receivers)
        else:
            for tensors in shards(named_tensors, SHARD_BYTES):
                _send(tensors, receivers, way)
    except BaseException as error:  # Ctrl-C, too: a server would wait for the rest of the weights
        reason = f"the trainer gave up: {str(error) or type(error).__name__}"
        with suppress(EngineError):  # the servers' answer to this is that they have no weights
            receivers.post("/weights/end", lambda server: {"record": {"abort": reason}})
        raise
    receivers.post("/weights/end", lambda server: {"record": {"abort": None}})


def shards(named_tensors: NamedTensors, num_bytes: int) -> Iterator[dict[str, torch.Tensor]]:
    """The tensors in host memory, in parts of at most num_bytes; a larger tensor is a part by itself.

    Tensors of 3, 3, 9 and 1 bytes in parts of 6: {3, 3}, {9}, {1}.
    """
    return shards_where_they_are(((name, tensor.detach().cpu()) for name, tensor in named_tensors), num_bytes)


def shards_where_they_are(named_tensors: NamedTensors, num_bytes: int) -> Iterator[dict[str, torch.Tensor]]:
    """As `shards`, on the tensors' own device."""
    part: dict[str, torch.Tensor] = {}
    size = 0
    for name, tensor in named_tensors:
        if name in part:
            raise EngineError(f"weight {name} was sent twice")
        if part and size + tensor.nbytes > num_bytes:
            yield part
            part, size = {}, 0
        part[name] = tensor.detach().contiguous()
        size += tensor.nbytes
    if part:
        yield part


def _send(tensors: dict[str, torch.Tensor], receivers: Receivers, way: Way) -> None:
    """One part: a file for the servers of this machine, bytes for the others; each is made once, and only if needed."""
    here = machine() if way != "upload" and has_room(sum(t.nbytes for t in tensors.values())) else None
    near = [server for server in receivers.servers if server.facts["machine"] == here]
    if way == "shared_memory" and len(near) < len(receivers.servers):
        far = next(server.url for server in receivers.servers if server not in near)
        raise EngineError(
            f"rollout.servers.weights is shared_memory, but {far} does not share this machine's /dev/shm, or that is "
            "full; use upload or auto"
        )
    with ExitStack() as held:
        bodies: dict[bool, dict[str, Any]] = {}
        if near:
            bodies[True] = {"record": {"file": held.enter_context(weight_file(tensors))}}
        if len(near) < len(receivers.servers):
            content = pack({}, tensors)
            bodies[False] = {"content": content, "headers": {"X-Checksum": xxhash.xxh3_128_hexdigest(content)}}
        receivers.post("/weights/shard", lambda server: bodies[server in near])
