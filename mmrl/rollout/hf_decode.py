"""Decoding one batch: prompts prefilled once, their caches repeated, finished sequences dropped as they end.

Shape letters: P prompts, R sequences still running, T prompt tokens, K cached tokens, S steps, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from mmrl.models.decoder import DecoderInputs, run_decoder
from mmrl.models.encode import encode_media, gather_features
from mmrl.models.families import FamilyProcessor
from mmrl.models.packing import group_row, pack
from mmrl.rollout.sampling import draw, entropy, top_alternatives, transform_logits, uniforms
from mmrl.rollout.types import FinishReason, Request, Sampling


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Completions of one request that are decoded together. `group` is the place of the request among all."""

    group: int
    request: Request
    completions: range


@dataclass(slots=True, eq=False)
class Running:
    """One completion as it grows; the fields are those of `Completion`."""

    part: Part
    completion: int
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    entropy: list[float] = field(default_factory=list)
    alternatives: list[tuple[tuple[int, float], ...]] = field(default_factory=list)
    finish_reason: FinishReason | None = None

    @property
    def prefix(self) -> tuple[int, ...]:
        """Forced first tokens."""
        prefixes = self.part.request.prefix_ids
        return prefixes[self.completion] if prefixes else ()


@dataclass(frozen=True, slots=True, eq=False)
class _Choice:
    """What one step chose for every running sequence."""

    token_R: torch.Tensor
    logprob_R: torch.Tensor
    logprobs_RV: torch.Tensor


