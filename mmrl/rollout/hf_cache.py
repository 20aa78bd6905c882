"""Keys and values while completions grow: of a prompt once, however many completions follow it, and of each completion.

Both are buffers made once for a shape; nothing is repeated or joined from step to step. The attention of a decode step
reads them in two parts: all completions of a prompt ask its keys in one product, each its own keys, and one softmax
spans both. Prompts themselves run through the attention the model has, and leave their keys and values here.

Shape letters: P prompt slots, W rows of a prompt (padded to the most), T prompt tokens, R rows (completions), S tokens
of a row, H heads, J key-value heads, Q = H / J, D head size, N tokens of one pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

from mmrl.rollout.hf_slots import SlotShape

_NAME = "mmrl_two_parts"


_CLEARED_AT_ONCE = 32


@dataclass(slots=True, eq=False)
class _Layer:
    """Keys and values (the first axis, of size 2) of prompts and of rows."""

    prompts_2PJTD: torch.Tensor
    rows_2RJSD: torch.Tensor

    @classmethod
    def empty(cls, shape: SlotShape, like_1J1D: torch.Tensor) -> _Layer:
        heads, size = like_1J1D.shape[-3], like_1J1D.shape[-1]
        return cls(
            like_1J1D.new_empty(2, shape.prompts, heads, shape.prompt_tokens, size),
            like_1J1D.new_empty(2, shape.rows, heads, shape.new_tokens, size),
        )


class KvBuffers:
    """The buffers of all layers. Rows and slots that are in use come first in them.

    Steps also read, with weight 0, what was not written, so that it has to be finite: memory is cleared as it comes
    into reach. Until then a system that gives memory when it is touched has not given it.
    """

    def __init__(self) -> None:
        self.shape = SlotShape()
        self._layers: dict[int, _Layer] = {}
        self._cleared = 0

    def layer(self, index: int) -> _Layer:
        return self._layers[index]

    @property
    def dtype(self) -> torch.dtype:
        return next(iter(self._layers.values())).rows_2RJSD.dtype

    def record(self, index: int, slots: slice, key_PJTD: torch.Tensor, value_PJTD: torch.Tensor) -> None:
        """Keys and values of prompts, padded on the right, into their slots."""
        if index not in self._layers:
            self._layers[index] = _Layer.empty(self.shape, key_PJTD)
        tokens = key_PJTD.shape[2]
        for buffer, new in zip(self._layers[index].prompts_2PJTD, (key_PJTD, value_PJTD), strict=True):
            buffer[slots, :, :tokens] = new
            buffer[slots, :, tokens:] = 0

    def reach(self, tokens: int) -> None:
        """Before rows of so many tokens are read or written."""
        if tokens <= self._cleared:
            return
        until = min(self.shape.new_tokens, tokens + _CLEARED_AT_ONCE)
        for layer in self._layers.values():
            layer.rows_2RJSD[:, :, :, self._cleared : until] = 0
        self._cleared = until

    def reshape(self, shape: SlotShape, *, prompts: int, rows: int) -> None:
        """Buffers of another shape, with the first `prompts` slots and `rows` rows as they were."""
        width = min(self._cleared, shape.new_tokens)
        for index, old in self._layers.items():
            new = _Layer.empty(shape, old.rows_2RJSD)
            tokens = min(self.shape.prompt_tokens, shape.prompt_tokens)
            new.prompts_2PJTD[:, :prompts, :, :tokens] = old.prompts_2PJTD[:, :prompts, :, :tokens]
            new.prompts_2PJTD[:, :prompts, :, tokens:] = 0
            new.rows_2RJSD[:, :rows, :, :width] = old.rows_2RJSD[:, :rows, :, :width]
            new.rows_2RJSD[:, rows:, :, :width] = 0
            self._layers[index] = new
        self.shape, self._cleared = shape, width

    def move_row(self, source: int, target: int, *, tokens: int) -> None:
        for layer in self._layers.values():
            layer.rows_2RJSD[:, target, :, :tokens] = layer.rows_2RJSD[:, source, :, :tokens]

    def move_prompt(self, source: int, target: int, *, tokens: int) -> None:
        for layer in self._layers.values():
            layer.prompts_2PJTD[:, target, :, :tokens] = layer.prompts_2PJTD[:, source, :, :tokens]


class PromptRecorder:
    """What a transformers model takes for its cache when it runs prompts: each layer's keys and values go to slots."""

    is_compileable = False

    def __init__(self, buffers: KvBuffers, *, first_slot: int) -> None:
        self._buffers, self._first = buffers, first_slot

    def update(
        self, key_PJTD: torch.Tensor, value_PJTD: torch.Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        slots = slice(self._first, self._first + len(key_PJTD))
        self._buffers.record(layer_idx, slots, key_PJTD, value_PJTD)
        return key_PJTD, value_PJTD

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """None is cached before a prompt."""
        return 0

    def get_query_offset(self, layer_idx: int = 0) -> int:
        return 0

    def get_mask_sizes(self, query_length: int, layer_idx: int = 0) -> tuple[int, int]:
        return query_length, 0


@dataclass(frozen=True, slots=True, eq=False)
class RowPlaces:
    """Where the rows find their prompts, until one of them comes or goes.

    place_R: prompt slot x W + number among the rows of that prompt; None where that is the row's own number. row_PW:
    the row at each place, any where there is none.
    length_R: tokens of each row's prompt. first_R: the position that follows it.
    """

    prompts: int
    width: int
    place_R: torch.Tensor | None
    row_PW: torch.Tensor | None
    length_R: torch.Tensor
    first_R: torch.Tensor
    prompt_tokens: int
    is_padded: bool
    _views: dict[int, tuple[torch.Tensor, torch.Tensor]] = field(default_factory=dict)

    @classmethod
    def of(cls, slots: Sequence[int], lengths: Sequence[int], firsts: Sequence[int], device: Any) -> RowPlaces:
        """slots, lengths and firsts: of each row's prompt."""
        prompts, seen, numbers = max(slots) + 1, {}, []
        for slot in slots:
            numbers.append(seen.get(slot, 0))
            seen[slot] = numbers[-1] + 1
        width = max(seen.values())
        places = [slot * width + number for slot, number in zip(slots, numbers, strict=True)]
        is_plain = places == list(range(prompts * width))
        rows = [0] * (prompts * width)
        for row, place in enumerate(places):
            rows[place] = row
        return cls(
            prompts=prompts,
            width=width,
            place_R=None if is_plain else torch.tensor(places, device=device),
            row_PW=None if is_plain else torch.tensor(rows, device=device),
            length_R=torch.tensor(lengths, device=device),
            first_R=torch.tensor(firsts, device=device),
            prompt_tokens=max(lengths),
            is_padded=min(lengths) < max(lengths),
        )

    def prompts_of(self, layer_idx: int, buffers: KvBuffers) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys (P J, D, T) and values (P J, T, D) of the prompts of a layer."""
        if layer_idx not in self._views:
            held_2PJTD = buffers.layer(layer_idx).prompts_2PJTD[:, : self.prompts, :, : self.prompt_tokens]
            key, value = held_2PJTD.flatten(1, 2)
            self._views[layer_idx] = (key.mT, value)
        return self._views[layer_idx]

    def by_prompt(self, x_RJQD: torch.Tensor) -> torch.Tensor:
        """(R, J, Q, any) as (P J, W Q, any); with rows of others where a prompt has fewer rows than W."""
        if self.row_PW is not None:
            x_RJQD = x_RJQD.index_select(0, self.row_PW)
        heads, queries, size = x_RJQD.shape[1:]
        x_PWJQD = x_RJQD.reshape(self.prompts, self.width, heads, queries, size)
        return x_PWJQD.transpose(1, 2).reshape(self.prompts * heads, self.width * queries, size)

    def by_row(self, x: torch.Tensor, *, heads: int) -> torch.Tensor:
        """The inverse of `by_prompt`."""
        x_PJWQD = x.view(self.prompts, heads, self.width, -1, x.shape[-1])
        x_RJQD = x_PJWQD.transpose(1, 2).flatten(0, 1)
        return x_RJQD if self.place_R is None else x_RJQD.index_select(0, self.place_R)


class StepAttention:
    """The attention of one new token for each of the first R rows.

    lengths: how many tokens of its own each row has already. window: of layers that see the last positions only.
    """

    def __init__(
        self, buffers: KvBuffers, places: RowPlaces, lengths: Sequence[int], *, window: int | None = None
    ) -> None:
        self._buffers, self._places = buffers, places
        self._tokens, self._dtype = max(lengths) + 1, buffers.dtype
        self.length_R = torch.tensor(lengths, device=places.length_R.device)
        self._orders = places.by_prompt, places.by_row
        self._places_2RJ: torch.Tensor | None = None
        self._bias = self._padding() if places.is_padded or min(lengths) < max(lengths) else None
        self._window_bias = None if window is None else self._window(window)
        buffers.reach(self._tokens)

    def attend(
        self,
        layer_idx: int,
        query_RH1D: torch.Tensor,
        key_RJ1D: torch.Tensor,
        value_RJ1D: torch.Tensor,
        *,
        scaling: float,
        windowed: bool,
    ) -> torch.Tensor:
        """(R, 1, H, D)."""
        rows, heads, _, size = key_RJ1D.shape
        tokens, own, by_prompt, by_row = self._places.prompt_tokens, self._tokens, *self._orders
        buffer_2RJSD = self._buffers.layer(layer_idx).rows_2RJSD
        new = torch.cat([key_RJ1D, value_RJ1D]).view(-1, size)
        buffer_2RJSD.view(-1, size).index_copy_(0, self._written(heads), new)
        prompt_key, prompt_value = self._places.prompts_of(layer_idx, self._buffers)
        width = buffer_2RJSD.stride(2)
        own_key = buffer_2RJSD.as_strided((rows * heads, size, own), (width, 1, size))
        own_value = buffer_2RJSD.as_strided((rows * heads, own, size), (width, size, 1), buffer_2RJSD.stride(0))
        query_RJQD = query_RH1D.reshape(rows, heads, -1, size)
        asked = torch.bmm(by_prompt(query_RJQD), prompt_key)
        asked_own = torch.bmm(query_RJQD.flatten(0, 1), own_key)
        score = torch.cat([by_row(asked, heads=heads), asked_own.view(rows, heads, -1, own)], dim=-1)
        bias = self._window_bias if windowed and self._window_bias is not None else self._bias
        score = score.mul_(scaling) if bias is None else torch.add(bias, score, alpha=scaling)
        of_prompt, of_own = score.softmax(-1, dtype=torch.float32).to(new.dtype).split([tokens, own], dim=-1)
        from_prompt = by_row(torch.bmm(by_prompt(of_prompt), prompt_value), heads=heads)
        return torch.baddbmm(from_prompt.flatten(0, 1), of_own.flatten(0, 1), own_value).view(rows, 1, -1, size)

    def _written(self, heads: int) -> torch.Tensor:
        """Places of the new token in a layer's row buffer seen as one list of (key or value, row, head, token)."""
        shape = self._buffers.shape
        if self._places_2RJ is None or len(self._places_2RJ) != 2 * heads * len(self.length_R):
            device = self.length_R.device
            row_RJ = torch.arange(heads * len(self.length_R), device=device).view(-1, heads)
            place_RJ = row_RJ * shape.new_tokens + self.length_R[:, None]
            values = shape.rows * heads * shape.new_tokens
            self._places_2RJ = torch.stack([place_RJ, place_RJ + values]).flatten()
        return self._places_2RJ

    def _padding(self) -> torch.Tensor:
        """-inf for keys that a row has not got, (R, 1, 1, K)."""
        places, device = self._places, self.length_R.device
        prompt_RT = torch.arange(places.prompt_tokens, device=device) >= places.length_R[:, None]
        own_RS = torch.arange(self._tokens, device=device) > self.length_R[:, None]
        hidden_RK = torch.cat([prompt_RT, own_RS], dim=1)
        bias_RK = torch.zeros(hidden_RK.shape, dtype=self._dtype, device=device).masked_fill_(hidden_RK, -torch.inf)
        return bias_RK[:, None, None]

    def _window(self, window: int) -> torch.Tensor:
        """-inf also for keys `window` positions before the new token and more."""
        places, device = self._places, self.length_R.device
        prompt_RT = torch.arange(places.prompt_tokens, device=device).expand(len(self.length_R), -1)
        own_RS = places.first_R[:, None] + torch.arange(self._tokens, device=device)
        near_RK = torch.cat([prompt_RT, own_RS], dim=1) > (places.first_R + self.length_R)[:, None] - window
        return self._padding().masked_fill_(~near_RK[:, None, None], -torch.inf)


@dataclass(frozen=True, slots=True)
class PrefixRow:
    """Forced first tokens of a row: its number, its prompt's slot and length, how many there are."""

    row: int
    slot: int
    prompt_tokens: int
    tokens: int


class PrefixAttention:
    """The attention of forced tokens of several rows, one after the other in one packed row without padding."""

    def __init__(self, buffers: KvBuffers, rows: Sequence[PrefixRow], *, window: int | None = None) -> None:
        self._buffers, self._rows, self._window = buffers, rows, window
        buffers.reach(max(row.tokens for row in rows))

    def attend(
        self,
        layer_idx: int,
        query_1HND: torch.Tensor,
        key_1JND: torch.Tensor,
        value_1JND: torch.Tensor,
        *,
        scaling: float,
        windowed: bool,
    ) -> torch.Tensor:
        """(1, N, H, D)."""
        layer, start, outputs = self._buffers.layer(layer_idx), 0, []
        for row in self._rows:
            part = slice(start, start + row.tokens)
            start = part.stop
            key, value = key_1JND[:, :, part], value_1JND[:, :, part]
            layer.rows_2RJSD[:, row.row, :, : row.tokens] = torch.cat([key, value])
            prompt_key, prompt_value = layer.prompts_2PJTD[:, row.slot, None, :, : row.prompt_tokens]
            output_1HND = scaled_dot_product_attention(
                query_1HND[:, :, part],
                torch.cat([prompt_key, key], dim=2),
                torch.cat([prompt_value, value], dim=2),
                attn_mask=self._mask(row, device=key.device, windowed=windowed),
                scale=scaling,
                enable_gqa=True,
            )
            outputs.append(output_1HND.transpose(1, 2))
        return torch.cat(outputs, dim=1)

    def _mask(self, row: PrefixRow, *, device: Any, windowed: bool) -> torch.Tensor:
        shape = (row.tokens, row.prompt_tokens + row.tokens)
        mask_NK = torch.ones(shape, dtype=torch.bool, device=device).tril(row.prompt_tokens)
        if windowed and self._window is not None:
            mask_NK = mask_NK.triu(row.prompt_tokens - self._window + 1)
        return mask_NK


@contextmanager
def attending(decoder: Any, attention: StepAttention | PrefixAttention) -> Iterator[dict[str, Any]]:
    """Within the block the decoder's layers attend by `attention`; yields what its call needs for that."""
    from transformers import AttentionInterface

    AttentionInterface.register(_NAME, _attend)
    config = decoder.config
    before = config._attn_implementation
    config._attn_implementation = _NAME
    try:
        yield {"kv_attention": attention, "use_cache": False}
    finally:
        config._attn_implementation = before


def _attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: None,
    *,
    kv_attention: StepAttention | PrefixAttention,
    scaling: float,
    sliding_window: int | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """In the form in which transformers calls an attention function."""
    output = kv_attention.attend(
        module.layer_idx, query, key, value, scaling=scaling, windowed=sliding_window is not None
    )
    return output, None
