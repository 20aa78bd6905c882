"""A rollout engine with weights of its own that needs no vLLM: the reference engine over a copy of the policy."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from mmrl.rollout.hf_engine import HfEngine
from mmrl.rollout.types import Group, Request


class CopiedEngine(HfEngine):
    """Notes the thread of each `generate`. `hold` runs in that thread before the first token."""

    threads: list[str]
    hold: Callable[[CopiedEngine], None] | None = None
    is_generating = False
    is_closed = False

    def generate(self, requests: Iterable[Request]) -> Iterator[Group]:
        assert not self.is_generating
        self.threads.append(threading.current_thread().name)
        self.is_generating = True
        try:
            if self.hold is not None:
                self.hold()
            yield from super().generate(requests)
        finally:
            self.is_generating = False

    def sync_weights(self, named_tensors: Iterable[Any], policy_version: int) -> None:
        assert not self.is_generating
        super().sync_weights(named_tensors, policy_version)

    def sleep(self) -> None:
        assert not self.is_generating
        super().sleep()

    def close(self) -> None:
        self.is_closed = True
        self._state = "closed"


def use_copied_engine(monkeypatch: pytest.MonkeyPatch) -> type[CopiedEngine]:
    """Runs with `rollout.engine: vllm` get a CopiedEngine from now on; returns its class, fresh."""

    class Engine(CopiedEngine):
        pass

    Engine.threads = []

    def opened(config: Any, policy: Any, processor: Any) -> CopiedEngine:
        return Engine(copy.deepcopy(policy), processor)

    monkeypatch.setattr("mmrl.training.runtime.open_engine", opened)
    monkeypatch.setattr("mmrl.config.rollout_checks.find_spec", lambda name: name)
    return Engine
