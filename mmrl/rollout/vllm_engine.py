"""The fast engine: vLLM in the trainer's process, fed with what was rendered, ids and patches, and nothing else.

How requests go through it is in `vllm_decode`, vLLM itself in `vllm_private`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import torch

from mmrl.errors import EngineError
from mmrl.models.families import FamilyProcessor
from mmrl.rollout.types import Group, Request
from mmrl.rollout.vllm_decode import Decoding, Refused
from mmrl.rollout.vllm_private import VllmCore
from mmrl.rollout.vllm_types import CoreOptions, TransferStep
from mmrl.rollout.weight_names import WeightCheck, expected_weights


class VllmEngine:
    """Implements the Engine protocol with vLLM, in the type and with the limits of `options`.

    The weights are random until the first `sync_weights`; before it nothing is generated. `generate` is for a trainer,
    who has all requests at once; `add`, `step` and `drop` are for a server, whose requests come and go.
    """

    def __init__(self, processor: FamilyProcessor, options: CoreOptions) -> None:
        self.processor = processor
        self.options = options
        self.expected = expected_weights(processor.folder, trust_remote_code=options.trust_remote_code)
        self._core = VllmCore(processor.folder, options, banned_ids=processor.banned_ids)
        self._decoding = Decoding(self._core, processor, options)
        self._state: Literal["without weights", "awake", "asleep", "broken", "closed"] = "without weights"
        self._generating = False
        self._stepping = threading.Lock()

    @property
    def policy_version(self) -> int:
        """What completions are marked with: the version given with the last weights."""
        return self._decoding.policy_version

    @property
    def reused_tokens(self) -> int:
        """Prompt tokens that were found in the prefix cache."""
        return self._decoding.reused_tokens

    @property
    def is_broken(self) -> bool:
        """Whether vLLM failed: nothing is known of its state, so a new engine is needed."""
        return self._state == "broken"

    @property
    def is_busy(self) -> bool:
        """Whether requests are on their way."""
        return self._generating or self._decoding.is_busy

    @property
    def banned_ids(self) -> tuple[int, ...]:
        """Vision tokens and ids without a token."""
        return self.processor.banned_ids

    def generate(self, requests: Iterable[Request]) -> Iterator[Group]:
        """Yield one Group per request as it finishes. Raises EngineError, before anything is decoded, for requests
        that cannot be served; while decoding, for those vLLM refuses or gives up (GivenUpError), and when it fails,
        which leaves it broken.

        The same seed, prompt and weights give the same completions; the size of the batch changes logits by rounding
        only. Before a second `generate`, and before new weights, the first must be used up or closed.
        """
        self._check_state("generate")
        requests = list(requests)
        for request in requests:
            self._decoding.check(request)
        return self._decode(requests)

    def add(self, request: Request) -> None:
        """Queue a request beside those on their way. EngineError for one that cannot be served, as for `generate`."""
        self._check_weights("take requests")
        self._decoding.check(request)
        self._decoding.add(request)

    def step(self) -> list[Group | Refused]:
        """One forward pass for the requests on their way: those that end with it, or that vLLM refuses or gives up."""
        return self._guarded(self._decoding.step)

    def drop(self, request: Request) -> None:
        """Forget a request that was added and has not ended."""
        self._guarded(lambda: self._decoding.drop(request))

    def sync_weights(self, named_tensors: Iterable[tuple[str, torch.Tensor]], policy_version: int) -> None:
        """Take the trainer's weights, merged and by the names of transformers, and drop every cache of the old ones.

        Raises EngineError for a tensor of another shape (fault 56) and, listing both, for names one side alone has
        (fault 58); the engine then has no weights until a sync succeeds.
        """
        if self._state != "without weights":
            self._check_state("take weights")
        self._state = "without weights"
        check = WeightCheck(self.expected)
        self._guarded(lambda: self._core.load_weights(check.passing(named_tensors)))
        check.finish()
        self._state = "awake"
        self._decoding.policy_version = policy_version

    def transfer_weights(self, steps: Iterable[TransferStep], policy_version: int) -> None:
        """As `sync_weights`, by the steps of vLLM's weight transfer; the trainer's end of it drives them."""
        if self._state != "without weights":
            self._check_state("take weights")
        self._state = "without weights"
        check = WeightCheck(self.expected)
        is_finished = False
        for step in steps:
            for _ in check.passing(_announced(step)):
                pass
            self._guarded(lambda step=step: self._core.transfer(step))
            is_finished = step.call == "finish_weight_update"
        if not is_finished:
            raise EngineError("the weight transfer was not finished")
        check.finish()
        self._guarded(self._core.reset_caches)
        self._state = "awake"
        self._decoding.policy_version = policy_version

    @property
    def has_weights(self) -> bool:
        """Whether the weights of a trainer are in it; not so after a sleep."""
        return self._state == "awake"

    def sleep(self) -> None:
        """Refuse work until `wake` and new weights. On a GPU weights, keys and values are let go of; on a CPU, where
        vLLM frees nothing, the same order of calls is asked for.
        """
        if self._state != "without weights":
            self._check_state("sleep")
        self._guarded(self._core.sleep)
        self._state = "asleep"

    def wake(self) -> None:
        """Take the memory back; the weights are then missing until `sync_weights`."""
        if self._state == "asleep":
            self._guarded(self._core.wake)
            self._state = "without weights"

    def close(self) -> None:
        """Free the memory. The engine cannot be used after; what another thread generates ends at its next token."""
        if self._state != "closed":
            self._state = "closed"
            with self._stepping:
                self._core.close()

    def _check_state(self, doing: str) -> None:
        self._check_weights(doing)
        if self.is_busy:
            raise EngineError(f"completions are being generated; use up or close their iterator to {doing}")

    def _check_weights(self, doing: str) -> None:
        if self._state == "broken":
            raise EngineError(f"vLLM failed before, so the engine cannot {doing}; start the run again with --resume")
        if self._state != "awake":
            raise EngineError(f"the engine is {self._state}; it must be awake to {doing}")

    def _guarded(self, work: Any) -> Any:
        """What vLLM does; when it fails, nothing is known of its state any more."""
        try:
            return work()
        except EngineError:
            self._state = "broken"
            raise

    def _decode(self, requests: Sequence[Request]) -> Iterator[Group]:
        self._check_state("generate")
        self._generating = True
        try:
            with self._stepping:
                self._check_weights("generate")
                for request in requests:
                    self._decoding.add(request)
            while self._decoding.is_busy:
                with self._stepping:
                    self._check_weights("generate")
                    results = self.step()
                for result in results:
                    if isinstance(result, Refused):
                        raise result.error
                    yield result
        finally:
            self._generating = False
            if self._state == "awake":
                self._guarded(self._decoding.clear)


def _announced(step: TransferStep) -> Iterator[tuple[str, torch.Tensor]]:
    """Names and shapes of the tensors that a step of a weight transfer brings, without the tensors."""
    info = step.arguments.get("update_info", {})
    for name, shape in zip(info.get("names", ()), info.get("shapes", ()), strict=True):
        yield name, torch.empty(shape, device="meta")
