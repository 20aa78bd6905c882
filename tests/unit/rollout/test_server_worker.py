"""The thread of a server's engine, where something fails that no request should reach."""

import queue

import pytest
from makers.vlm import tiny_vlm

from mmrl.rollout.server.wire import WeightsId
from mmrl.rollout.server.worker import FailedError, WeightStream, Worker
from mmrl.rollout.types import Request, Sampling


class FaultyEngine:
    """Takes weights and divides by zero."""

    is_broken = False

    def sync_weights(self, named_tensors, policy_version):
        for _ in named_tensors:
            pass

    def add(self, request):
        return 1 // 0


def test_a_fault_of_ours_ends_the_server_and_is_told_to_everybody(caplog):
    failures: queue.Queue[str] = queue.Queue()
    worker = Worker(FaultyEngine(), on_failure=failures.put)
    weights = WeightsId("session", 1, 1)
    stream = WeightStream(weights, patience_s=10)
    worker.update(stream)
    stream.end()
    stream.done.result(timeout=10)
    request = Request("0", tiny_vlm("qwen3_vl").prompt([1]), n=1, sampling=Sampling(), seed=1)
    said = r"the server's engine failed: ZeroDivisionError: "

    with pytest.raises(FailedError, match=said):
        worker.submit(request, weights).result(timeout=10)
    assert failures.get(timeout=10).startswith("the server's engine failed: ZeroDivisionError")
    with pytest.raises(FailedError, match=said):
        worker.submit(request, weights)
    assert "return 1 // 0" in caplog.text
