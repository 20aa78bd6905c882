"""Requests on their way through vLLM.

A completion is a request of its own to vLLM, with a seed of its own; completions of one prompt share its prefill
(prefix cache) and its vision features (encoder cache, by the cache entries' keys).
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from mmrl.config.rollout_checks import VLLM_TEMPERATURES
from mmrl.errors import EngineError
from mmrl.models.families import FamilyProcessor
from mmrl.rollout.request_check import check_request
from mmrl.rollout.sampling import derive_seed
from mmrl.rollout.stops import completes_stop, is_complete
from mmrl.rollout.types import Completion, FinishReason, Group, Request, Sampling
from mmrl.rollout.vllm_media import MediaSpan, media_spans
from mmrl.rollout.vllm_private import VllmCore
from mmrl.rollout.vllm_types import MAX_ALTERNATIVES, CoreOptions, CoreOutput, CoreSampling

# One completion of a request, by its number; or, by a forced prefix, the log-prob of the prefix's last token.
_Part = int | tuple[int, ...]


class GivenUpError(EngineError):
    """vLLM gave up a request on its way, and goes on with the others. Another engine may answer it."""


@dataclass(frozen=True, slots=True, eq=False)
class Refused:
    """A request that vLLM cannot serve, or gave up. Nothing of it is left in vLLM; other requests go on."""

    request: Request
    error: EngineError


def check_vllm_request(request: Request, *, banned_ids: Sequence[int], max_model_len: int) -> None:
    """Raise EngineError for a request that vLLM cannot serve as it is meant."""
    where = check_request(request, banned_ids=banned_ids)
    sampling = request.sampling
    if request.want_entropy:
        raise EngineError(f"{where}: vLLM does not report entropies; use rollout.engine hf")
    if request.top_alternatives > MAX_ALTERNATIVES:
        raise EngineError(f"{where}: {request.top_alternatives} alternatives; vLLM reports {MAX_ALTERNATIVES}")
    if request.top_alternatives and any(request.prefix_ids):
        raise EngineError(f"{where}: vLLM reports no alternatives of forced tokens; use rollout.engine hf")
    low, high = VLLM_TEMPERATURES
    if not sampling.greedy and not low <= sampling.temperature <= high:
        raise EngineError(f"{where}: rollout.temperature {sampling.temperature:g}; vLLM takes {low:g} to {high:g}")
    if not sampling.greedy and sampling.min_p > 0 and sampling.top_p < 1:
        raise EngineError(f"{where}: vLLM applies rollout.min_p before rollout.top_p, not after it; set one of them")
    prompt, new = len(request.prompt.prompt_ids_T), sampling.max_new_tokens
    if prompt + new > max_model_len:
        raise EngineError(
            f"{where}: {prompt} prompt tokens and {new} new tokens, {prompt + new} in all, are more than "
            f"rollout.vllm.max_model_len ({max_model_len}); raise it, or lower rollout.max_new_tokens or "
            f"data.max_prompt_tokens"
        )


@dataclass(slots=True, eq=False)
class _Pending:
    """A request of which not all parts are there."""

    request: Request
    outputs: dict[int, CoreOutput] = field(default_factory=dict)
    scores: dict[tuple[int, ...], float] = field(default_factory=dict)
    missing: int = 0


class Decoding:
    """Requests join whenever they like, and leave as groups. `reused_tokens` counts prompt tokens that vLLM had cached.

    policy_version: what completions are marked with.
    """

    def __init__(self, core: VllmCore, processor: FamilyProcessor, options: CoreOptions) -> None:
        self.policy_version = 0
        self.reused_tokens = 0
        self._core, self._processor, self._options = core, processor, options
        self._prompts = _Prompts(core, processor)
        self._waiting: deque[tuple[_Pending, _Part]] = deque()
        self._running: dict[str, tuple[_Pending, _Part]] = {}
        self._names = itertools.count()

    @property
    def is_busy(self) -> bool:
        return bool(self._waiting or self._running)

    def check(self, request: Request) -> None:
        """Raise EngineError for a request that vLLM cannot serve as it is meant."""
        banned, longest = self._processor.banned_ids, self._core.max_model_len
        check_vllm_request(request, banned_ids=banned, max_model_len=longest)

    def add(self, request: Request) -> None:
        """Queue a request; nothing is computed.

        vLLM reports log-probs of given tokens for the next one only, so every forced token is a part of one step after
        what is before it; the keys and values of the prefix are computed once and then used for sampling. Top-k, top-p
        and min-p do not count: the tokens were not drawn. A completion that is all forced has no part of its own.
        """
        prefixes = dict.fromkeys(prefix[: end + 1] for prefix in request.prefix_ids for end in range(len(prefix)))
        open_ = [n for n in range(request.n) if not self._is_complete(request, n)]
        parts: list[_Part] = [*prefixes, *open_]
        pending = _Pending(request, missing=len(parts))
        self._waiting.extend((pending, part) for part in parts)

    def step(self) -> list[Group | Refused]:
        """One forward pass; the groups that are complete with it. EngineError where vLLM fails, which is its end."""
        results: list[Group | Refused] = list(self._feed())
        for output in self._core.step() if self._running else ():
            self.reused_tokens += output.num_cached
            if output.name not in self._running:  # of a request that was given up in this very step
                continue
            pending, part = self._running.pop(output.name)
            if output.problem:
                results.append(self._given_up(pending.request, output))
                continue
            if isinstance(part, int):
                pending.outputs[part] = output
            elif output.score is not None:
                pending.scores[part] = output.score
            pending.missing -= 1
            if not pending.missing:
                results.append(self._group(pending))
        return results

    def drop(self, request: Request) -> None:
        """Forget a request that is not finished."""
        self._drop(lambda pending: pending.request is request)

    def clear(self) -> None:
        """Forget all requests."""
        self._drop(lambda pending: True)

    def _given_up(self, request: Request, output: CoreOutput) -> Refused:
        self.drop(request)
        said = f"vLLM ended a completion with {output.finish_reason!r}: {output.problem}"
        return Refused(request, GivenUpError(f"request {request.request_id} ({request.prompt.sample_id}): {said}"))

    def _drop(self, is_dropped: Callable[[_Pending], bool]) -> None:
        self._waiting = deque(job for job in self._waiting if not is_dropped(job[0]))
        names = [name for name, (pending, _) in self._running.items() if is_dropped(pending)]
        for name in names:
            del self._running[name]
        if names:
            self._core.abort(names)

    def _feed(self) -> list[Refused]:
        """Hand parts to vLLM, about two batches ahead of it: the patches of their prompts are large."""
        refused = []
        while self._waiting and len(self._running) < 2 * self._options.max_num_seqs:
            pending, part = self._waiting.popleft()
            try:
                self._submit(pending, part)
            except EngineError as error:
                self.drop(pending.request)
                refused.append(Refused(pending.request, error))
        return refused

    def _submit(self, pending: _Pending, part: _Part) -> None:
        request, name = pending.request, str(next(self._names))
        if isinstance(part, int):
            prefix = _prefix(request, part)
            sampling = _sampling(request, part, len(prefix), self._processor)
        else:
            prefix, temperature = part[:-1], 0.0 if request.sampling.greedy else request.sampling.temperature
            sampling = CoreSampling(temperature, max_tokens=1, score_id=part[-1])
        self._core.add(name, self._prompts.of(request, prefix), sampling)
        self._running[name] = (pending, part)

    def _group(self, pending: _Pending) -> Group:
        completions = (self._completion(pending, n) for n in range(pending.request.n))
        return Group(pending.request, tuple(completions))

    def _is_complete(self, request: Request, n: int) -> bool:
        return is_complete(_prefix(request, n), request.sampling.stop, self._processor)

    def _completion(self, pending: _Pending, n: int) -> Completion:
        request, prefix = pending.request, _prefix(pending.request, n)
        forced = tuple(pending.scores[prefix[: end + 1]] for end in range(len(prefix)))
        if n not in pending.outputs:
            text = self._processor.decode(prefix, skip_special_tokens=True)
            return Completion(prefix, forced, "stop", text, self.policy_version, num_forced=len(prefix))
        output = pending.outputs[n]
        free, reason = self._free_part(request.sampling, output, prefix)
        ids = (*prefix, *output.ids[:free])
        return Completion(
            ids=ids,
            behavior_logprobs=(*forced, *output.logprobs[:free]),
            finish_reason=reason,
            text=self._processor.decode(ids, skip_special_tokens=True),
            policy_version=self.policy_version,
            num_forced=len(prefix),
            alternatives=output.alternatives[:free] if request.top_alternatives else (),
        )

    def _free_part(self, sampling: Sampling, output: CoreOutput, prefix: tuple[int, ...]) -> tuple[int, FinishReason]:
        """How many of the sampled tokens count, and why the completion ended.

        vLLM takes a prefix for prompt: it samples one token where none may follow, and does not see a stop string that
        begins in the prefix.
        """
        if len(prefix) == sampling.max_new_tokens:
            return 0, "length"
        if prefix and sampling.stop:
            for count in range(1, len(output.ids)):
                if completes_stop([*prefix, *output.ids[:count]], sampling.stop, self._processor):
                    return count, "stop"
            if completes_stop([*prefix, *output.ids], sampling.stop, self._processor):
                return len(output.ids), "stop"
        return len(output.ids), "stop" if output.finish_reason == "stop" else "length"


class _Prompts:
    """Prompts in vLLM's form. A medium is made into patches once, whatever shows it."""

    def __init__(self, core: VllmCore, processor: FamilyProcessor) -> None:
        self._core = core
        self._processor = processor
        self._request: Request | None = None
        self._built: dict[tuple[int, ...], Any] = {}

    def of(self, request: Request, prefix: tuple[int, ...]) -> Any:
        """The prompt with forced tokens behind it; those of one request are asked for in a row."""
        if self._request is not request:
            self._request, self._built = None, {}
            self._spans, self._media = self._media_of(request)
            self._request = request
        if prefix not in self._built:
            ids = [*request.prompt.prompt_ids_T.tolist(), *prefix]
            self._built[prefix] = self._core.prompt(ids, self._spans, self._media)
        return self._built[prefix]

    def _media_of(self, request: Request) -> tuple[list[MediaSpan], dict[str, Any]]:
        """Spans and media; raises EngineError where a medium contradicts itself, and where vLLM would place a token
        elsewhere than the trainer.
        """
        prompt, geometry = request.prompt, self._processor.geometry
        for entry in prompt.media:
            if not geometry.fits(entry):
                raise EngineError(
                    f"request {request.request_id} ({prompt.sample_id}): {tuple(entry.frames_F3HW.shape)} frames and "
                    f"{entry.num_tokens} tokens of a medium are not those of its grid {entry.grid_thw}"
                )
        spans = media_spans(prompt, self._processor)
        media = {span.entry.key: self._core.medium(span.entry, geometry) for span in spans}
        if spans:
            positions_3T, following = self._core.positions(prompt.prompt_ids_T.tolist(), spans, media)
            if following != prompt.next_position or not torch.equal(positions_3T, prompt.position_ids_3T):
                raise EngineError(
                    f"request {request.request_id} ({prompt.sample_id}): vLLM places the prompt's tokens elsewhere "
                    "than the trainer does, so log-probs would differ; use rollout.engine hf and report this"
                )
        return spans, media


def _prefix(request: Request, completion: int) -> tuple[int, ...]:
    return request.prefix_ids[completion] if request.prefix_ids else ()


def _sampling(request: Request, completion: int, num_forced: int, processor: FamilyProcessor) -> CoreSampling:
    sampling = request.sampling
    common: dict[str, Any] = {
        "max_tokens": max(1, sampling.max_new_tokens - num_forced),
        "stop": sampling.stop,
        "end_ids": processor.eos_ids,
        "alternatives": request.top_alternatives,
    }
    if sampling.greedy:
        return CoreSampling(temperature=0.0, **common)
    # vLLM's own choice, seed + completion, gives neighbouring requests the same random numbers.
    seed = derive_seed(request.seed, completion)
    filters = {"top_p": sampling.top_p, "top_k": sampling.top_k, "min_p": sampling.min_p}
    return CoreSampling(temperature=sampling.temperature, seed=seed, **filters, **common)
