"""Completions as they grow: prompts run once, forced first tokens in one pass, then a token a step for every row.

Shape letters: P prompts, R rows (completions that run), T prompt tokens, N forced tokens of one pass, D hidden size,
V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from mmrl.models.decoder import DecoderInputs, decoder_of, run_decoder
from mmrl.models.encode import encode_media, gather_features
from mmrl.models.families import FamilyProcessor
from mmrl.models.packing import group_row, pack
from mmrl.rollout.hf_cache import (
    KvBuffers,
    PrefixAttention,
    PrefixRow,
    PromptRecorder,
    RowPlaces,
    StepAttention,
    attending,
)
from mmrl.rollout.hf_slots import SlotShape
from mmrl.rollout.sampling import banned_tensor, draw, entropy, top_alternatives, transform_logits, uniforms
from mmrl.rollout.stops import is_complete
from mmrl.rollout.types import FinishReason, Request, Sampling

# Forced tokens of one pass, and of one product with the output head.
_PREFIX_TOKENS, _HEAD_TOKENS = 4096, 256


@dataclass(slots=True, eq=False)
class Prompt:
    """A prompt that was run. index: of its request among all. hidden_D: its last state, which says what follows."""

    index: int
    request: Request
    slot: int
    hidden_D: torch.Tensor

    @property
    def length(self) -> int:
        return len(self.request.prompt.prompt_ids_T)


@dataclass(slots=True, eq=False)
class Running:
    """One completion as it grows; the fields are those of `Completion`. uniform_S: its random numbers."""

    prompt: Prompt
    completion: int
    uniform_S: Sequence[float]
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    entropy: list[float] = field(default_factory=list)
    alternatives: list[tuple[tuple[int, float], ...]] = field(default_factory=list)
    finish_reason: FinishReason | None = None

    @property
    def request(self) -> Request:
        return self.prompt.request

    @property
    def prefix(self) -> tuple[int, ...]:
        """Forced first tokens."""
        prefixes = self.request.prefix_ids
        return prefixes[self.completion] if prefixes else ()


class Decoder:
    """Completions that share forward passes, each with its request's own sampling.

    Row r of the buffers is that of `running[r]`, slot p that of the p-th prompt: where one ends, the last takes its
    place. Prompts are padded on the right: they run plain causal, and completions do not see the padding, so a prompt's
    length relative to its neighbours changes nothing.
    """

    def __init__(self, model: Any, processor: FamilyProcessor) -> None:
        self.model, self.processor = model, processor
        self.running: list[Running] = []
        self._prompts: list[Prompt] = []
        self._buffers = KvBuffers()
        self._places: RowPlaces | None = None
        self._rows_of: dict[Sampling, list[int]] | None = None
        self._device = model.lm_head.weight.device
        self._banned_V = banned_tensor(processor.banned_ids, self._device)
        self._hidden_RD = model.lm_head.weight.new_empty(0, model.lm_head.weight.shape[1])
        is_windowed = processor.family.attention == "window"
        self._window: int | None = decoder_of(model).config.sliding_window if is_windowed else None

    def admit(self, requests: Sequence[tuple[int, Request, int]], shape: SlotShape) -> list[Running]:
        """Begin completions (index of the request, request, number of the completion) in buffers of that shape.

        Returns those that their forced tokens completed.
        """
        if shape != self._buffers.shape:
            self._buffers.reshape(shape, prompts=len(self._prompts), rows=len(self.running))
        held = {prompt.index for prompt in self._prompts}
        self._run_prompts({index: request for index, request, _ in requests if index not in held})
        prompts = {prompt.index: prompt for prompt in self._prompts}
        new = [Running(prompts[i], c, _uniforms(request, c)) for i, request, c in requests]
        hidden = [sequence.prompt.hidden_D for sequence in new]
        self.running += new
        self._hidden_RD = torch.cat([self._hidden_RD, torch.stack(hidden)])
        self._changed()
        self._run_prefixes(
            [r for r in range(len(self.running) - len(new), len(self.running)) if self.running[r].prefix]
        )
        return self._leave()

    def step(self) -> list[Running]:
        """One token for every row; returns those that ended with it."""
        if not self.running:
            return []
        logits_RV = self.model.lm_head(self._hidden_RD)
        token_R, logprob_R, logprobs_RV = self._choose(logits_RV)
        record(self.running, token_R.tolist(), logprob_R.tolist(), logprobs_RV)
        for sequence in self.running:
            self._end(sequence)
        ended = self._leave()
        if self.running:
            self._forward()
        return ended

    def release(self, index: int) -> None:
        """The request's completions have all ended: its prompt's slot goes to the last one."""
        [slot] = [prompt.slot for prompt in self._prompts if prompt.index == index]
        last = self._prompts.pop()
        if last.slot != slot:
            self._buffers.move_prompt(last.slot, slot, tokens=last.length)
            last.slot = slot
            self._prompts[slot] = last
        self._changed()

    def _run_prompts(self, requests: dict[int, Request]) -> None:
        """Run prompts, media included, once each, into the next slots."""
        if not requests:
            return
        prompts, first = [request.prompt for request in requests.values()], len(self._prompts)
        micro = pack([group_row(prompt, [], []) for prompt in prompts], self.processor)
        features = encode_media(self.model, micro.media, self.processor)
        outputs = gather_features(features, micro.media_order, self.processor)
        recorder = PromptRecorder(self._buffers, first_slot=first)
        inputs = DecoderInputs(micro.ids_BT, micro.positions_3BT, encoder_outputs=outputs, recorder=recorder)
        hidden_PTD = run_decoder(self.model, inputs).last_hidden_state
        for number, (index, request) in enumerate(requests.items()):
            last_D = hidden_PTD[number, len(request.prompt.prompt_ids_T) - 1].clone()
            self._prompts.append(Prompt(index, request, first + number, last_D))

    def _run_prefixes(self, rows: Sequence[int]) -> None:
        """Run forced first tokens, those of many rows in one pass; the rows go on after the last of them."""
        for part in _parts([(r, len(self.running[r].prefix)) for r in rows], most=_PREFIX_TOKENS):
            sequences = [self.running[r] for r in part]
            ids_N = torch.tensor([i for s in sequences for i in s.prefix], device=self._device)
            starts = [(s.request.prompt.next_position, len(s.prefix)) for s in sequences]
            position_N = torch.cat([torch.arange(first, first + count) for first, count in starts])
            places = [
                PrefixRow(r, s.prompt.slot, s.prompt.length, len(s.prefix))
                for r, s in zip(part, sequences, strict=True)
            ]
            attention = PrefixAttention(self._buffers, places, window=self._window)
            hidden_ND = self._run(ids_N[None], position_N[None], attention)[0]
            for r, sequence, states in zip(part, sequences, hidden_ND.split([n for _, n in starts]), strict=True):
                self._record_forced(sequence, torch.cat([self._hidden_RD[r : r + 1], states[:-1]]))
                self._hidden_RD[r] = states[-1]

    def _record_forced(self, sequence: Running, hidden_ND: torch.Tensor) -> None:
        """Forced tokens with the policy's log-probs: top-k, top-p and min-p do not count, but in what is reported
        beside them.
        """
        request = sequence.request
        sampling = request.sampling
        plain = Sampling(temperature=sampling.temperature, greedy=sampling.greedy)
        tokens = torch.tensor(sequence.prefix, device=self._device)
        for states, token_N in zip(hidden_ND.split(_HEAD_TOKENS), tokens.split(_HEAD_TOKENS), strict=True):
            logits_NV = self.model.lm_head(states)
            plain_NV = transform_logits(logits_NV, plain, self._banned_V)
            logprob_N = plain_NV.gather(-1, token_N[:, None])[:, 0]
            reported_NV = plain_NV
            if request.want_entropy or request.top_alternatives:
                reported_NV = transform_logits(logits_NV, sampling, self._banned_V)
            record([sequence] * len(token_N), token_N.tolist(), logprob_N.tolist(), reported_NV)
        self._end(sequence)

    def _choose(self, logits_RV: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The next token of every row, its log-prob, and the distribution it is of."""
        rows_of = self._rows_of = self._rows_of or self._by_sampling()
        if len(rows_of) == 1:
            logprobs_RV = transform_logits(logits_RV, self.running[0].request.sampling, self._banned_V)
        else:
            logprobs_RV = torch.empty(logits_RV.shape, device=self._device)
            for sampling, rows in rows_of.items():
                logprobs_RV[rows] = transform_logits(logits_RV[rows], sampling, self._banned_V)
        is_greedy = [sequence.request.sampling.greedy for sequence in self.running]
        if all(is_greedy):
            token_R = logprobs_RV.argmax(-1)
        else:
            uniform_R = [0.0 if s.request.sampling.greedy else s.uniform_S[len(s.ids)] for s in self.running]
            token_R = draw(logprobs_RV, torch.tensor(uniform_R, dtype=torch.float64, device=self._device))
            if any(is_greedy):
                token_R = torch.where(torch.tensor(is_greedy, device=self._device), logprobs_RV.argmax(-1), token_R)
        return token_R, logprobs_RV.gather(-1, token_R[:, None])[:, 0], logprobs_RV

    def _by_sampling(self) -> dict[Sampling, list[int]]:
        rows_of: dict[Sampling, list[int]] = {}
        for r, sequence in enumerate(self.running):
            rows_of.setdefault(sequence.request.sampling, []).append(r)
        return rows_of

    def _forward(self) -> None:
        """Run the last token of every row."""
        if self._places is None:
            prompts = [sequence.prompt for sequence in self.running]
            firsts = [prompt.request.prompt.next_position for prompt in prompts]
            slots, lengths = [prompt.slot for prompt in prompts], [prompt.length for prompt in prompts]
            self._places = RowPlaces.of(slots, lengths, firsts, self._device)
        lengths = [len(sequence.ids) - 1 for sequence in self.running]
        ids_R = torch.tensor([sequence.ids[-1] for sequence in self.running], device=self._device)
        attention = StepAttention(self._buffers, self._places, lengths, window=self._window)
        position_R = self._places.first_R + attention.length_R
        self._hidden_RD = self._run(ids_R[:, None], position_R[:, None], attention)[:, 0]

    def _run(
        self, ids_BT: torch.Tensor, position_BT: torch.Tensor, attention: StepAttention | PrefixAttention
    ) -> torch.Tensor:
        """Completion tokens through the language model: (B, T, D)."""
        decoder, position_BT = decoder_of(self.model), position_BT.to(self._device)
        is_3d = self.processor.family.position_axes == 3
        with attending(decoder, attention) as options:
            output = decoder(
                inputs_embeds=self.model.get_input_embeddings()(ids_BT),
                position_ids=position_BT.expand(3, -1, -1) if is_3d else position_BT,
                **options,
            )
        return output.last_hidden_state

    def _end(self, sequence: Running) -> None:
        """Say why a completion has ended, if it has. Of forced tokens only the last one ends it."""
        sampling = sequence.request.sampling
        if is_complete(sequence.ids, sampling.stop, self.processor):
            sequence.finish_reason = "stop"
        elif len(sequence.ids) >= sampling.max_new_tokens:
            sequence.finish_reason = "length"

    def _leave(self) -> list[Running]:
        """Take out completions that have ended; the last rows move into theirs."""
        ended = [sequence for sequence in self.running if sequence.finish_reason is not None]
        if not ended:
            return []
        count = len(self.running) - len(ended)
        order = list(range(count))
        free = [r for r in order if self.running[r].finish_reason is not None]
        beyond = [r for r in range(count, len(self.running)) if self.running[r].finish_reason is None]
        for target, source in zip(free, beyond, strict=True):
            self._buffers.move_row(source, target, tokens=len(self.running[source].ids))
            order[target] = source
        self.running = [self.running[r] for r in order]
        self._hidden_RD = self._hidden_RD[order]
        self._changed()
        return ended

    def _changed(self) -> None:
        """Other rows run, or elsewhere."""
        self._places = self._rows_of = None