class DecodeBatch:
    """Sequences that share forward passes. All requests have the same `Sampling`.

    Prompts are padded on the right: the prefill is plain causal, and later tokens are kept from seeing the padding,
    so a prompt's length relative to its neighbours changes nothing.
    """

    def __init__(self, model: Any, processor: FamilyProcessor, parts: Sequence[Part], *, banned_V: torch.Tensor):
        self.model, self.processor, self.banned_V = model, processor, banned_V
        self.sampling: Sampling = parts[0].request.sampling
        self.running = [Running(part, completion) for part in parts for completion in part.completions]
        self.step = 0
        self._prefill(parts)
        self._uniform_RS = self._random_numbers()
        self._forced_RS = self._forced_tokens()

    def advance(self) -> list[Running]:
        """One token for every running sequence; returns those that ended with it."""
        choice = self._choose()
        self._record(choice)
        self.step += 1
        ended = [sequence for sequence in self.running if self._end(sequence)]
        keep = [r for r, sequence in enumerate(self.running) if sequence.finish_reason is None]
        if keep:
            token_R = choice.token_R
            if ended:
                token_R = self._drop_all_but(torch.tensor(keep, device=token_R.device), token_R)
            self._forward(token_R)
        self.running = [self.running[r] for r in keep]
        return ended

    def _prefill(self, parts: Sequence[Part]) -> None:
        """Run the prompts, media included, once each; then repeat caches and last hidden states per completion."""
        prompts = [part.request.prompt for part in parts]
        micro = pack([group_row(prompt, [], []) for prompt in prompts], self.processor)
        features = encode_media(self.model, micro.media, self.processor)
        outputs = gather_features(features, micro.media_order, self.processor)
        inputs = DecoderInputs(micro.ids_BT, micro.positions_3BT, encoder_outputs=outputs, keep_cache=True)
        output = run_decoder(self.model, inputs)
        hidden_PTD = output.last_hidden_state
        length_P = torch.tensor([len(prompt.prompt_ids_T) for prompt in prompts], device=hidden_PTD.device)
        last_PD = hidden_PTD[torch.arange(len(prompts), device=hidden_PTD.device), length_P - 1]
        prompt_R = torch.arange(len(prompts)).repeat_interleave(torch.tensor([len(p.completions) for p in parts]))
        prompt_R = prompt_R.to(hidden_PTD.device)
        self._cache = output.past_key_values
        self._cache.batch_select_indices(prompt_R)
        self._logits_RV = self.model.lm_head(last_PD)[prompt_R]
        next_P = torch.tensor([prompt.next_position for prompt in prompts], device=hidden_PTD.device)
        self._first_position_R = next_P[prompt_R]
        self._seen_RK = _seen(length_P[prompt_R], width=hidden_PTD.shape[1])

    def _random_numbers(self) -> torch.Tensor:
        count = 0 if self.sampling.greedy else self.sampling.max_new_tokens
        rows = [uniforms(s.part.request.seed, completion=s.completion, count=count) for s in self.running]
        return torch.from_numpy(np.stack(rows)).to(self._logits_RV.device)

    def _forced_tokens(self) -> torch.Tensor:
        """Forced first tokens, -1 where a sequence is free."""
        width = max(len(sequence.prefix) for sequence in self.running)
        rows = [[*sequence.prefix, *[-1] * (width - len(sequence.prefix))] for sequence in self.running]
        return torch.tensor(rows, dtype=torch.long, device=self._logits_RV.device).view(len(rows), width)

    def _choose(self) -> _Choice:
        logprobs_RV = transform_logits(self._logits_RV, self.sampling, self.banned_V)
        if self.sampling.greedy:
            token_R = logprobs_RV.argmax(-1)
        else:
            token_R = draw(logprobs_RV, self._uniform_RS[:, self.step])
        logprob_R = logprobs_RV.gather(-1, token_R[:, None])[:, 0]
        if self.step < self._forced_RS.shape[1]:
            token_R, logprob_R = self._force(token_R, logprob_R)
        return _Choice(token_R, logprob_R, logprobs_RV)

    def _force(self, token_R: torch.Tensor, logprob_R: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Forced tokens in place of drawn ones, with the policy's log-prob: top-k, top-p and min-p do not count."""
        forced_R = self._forced_RS[:, self.step]
        is_forced_R = forced_R >= 0
        sampling = self.sampling
        plain = Sampling(temperature=sampling.temperature, greedy=sampling.greedy)
        plain_RV = transform_logits(self._logits_RV, plain, self.banned_V)
        forced_logprob_R = plain_RV.gather(-1, forced_R.clamp_min(0)[:, None])[:, 0]
        return torch.where(is_forced_R, forced_R, token_R), torch.where(is_forced_R, forced_logprob_R, logprob_R)

    def _record(self, choice: _Choice) -> None:
        tokens, logprobs = choice.token_R.tolist(), choice.logprob_R.tolist()
        for sequence, token, logprob in zip(self.running, tokens, logprobs, strict=True):
            sequence.ids.append(token)
            sequence.logprobs.append(logprob)
        requests = [sequence.part.request for sequence in self.running]
        if any(request.want_entropy for request in requests):
            for sequence, value in zip(self.running, entropy(choice.logprobs_RV).tolist(), strict=True):
                if sequence.part.request.want_entropy:
                    sequence.entropy.append(value)
        widest = max(request.top_alternatives for request in requests)
        if widest:
            for sequence, row in zip(self.running, top_alternatives(choice.logprobs_RV, widest), strict=True):
                if sequence.part.request.top_alternatives:
                    sequence.alternatives.append(row[: sequence.part.request.top_alternatives])

    def _end(self, sequence: Running) -> bool:
        """Whether the last token ended the sequence; of forced tokens only the last one does."""
        ids = sequence.ids
        if len(ids) >= len(sequence.prefix) and is_complete(ids, self.sampling.stop, self.processor):
            sequence.finish_reason = "stop"
        elif len(ids) >= self.sampling.max_new_tokens:
            sequence.finish_reason = "length"
        return sequence.finish_reason is not None

    def _drop_all_but(self, keep_R: torch.Tensor, token_R: torch.Tensor) -> torch.Tensor:
        self._cache.batch_select_indices(keep_R)
        self._first_position_R = self._first_position_R[keep_R]
        self._uniform_RS = self._uniform_RS[keep_R]
        self._forced_RS = self._forced_RS[keep_R]
        if self._seen_RK is not None:
            self._seen_RK = self._seen_RK[keep_R]
        return token_R[keep_R]

    def _forward(self, token_R: torch.Tensor) -> None:
        if self._seen_RK is not None:
            self._seen_RK = torch.cat([self._seen_RK, self._seen_RK.new_ones(len(token_R), 1)], dim=1)
        inputs = DecoderInputs(
            ids_BT=token_R[:, None],
            positions_3BT=(self._first_position_R + self.step - 1)[None, :, None].expand(3, -1, -1),
            mask_B1TK=None if self._seen_RK is None else self._seen_RK[:, None, None],
            cache=self._cache,
            keep_cache=True,
        )
        self._logits_RV = self.model.lm_head(run_decoder(self.model, inputs).last_hidden_state[:, -1])


def is_complete(ids: Sequence[int], stops: Sequence[str], processor: FamilyProcessor) -> bool:
    """Whether the last token is an end token, or completes a stop string: nothing may follow it."""
    return bool(ids) and (ids[-1] in processor.eos_ids or completes_stop(ids, stops, processor))


def completes_stop(ids: Sequence[int], stops: Sequence[str], processor: FamilyProcessor) -> bool:
    """Whether the last token completes one of the stop strings, as a whole or in its middle.

    A token of ordinary text is at least one byte and a character at most four, so a tail of the text is enough.
    """
    if not stops:
        return False
    special = set(processor.special_ids.values())
    if ids[-1] in special:
        return False
    window = 4 * max(map(len, stops)) + 1
    tail = [token for token in ids if token not in special][-window:]
    text = processor.decode(tail)
    before = processor.decode(tail[:-1]).rstrip("\N{REPLACEMENT CHARACTER}")
    return any(text.find(stop, max(0, len(before) - len(stop) + 1)) >= 0 for stop in stops)


def _seen(length_R: torch.Tensor, *, width: int) -> torch.Tensor | None:
    """Which cached prompt tokens are real; None where all are."""
    if bool((length_R == width).all()):
        return None
    return torch.arange(width, device=length_R.device) < length_R[:, None]
