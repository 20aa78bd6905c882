"""The reference engine: a decode loop of our own over a transformers model, exact and without a server.

A prompt, its media included, is computed once per group and its keys and values are held once; completions of
different requests decode together, and one that ends makes room for the next. It shares the trainer's modules or holds
a model of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import torch

from mmrl.errors import EngineError
from mmrl.models.families import FamilyProcessor
from mmrl.rollout.cpu_linear import with_cpu_linear
from mmrl.rollout.hf_decode import Decoder, Running
from mmrl.rollout.hf_slots import Schedule
from mmrl.rollout.request_check import check_request
from mmrl.rollout.types import Completion, Group, Request
from mmrl.rollout.weight_names import listed


class HfEngine:
    """Implements the Engine protocol with the model it is given.

    max_batch_tokens: prompt tokens (once per group) and completion tokens, padding included, for which keys and values
        are held at most. A request that needs more is not decoded all at once; one completion that needs more is an
        EngineError.
    occupancy: of the last `generate` so far, the share of the rows that decoded while other completions waited.
    """

    def __init__(self, model: Any, processor: FamilyProcessor, *, max_batch_tokens: int = 32768) -> None:
        self.model: Any = model
        self.processor = processor
        self.max_batch_tokens = max_batch_tokens
        self.policy_version = 0
        self.occupancy = 1.0
        self._state: Literal["awake", "asleep", "closed"] = "awake"

    @property
    def banned_ids(self) -> tuple[int, ...]:
        """Vision tokens and ids without a token."""
        return self.processor.banned_ids

    def generate(self, requests: Iterable[Request]) -> Iterator[Group]:
        """Yield one Group per request as it finishes. Raises EngineError, before anything is decoded, for requests
        that cannot be served.

        A completion is decided by prompt, weights, its request's seed and its own index; the size of the batch changes
        logits by rounding only (about 1e-7 in float32). Between two groups the model is back in the mode (train or
        eval, gradients) it was in.
        """
        if self._state != "awake":
            raise EngineError(f"the engine is {self._state}; it must be awake to generate")
        requests = list(requests)
        for request in requests:
            self._check(request)
        return self._decode(requests)

    def sync_weights(self, named_tensors: Iterable[tuple[str, torch.Tensor]], policy_version: int) -> None:
        """Take the trainer's weights, given by the model's own parameter names.

        Tensors that are the engine's own (shared with the trainer) are left alone. Raises EngineError for a tensor of
        another shape (fault 56) and, listing both, for names one side alone has (fault 58).
        """
        own = dict(self.model.named_parameters(remove_duplicate=False))
        missing = {name for name, _ in self.model.named_parameters()}
        unknown = []
        with torch.no_grad():
            for name, tensor in named_tensors:
                missing.discard(name)
                if name not in own:
                    unknown.append(name)
                else:
                    _copy(own[name], tensor, name=name)
        if missing or unknown:
            raise EngineError(
                f"weight names differ: the engine also has {listed(missing)}, the trainer also has {listed(unknown)}"
            )
        self.policy_version = policy_version

    @property
    def has_weights(self) -> bool:
        """Always: the model came with them."""
        return True

    def sleep(self) -> None:
        """Refuse work until `wake`. Nothing but the weights is held between calls, so there is nothing to free."""
        self._state = "asleep"

    def wake(self) -> None:
        self._state = "awake"

    def close(self) -> None:
        """Let go of the model. The engine cannot be used after."""
        self._state = "closed"
        self.model = None

    def _check(self, request: Request) -> None:
        where = check_request(request, banned_ids=self.banned_ids)
        if _width(request) > self.max_batch_tokens:
            raise EngineError(
                f"{where}: {len(request.prompt.prompt_ids_T)} prompt tokens and {request.sampling.max_new_tokens} new "
                f"tokens are more than rollout.max_batch_tokens ({self.max_batch_tokens}); raise it, or lower "
                f"rollout.max_new_tokens or data.max_prompt_tokens"
            )

    def _decode(self, requests: Sequence[Request]) -> Iterator[Group]:
        ended: list[list[Running]] = [[] for _ in requests]
        schedule = Schedule(requests, max_batch_tokens=self.max_batch_tokens)
        decoder: Decoder | None = None
        while not schedule.is_done:
            with evaluating(self.model), with_cpu_linear(self.model):
                decoder = decoder or Decoder(self.model, self.processor)
                done = _advance_to_group(decoder, schedule, requests, ended)
            self.occupancy = schedule.occupancy
            for index in done:
                yield self._group(requests[index], ended[index])
                ended[index] = []

    def _group(self, request: Request, ended: Sequence[Running]) -> Group:
        ordered = sorted(ended, key=lambda sequence: sequence.completion)
        return Group(request, tuple(self._completion(sequence) for sequence in ordered))

    def _completion(self, sequence: Running) -> Completion:
        assert sequence.finish_reason is not None
        return Completion(
            ids=tuple(sequence.ids),
            behavior_logprobs=tuple(sequence.logprobs),
            finish_reason=sequence.finish_reason,
            text=self.processor.decode(sequence.ids, skip_special_tokens=True),
            policy_version=self.policy_version,
            num_forced=len(sequence.prefix),
            entropy=tuple(sequence.entropy),
            alternatives=tuple(sequence.alternatives),
        )


@contextmanager
def evaluating(model: torch.nn.Module) -> Iterator[None]:
    """Eval mode without gradients; afterwards every module is in the mode it was in."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module in training:
            module.training = True


def _advance_to_group(
    decoder: Decoder, schedule: Schedule, requests: Sequence[Request], ended: list[list[Running]]
) -> list[int]:
    """Decode until some request has all its completions; the indices of such requests."""
    done: list[int] = []
    while not done:
        now: list[Running] = []
        if admitted := schedule.refill():
            now = decoder.admit([(index, requests[index], c) for index, c in admitted], schedule.shape)
        now += decoder.step()
        for sequence in now:
            index = sequence.prompt.index
            ended[index].append(sequence)
            if schedule.end(index):
                decoder.release(index)
                done.append(index)
    return done


def _width(request: Request) -> int:
    return len(request.prompt.prompt_ids_T) + request.sampling.max_new_tokens


def _copy(own: torch.Tensor, tensor: torch.Tensor, *, name: str) -> None:
    if own is tensor or (own.data_ptr() == tensor.data_ptr() and own.shape == tensor.shape):
        return
    if own.shape != tensor.shape:
        raise EngineError(f"weight {name}: the trainer sent {tuple(tensor.shape)}, the engine has {tuple(own.shape)}")
    own.copy_(tensor)
