"""The fast engine: vLLM in the trainer's process, fed with what was rendered, ids and patches, and nothing else.

A completion is a request of its own to vLLM, with a seed of its own; completions of one prompt share its prefill
(prefix cache) and its vision features (encoder cache, by the cache entries' keys). vLLM itself is in `vllm_private`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from mmrl.config.rollout_checks import VLLM_TEMPERATURES
from mmrl.errors import EngineError
from mmrl.models.families import FamilyProcessor
from mmrl.rollout.hf_decode import completes_stop
from mmrl.rollout.request_check import check_request
from mmrl.rollout.sampling import derive_seed
from mmrl.rollout.types import Completion, FinishReason, Group, Request, Sampling
from mmrl.rollout.vllm_media import MediaSpan, media_spans
from mmrl.rollout.vllm_private import MAX_ALTERNATIVES, CoreOptions, CoreOutput, CoreSampling, VllmCore
from mmrl.rollout.weight_names import WeightCheck, expected_weights


@dataclass(slots=True, eq=False)
class _Pending:
    """A request on its way through vLLM."""

    request: Request
    outputs: dict[int, CoreOutput] = field(default_factory=dict)


class VllmEngine:
    """Implements the Engine protocol with vLLM, in the type and with the limits of `options`.

    The weights are random until the first `sync_weights`; before it nothing is generated. `reused_tokens` counts the
    prompt tokens that were found in the prefix cache.
    """

    def __init__(self, processor: FamilyProcessor, options: CoreOptions) -> None:
        self.processor = processor
        self.options = options
        self.policy_version = 0
        self.reused_tokens = 0
        self._expected = expected_weights(processor.folder, trust_remote_code=options.trust_remote_code)
        self._core = VllmCore(processor.folder, options, banned_ids=processor.banned_ids)
        self._state: Literal["without weights", "awake", "asleep", "broken", "closed"] = "without weights"
        self._busy = False
        self._names = itertools.count()

    @property
    def banned_ids(self) -> tuple[int, ...]:
        """Vision tokens and ids without a token."""
        return self.processor.banned_ids

    def generate(self, requests: Iterable[Request]) -> Iterator[Group]:
        """Yield one Group per request as it finishes. Raises EngineError, before anything is decoded, for requests
        that cannot be served; while decoding, for those vLLM refuses, and when it fails, which leaves it broken.

        The same seed, prompt and weights give the same completions; the size of the batch changes logits by rounding
        only. Before a second `generate`, and before new weights, the first must be used up or closed.
        """
        self._check_state("generate")
        requests = list(requests)
        for request in requests:
            self._check(request)
        return self._decode(requests)

    def sync_weights(self, named_tensors: Iterable[tuple[str, torch.Tensor]], policy_version: int) -> None:
        """Take the trainer's weights, merged and by the names of transformers, and drop every cache of the old ones.

        Raises EngineError for a tensor of another shape (fault 56) and, listing both, for names one side alone has
        (fault 58); the engine then has no weights until a sync succeeds.
        """
        if self._state != "without weights":
            self._check_state("take weights")
        self._state = "without weights"
        check = WeightCheck(self._expected)
        self._guarded(lambda: self._core.load_weights(check.passing(named_tensors)))
        check.finish()
        self._state = "awake"
        self.policy_version = policy_version

    def sleep(self) -> None:
        """Refuse work until `wake`. On a GPU the weights go to the CPU and keys and values are dropped."""
        self._check_state("sleep")
        self._guarded(self._core.sleep)
        self._state = "asleep"

    def wake(self) -> None:
        """Be as before `sleep`."""
        if self._state == "asleep":
            self._guarded(self._core.wake)
            self._state = "awake"

    def close(self) -> None:
        """Free the memory. The engine cannot be used after."""
        if self._state != "closed":
            self._state = "closed"
            self._core.close()

    def _check_state(self, doing: str) -> None:
        if self._state == "broken":
            raise EngineError(f"vLLM failed before, so the engine cannot {doing}; start the run again with --resume")
        if self._state != "awake":
            raise EngineError(f"the engine is {self._state}; it must be awake to {doing}")
        if self._busy:
            raise EngineError(f"completions are being generated; use up or close their iterator to {doing}")

    def _guarded(self, work: Any) -> Any:
        """What vLLM does; when it fails, nothing is known of its state any more."""
        try:
            return work()
        except EngineError:
            self._state = "broken"
            raise

    def _check(self, request: Request) -> None:
        where = check_request(request, banned_ids=self.banned_ids)
        sampling = request.sampling
        if request.want_entropy:
            raise EngineError(f"{where}: vLLM does not report entropies; use rollout.engine hf")
        if request.top_alternatives > MAX_ALTERNATIVES:
            raise EngineError(f"{where}: {request.top_alternatives} alternatives; vLLM reports {MAX_ALTERNATIVES}")
        low, high = VLLM_TEMPERATURES
        if not sampling.greedy and not low <= sampling.temperature <= high:
            raise EngineError(f"{where}: rollout.temperature {sampling.temperature:g}; vLLM takes {low:g} to {high:g}")
        if not sampling.greedy and sampling.min_p > 0 and sampling.top_p < 1:
            raise EngineError(
                f"{where}: vLLM applies rollout.min_p before rollout.top_p, not after it; set one of them"
            )
        if (width := len(request.prompt.prompt_ids_T) + sampling.max_new_tokens) > self.options.max_model_len:
            raise EngineError(
                f"{where}: {len(request.prompt.prompt_ids_T)} prompt tokens and {sampling.max_new_tokens} new tokens, "
                f"{width} in all, are more than rollout.vllm.max_model_len ({self.options.max_model_len}); raise it, "
                f"or lower rollout.max_new_tokens or data.max_prompt_tokens"
            )

    def _decode(self, requests: Sequence[Request]) -> Iterator[Group]:
        self._check_state("generate")
        self._busy = True
        prompts = _Prompts(self._core, self.processor)
        try:
            scores = self._score_prefixes(requests, prompts)
            pending = [_Pending(request) for request in requests]
            jobs = [(index, n) for index, request in enumerate(requests) for n in range(request.n)]
            work = ((job, *self._job(requests[job[0]], job[1], prompts)) for job in jobs)
            for (index, n), output in self._run(work):
                pending[index].outputs[n] = output
                if len(pending[index].outputs) == requests[index].n:
                    yield self._group(pending[index], scores)
        finally:
            self._busy = False

    def _job(self, request: Request, completion: int, prompts: _Prompts) -> tuple[Any, CoreSampling]:
        prefix = request.prefix_ids[completion] if request.prefix_ids else ()
        return prompts.of(request, prefix), _sampling(request, completion, len(prefix), self.processor)

    def _run(self, work: Iterable[tuple[Any, Any, CoreSampling]]) -> Iterator[tuple[Any, CoreOutput]]:
        """(key, prompt, sampling) through vLLM, (key, output) as they finish.

        Prompts are made as vLLM takes them, about two batches ahead: their patches are large.
        """
        running: dict[str, Any] = {}
        waiting = iter(work)
        try:
            while True:
                for key, prompt, sampling in itertools.islice(waiting, 2 * self.options.max_num_seqs - len(running)):
                    name = str(next(self._names))
                    self._core.add(name, prompt, sampling)
                    running[name] = key
                if not running:
                    return
                for output in self._guarded(self._core.step):
                    self.reused_tokens += output.num_cached
                    yield running.pop(output.name), output
        finally:
            if running and self._state == "awake":
                self._guarded(lambda: self._core.abort(list(running)))

    def _score_prefixes(
        self, requests: Sequence[Request], prompts: _Prompts
    ) -> dict[tuple[int, tuple[int, ...]], float]:
        """The policy's log-prob of every forced token, by (id of the request, prefix up to that token).

        vLLM reports log-probs of given tokens for the next one only, so every forced token is a request of one step
        after what is before it; the keys and values of the prefix are computed once and then used for sampling. Top-k,
        top-p and min-p do not count: the tokens were not drawn.
        """
        work = {
            (id(request), prefix[: end + 1]): request
            for request in requests
            for prefix in request.prefix_ids
            for end in range(len(prefix))
        }
        jobs = ((key, *self._score_job(request, key[1], prompts)) for key, request in work.items())
        return {key: output.score for key, output in self._run(jobs) if output.score is not None}

    def _score_job(self, request: Request, prefix: tuple[int, ...], prompts: _Prompts) -> tuple[Any, CoreSampling]:
        temperature = 0.0 if request.sampling.greedy else request.sampling.temperature
        return prompts.of(request, prefix[:-1]), CoreSampling(temperature, max_tokens=1, score_id=prefix[-1])

    def _group(self, pending: _Pending, scores: dict[tuple[int, tuple[int, ...]], float]) -> Group:
        request = pending.request
        completions = []
        for n in range(request.n):
            prefix = request.prefix_ids[n] if request.prefix_ids else ()
            forced = tuple(scores[id(request), prefix[: end + 1]] for end in range(len(prefix)))
            completions.append(self._completion(request, pending.outputs[n], prefix, forced))
        return Group(request, tuple(completions))

    def _completion(
        self, request: Request, output: CoreOutput, prefix: tuple[int, ...], forced: tuple[float, ...]
    ) -> Completion:
        free, reason = self._free_part(request.sampling, output, prefix)
        ids = (*prefix, *output.ids[:free])
        return Completion(
            ids=ids,
            behavior_logprobs=(*forced, *output.logprobs[:free]),
            finish_reason=reason,
            text=self.processor.decode(ids, skip_special_tokens=True),
            policy_version=self.policy_version,
            num_forced=len(prefix),
            alternatives=self._alternatives(request, output, prefix, free),
        )

    def _free_part(self, sampling: Sampling, output: CoreOutput, prefix: tuple[int, ...]) -> tuple[int, FinishReason]:
        """How many of the sampled tokens count, and why the completion ended.

        vLLM takes a prefix for prompt: it samples one token where none may follow, and does not see a stop string that
        begins in the prefix.
        """
        if len(prefix) == sampling.max_new_tokens:
            return 0, "length"
        reason = output.finish_reason
        if reason not in ("stop", "length"):
            raise EngineError(f"vLLM ended a completion with {reason!r}")
        if prefix and sampling.stop:
            for count in range(1, len(output.ids)):
                if completes_stop([*prefix, *output.ids[:count]], sampling.stop, self.processor):
                    return count, "stop"
            if completes_stop([*prefix, *output.ids], sampling.stop, self.processor):
                return len(output.ids), "stop"
        return len(output.ids), "stop" if reason == "stop" else "length"

    def _alternatives(
        self, request: Request, output: CoreOutput, prefix: tuple[int, ...], free: int
    ) -> tuple[tuple[tuple[int, float], ...], ...]:
        if not request.top_alternatives:
            return ()
        if prefix:
            raise EngineError(
                f"request {request.request_id}: vLLM reports no alternatives of forced tokens; use rollout.engine hf"
            )
        return output.alternatives[:free]


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
            self._request, self._built = request, {}
            self._spans, self._media = self._media_of(request)
        if prefix not in self._built:
            ids = [*request.prompt.prompt_ids_T.tolist(), *prefix]
            self._built[prefix] = self._core.prompt(ids, self._spans, self._media)
        return self._built[prefix]

    def _media_of(self, request: Request) -> tuple[list[MediaSpan], dict[str, Any]]:
        """Spans and media; raises EngineError where vLLM would place a token elsewhere than the trainer."""
        prompt, geometry = request.prompt, self._processor.geometry
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
