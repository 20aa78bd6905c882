"""Requests go into an engine, groups come out as they finish. Nothing here knows which engine it is.

Shape letters: C completion tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

import torch

from mmrl.data.rendered import RenderedPrompt

FinishReason = Literal["stop", "length", "abort"]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a token is drawn. The order is: bans, temperature, top-k, top-p, min-p; greedy ignores all but the bans.

    top_k = 0, top_p = 1, min_p = 0 switch the filters off. `stop` strings end a completion and stay in its text.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    max_new_tokens: int = 512
    stop: tuple[str, ...] = ()
    greedy: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """n completions of one prompt.

    prefix_ids: forced first tokens, one tuple per completion (empty: none forced). They count as completion tokens;
        their behavior_logprobs are the policy's, and `Completion.num_forced` says how many there are. An end token, or
        a stop string, that is the last of them ends the completion; before it does not.
    seed: same seed, same prompt, same weights: same completions, whatever else is in the batch.
    top_alternatives: how many of the most likely tokens to report at each step (0: none).
    """

    request_id: str
    prompt: RenderedPrompt
    n: int
    sampling: Sampling
    seed: int = 0
    prefix_ids: tuple[tuple[int, ...], ...] = ()
    want_entropy: bool = False
    top_alternatives: int = 0


@dataclass(frozen=True, slots=True)
class Completion:
    """One sampled continuation. `ids` include the end token when finish_reason is `stop` by end token.

    behavior_logprobs: log-prob of each id under the distribution it was drawn from, after the whole transform.
    entropy: of that distribution per step, when asked. alternatives: per step ((id, log-prob), ...), when asked.
    policy_version: the weights it was sampled with.
    """

    ids: tuple[int, ...]
    behavior_logprobs: tuple[float, ...]
    finish_reason: FinishReason
    text: str
    policy_version: int
    num_forced: int = 0
    entropy: tuple[float, ...] = ()
    alternatives: tuple[tuple[tuple[int, float], ...], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """All completions of one request."""

    request: Request
    completions: tuple[Completion, ...]


class Engine(Protocol):
    """What every rollout engine offers."""

    @property
    def banned_ids(self) -> tuple[int, ...]:
        """Token ids that are never sampled (vision specials, vocabulary padding)."""
        ...

    def generate(self, requests: Iterable[Request]) -> Iterator[Group]:
        """Yield one Group per request, in the order they finish.

        An engine with weights of its own may generate in another thread than the one that trains, one `generate` at a
        time.
        """
        ...

    def sync_weights(self, named_tensors: Iterable[tuple[str, torch.Tensor]], policy_version: int) -> None: ...

    @property
    def has_weights(self) -> bool:
        """False where `sync_weights` must come before `generate`: with a model of its own at first, and after a sleep
        that let go of it.
        """
        ...

    def sleep(self) -> None:
        """Give up what memory can be given up until `wake`; weights may go with it (`has_weights`)."""
        ...

    def wake(self) -> None: ...

    def close(self) -> None:
        """Let go of everything. A `generate` that runs in another thread raises EngineError soon."""
        ...