def record(
    sequences: Sequence[Running], tokens: Sequence[int], logprobs: Sequence[float], logprobs_RV: torch.Tensor
) -> None:
    """Add a token to each sequence (which may come several times) and what its request wants to know."""
    for sequence, token, logprob in zip(sequences, tokens, logprobs, strict=True):
        sequence.ids.append(token)
        sequence.logprobs.append(logprob)
    requests = [sequence.request for sequence in sequences]
    if any(request.want_entropy for request in requests):
        for sequence, value in zip(sequences, entropy(logprobs_RV).tolist(), strict=True):
            if sequence.request.want_entropy:
                sequence.entropy.append(value)
    widest = max(request.top_alternatives for request in requests)
    if widest:
        for sequence, row in zip(sequences, top_alternatives(logprobs_RV, widest), strict=True):
            if sequence.request.top_alternatives:
                sequence.alternatives.append(row[: sequence.request.top_alternatives])


def _uniforms(request: Request, completion: int) -> Sequence[float]:
    if request.sampling.greedy:
        return ()
    return uniforms(request.seed, completion=completion, count=request.sampling.max_new_tokens).tolist()


def _parts(sizes: Sequence[tuple[int, int]], *, most: int) -> Iterator[list[int]]:
    """Names of (name, size), in order, in parts of at most `most` in all; a larger one is a part of its own."""
    part: list[int] = []
    total = 0
    for name, size in sizes:
        if part and total + size > most:
            yield part
            part, total = [], 0
        part.append(name)
        total += size
    if part:
        yield part
