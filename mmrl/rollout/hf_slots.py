"""Which completion is decoded when: slots for prompts, rows for completions, and their token cap. Pure.

A completion that ends leaves its row to the next one that waits, whatever request it is of. Requests with long prompts
come first and those of equal length in their order, each whole group before the next one begins, so that groups finish
one after the other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from mmrl.rollout.types import Request


@dataclass(frozen=True, slots=True)
class SlotShape:
    """What is held for decoding: `prompts` slots of prompt_tokens, once a group, and `rows` of new_tokens."""

    prompts: int = 0
    prompt_tokens: int = 0
    rows: int = 0
    new_tokens: int = 0

    @property
    def tokens(self) -> int:
        return self.prompts * self.prompt_tokens + self.rows * self.new_tokens


@dataclass(slots=True)
class _Taken:
    """Requests and rows that hold slots, and what they need of each."""

    prompts: int = 0
    prompt_tokens: int = 0
    rows: int = 0
    new_tokens: int = 0

    def add(self, request: Request, *, is_new: bool) -> None:
        self.prompts += is_new
        self.rows += 1
        self.prompt_tokens = max(self.prompt_tokens, prompt_length(request))
        self.new_tokens = max(self.new_tokens, request.sampling.max_new_tokens)


class Schedule:
    """Hands out rows to completions, named (request, completion) by their indices.

    `shape.tokens` never exceeds max_batch_tokens. The shape is chosen when decoding begins, and anew when another one
    would let a quarter more rows decode: prompts become shorter on the way.
    """

    def __init__(self, requests: Sequence[Request], *, max_batch_tokens: int) -> None:
        self.shape = SlotShape()
        self._requests, self._cap = requests, max_batch_tokens
        order = sorted(range(len(requests)), key=lambda index: -prompt_length(requests[index]))
        self._waiting = deque((index, c) for index in order for c in range(requests[index].n))
        self._left = {index: requests[index].n for index in order}
        self._running = dict.fromkeys(order, 0)
        self._holding: set[int] = set()
        self._rows = 0
        self._row_steps = self._full_steps = 0

    @property
    def is_done(self) -> bool:
        return not self._left

    @property
    def occupancy(self) -> float:
        """Share of the rows that decoded in the steps in which others waited; 1 where none ever waited."""
        return self._row_steps / self._full_steps if self._full_steps else 1.0

    def refill(self) -> list[tuple[int, int]]:
        """Completions that get rows now, at the beginning of a step. A prompt costs a pass of its own, so that an
        eighth of the rows has to be free.
        """
        admitted: list[tuple[int, int]] = []
        if self._waiting and (not self._rows or self.shape.rows - self._rows >= max(1, self.shape.rows // 8)):
            self._reshape()
            while self._waiting and self._fits(self._requests[self._waiting[0][0]], self._waiting[0][0]):
                index, completion = self._waiting.popleft()
                self._holding.add(index)
                self._running[index] += 1
                self._rows += 1
                admitted.append((index, completion))
        if self._waiting:
            self._row_steps += self._rows
            self._full_steps += self.shape.rows
        return admitted

    def end(self, request: int) -> bool:
        """A completion of the request has ended. True when it was the last one: the prompt's slot is free, too."""
        self._running[request] -= 1
        self._rows -= 1
        self._left[request] -= 1
        if self._left[request]:
            return False
        del self._left[request]
        self._holding.remove(request)
        return True

    def _fits(self, request: Request, index: int) -> bool:
        shape = self.shape
        return (
            self._rows < shape.rows
            and (index in self._holding or len(self._holding) < shape.prompts)
            and prompt_length(request) <= shape.prompt_tokens
            and request.sampling.max_new_tokens <= shape.new_tokens
        )

    def _reshape(self) -> None:
        """Take the best shape where it is worth copying what is held."""
        best = self._best_shape()
        if not self._rows or 4 * best.rows >= 5 * max(1, self.shape.rows):
            self.shape = best

    def _best_shape(self) -> SlotShape:
        """Room for as many of those that wait as the cap allows, in their order, beside what is held."""
        taken, best = self._held(), SlotShape()
        holding = set(self._holding)
        for index, _ in self._waiting:
            taken.add(self._requests[index], is_new=index not in holding)
            holding.add(index)
            shape = _with_spare_prompts(taken, most=len(self._left))
            if shape.tokens > self._cap:
                break
            best = shape
        return best

    def _held(self) -> _Taken:
        taken = _Taken()
        for index in self._holding:
            request = self._requests[index]
            taken.prompts += 1
            taken.rows += self._running[index]
            taken.prompt_tokens = max(taken.prompt_tokens, prompt_length(request))
            taken.new_tokens = max(taken.new_tokens, request.sampling.max_new_tokens)
        return taken


def _with_spare_prompts(taken: _Taken, *, most: int) -> SlotShape:
    """Twice the prompts: the last completions of old groups and the first ones of new groups share the rows."""
    prompts = max(taken.prompts, min(2 * taken.prompts, taken.rows, most))
    return SlotShape(prompts, taken.prompt_tokens, taken.rows, taken.new_tokens)


def prompt_length(request: Request) -> int:
    return len(request.prompt.prompt_ids_T)
