"""Attention over a forest of segments by parts, exact, and without a mask of queries x keys.

Each chain of a forest sees itself causally: a flash-attention call of its own. What it sees before itself is whole
ranges: a call without mask, one for all neighbours that see the same (the G completions of a group see their prompt in
one). Parts of one query are put together by their log-sum-exp l, as flash-attention does with its blocks:

    l = log(exp(l1) + exp(l2))        out = out1 exp(l1 - l) + out2 exp(l2 - l)

and the backward pass of a part with the whole l and the whole out is that part's share of the gradients. So nothing of
size queries x keys exists, what is kept for the backward pass is q, k, v, out and l, and pairs that do not see each
other cost nothing. Layers with a window, and pictures whose tokens see each other, take masks of QUERIES x keys, built
per part and let go.

Causal parts of nearly equal length are one batched call, filled up behind their ends, which no query before sees.

CPU only (`_scaled_dot_product_flash_attention_for_cpu` of torch 2.13). Shape letters: B rows, H query heads, J key
heads, T tokens of a row, N = B * T, n queries and m keys of a part, c parts of a call, D width of a head.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from mmrl.algorithms.tree import Chain, Forest

QUERIES = 256
"""Queries of a masked part: its mask has so many rows."""
_FILL = 1.25
"""Chains are put into one call while the longest has at most so many times the tokens of the shortest."""

_forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


@dataclass(frozen=True)
class Window:
    """What a kind of layer hides or shows beside the forest.

    positions_N: of every token. pictures_N: number of the picture that a token belongs to, 0 for none: its tokens see
    each other in both directions. size: only keys less than so many positions back are seen; None: all.
    """

    positions_N: torch.Tensor
    pictures_N: torch.Tensor
    size: int | None


class _Whole(NamedTuple):
    """Queries that see all of a range of keys."""

    queries: slice
    keys: slice


class _Causal(NamedTuple):
    """Ranges of tokens that see themselves causally. token_cn: their tokens, filled up behind their ends with those
    that follow; real_cn: which are no filling (None: all).
    """

    token_cn: torch.Tensor
    real_cn: torch.Tensor | None


class _Masked(NamedTuple):
    """Queries that see some of the keys at the indices key_m."""

    queries: slice
    key_m: torch.Tensor


class TreePlan:
    """The parts of a forest, for one kind of layer; made once for a forward pass and its backward pass."""

    def __init__(self, forest: Forest, window: Window | None = None) -> None:
        self.forest, self.window = forest, window
        self.whole: list[_Whole] = []
        self.causal: list[_Causal] = []
        self.masked: list[_Masked] = []
        if window is None:
            self.whole, self.causal = _whole(forest.chains), _causal(forest.chains)
        else:
            self.masked = [part for chain in forest.chains for part in _masked(chain, window)]

    def bias(self, part: _Masked, dtype: torch.dtype) -> torch.Tensor:
        """(n, m): 0 where a query sees a key, else -inf."""
        assert self.window is not None
        window, query_n = self.window, torch.arange(part.queries.start, part.queries.stop)
        sees = part.key_m <= query_n[:, None]
        picture_n, picture_m = window.pictures_N[part.queries], window.pictures_N[part.key_m]
        sees |= (picture_n[:, None] == picture_m) & (picture_n[:, None] > 0)
        if window.size is not None:
            sees &= window.positions_N[part.key_m] > window.positions_N[part.queries][:, None] - window.size
        return torch.zeros(sees.shape, dtype=dtype).masked_fill_(~sees, -torch.inf)


def tree_attention(
    query_BHTD: torch.Tensor, key_BJTD: torch.Tensor, value_BJTD: torch.Tensor, *, plan: TreePlan, scale: float | None
) -> torch.Tensor:
    """(B, T, H, D), 0 for padding."""
    rows, length = plan.forest.rows, plan.forest.length
    flat = [tensor.transpose(1, 2).flatten(0, 1) for tensor in (query_BHTD, key_BJTD, value_BJTD)]
    return _TreeAttention.apply(*flat, plan, scale).unflatten(0, (rows, length))  # type: ignore


class _TreeAttention(torch.autograd.Function):
    """On tensors (N, heads, D)."""

    @staticmethod
    def forward(ctx: Any, query_NHD: Any, key_NJD: Any, value_NJD: Any, plan: TreePlan, scale: float | None) -> Any:
        out_NHD = torch.zeros_like(query_NHD, memory_format=torch.contiguous_format)
        total_NH = torch.zeros(query_NHD.shape[:2], dtype=_sum_type(query_NHD.dtype))
        groups = query_NHD.shape[1] // key_NJD.shape[1]
        attend = functools.partial(_forward, scale=scale)
        for part in plan.causal:
            q, k, v = _batched(part, query_NHD), _batched(part, key_NJD, groups), _batched(part, value_NJD, groups)
            out, total = attend(q, k, v, 0.0, True)
            _place(part, out_NHD, out.transpose(1, 2))
            _place(part, total_NH, total.transpose(1, 2))
        for part in plan.masked:
            keys = [_heads(tensor[part.key_m], groups) for tensor in (key_NJD, value_NJD)]
            bias = plan.bias(part, query_NHD.dtype)
            out, total = attend(_heads(query_NHD[part.queries]), *keys, 0.0, False, attn_mask=bias)
            out_NHD[part.queries], total_NH[part.queries] = out[0].transpose(0, 1), total[0].T
        for part in plan.whole:
            folded = _folded(query_NHD[part.queries], groups)
            out, total = attend(folded, _heads(key_NJD[part.keys]), _heads(value_NJD[part.keys]), 0.0, False)
            _add(out_NHD[part.queries], total_NH[part.queries], _unfolded(out, groups), _unfolded_sums(total, groups))
        ctx.save_for_backward(query_NHD, key_NJD, value_NJD, out_NHD, total_NH)
        ctx.plan, ctx.scale, ctx.groups = plan, scale, groups
        return out_NHD

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:  # type: ignore[override]
        query_NHD, key_NJD, value_NJD, out_NHD, total_NH = ctx.saved_tensors
        plan, groups, gradient_NHD = ctx.plan, ctx.groups, gradients[0]
        found = [torch.zeros_like(t, memory_format=torch.contiguous_format) for t in (query_NHD, key_NJD, value_NJD)]
        attend = functools.partial(_backward, dropout_p=0.0, scale=ctx.scale)
        for part in plan.causal:
            gradient = _batched(part, gradient_NHD)
            if part.real_cn is not None:  # what is filled in is no query
                gradient = gradient.masked_fill(~part.real_cn[:, None, :, None], 0.0)
            q, k, v = _batched(part, query_NHD), _batched(part, key_NJD, groups), _batched(part, value_NJD, groups)
            sums = total_NH[part.token_cn].transpose(1, 2)
            parts = attend(gradient, q, k, v, _batched(part, out_NHD), sums, is_causal=True)
            for whole, share, repeats in zip(found, parts, (1, groups, groups), strict=True):
                _place(part, whole, _summed(share, repeats).transpose(1, 2))
        for part in plan.masked:
            keys = [_heads(tensor[part.key_m], groups) for tensor in (key_NJD, value_NJD)]
            own = [_heads(tensor[part.queries]) for tensor in (gradient_NHD, query_NHD, out_NHD)]
            bias = plan.bias(part, query_NHD.dtype)
            sums = total_NH[part.queries].T[None]
            dq, dk, dv = attend(own[0], own[1], *keys, own[2], sums, is_causal=False, attn_mask=bias)
            found[0][part.queries] = dq[0].transpose(0, 1)
            for whole, share in ((found[1], dk), (found[2], dv)):
                whole.index_add_(0, part.key_m, _summed(share, groups)[0].transpose(0, 1))
        for part in plan.whole:
            own = [_folded(tensor[part.queries], groups) for tensor in (gradient_NHD, query_NHD, out_NHD)]
            keys = [_heads(tensor[part.keys]) for tensor in (key_NJD, value_NJD)]
            sums = _folded(total_NH[part.queries][..., None], groups)[..., 0]
            dq, dk, dv = attend(own[0], own[1], *keys, own[2], sums, is_causal=False)
            found[0][part.queries] += _unfolded(dq, groups)
            found[1][part.keys] += dk[0].transpose(0, 1)
            found[2][part.keys] += dv[0].transpose(0, 1)
        return *found, None, None


def _whole(chains: tuple[Chain, ...]) -> list[_Whole]:
    """Neighbouring chains that see the same are one part."""
    merged: list[Chain] = []
    for chain in chains:
        if merged and merged[-1].end == chain.start and merged[-1].seen == chain.seen:
            merged[-1] = merged[-1]._replace(end=chain.end)
        else:
            merged.append(chain)
    return [_Whole(slice(c.start, c.end), slice(*keys)) for c in merged for keys in c.seen]


def _causal(chains: tuple[Chain, ...]) -> list[_Causal]:
    """Chains of nearly equal length together, longest first."""
    ordered = sorted((chain for chain in chains if chain.end > chain.start), key=lambda c: c.start - c.end)
    calls: list[list[Chain]] = []
    for chain in ordered:
        longest = calls[-1][0].end - calls[-1][0].start if calls else 0
        if longest and longest <= _FILL * (chain.end - chain.start) + 4:
            calls[-1].append(chain)
        else:
            calls.append([chain])
    return [_call(call) for call in calls]


def _call(chains: list[Chain]) -> _Causal:
    length_c = torch.tensor([chain.end - chain.start for chain in chains])
    offset_n = torch.arange(int(length_c.max()))
    real_cn = offset_n < length_c[:, None]
    # Filled up with a chain's own last token: an index that is there.
    token_cn = torch.tensor([chain.start for chain in chains])[:, None] + torch.minimum(offset_n, length_c[:, None] - 1)
    return _Causal(token_cn, None if bool(real_cn.all()) else real_cn)


def _masked(chain: Chain, window: Window) -> list[_Masked]:
    """QUERIES at a time, each with the keys that some of them may see."""
    parts = []
    for start in range(chain.start, chain.end, QUERIES):
        end = min(start + QUERIES, chain.end)
        last = _end_of_picture(end, chain.end, window.pictures_N)
        key_m = torch.cat([*(torch.arange(*keys) for keys in chain.seen), torch.arange(chain.start, last)])
        if window.size is not None:
            nearest = int(window.positions_N[start:end].min()) - window.size
            key_m = key_m[window.positions_N[key_m] > nearest]
        parts.append(_Masked(slice(start, end), key_m))
    return parts


def _end_of_picture(end: int, limit: int, pictures_N: torch.Tensor) -> int:
    """The first token after `end` that is not of the picture that the token before it belongs to."""
    number = int(pictures_N[end - 1])
    while number and end < limit and int(pictures_N[end]) == number:
        end += 1
    return end


def _sum_type(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


def _batched(part: _Causal, tensor_NHD: torch.Tensor, repeats: int = 1) -> torch.Tensor:
    """(c, H, n, D), each head `repeats` times."""
    heads = tensor_NHD[part.token_cn].transpose(1, 2)
    return heads if repeats == 1 else heads.repeat_interleave(repeats, dim=1)


def _place(part: _Causal, whole: torch.Tensor, values_cn: torch.Tensor) -> None:
    """Write the values of a call's tokens; those of the filling are left out."""
    if part.real_cn is None:
        whole[part.token_cn.flatten()] = values_cn.flatten(0, 1).to(whole.dtype)
    else:
        whole[part.token_cn[part.real_cn]] = values_cn[part.real_cn].to(whole.dtype)


def _heads(tensor_nHD: torch.Tensor, repeats: int = 1) -> torch.Tensor:
    """(1, H, n, D), each head `repeats` times."""
    heads = tensor_nHD.transpose(0, 1)[None]
    return heads if repeats == 1 else heads.repeat_interleave(repeats, dim=1)


def _folded(tensor_nHD: torch.Tensor, groups: int) -> torch.Tensor:
    """(1, J, groups * n, D): query heads that share a key head as more queries of it."""
    return tensor_nHD.unflatten(1, (-1, groups)).permute(1, 2, 0, 3).flatten(1, 2)[None]


def _unfolded(tensor_1JnD: torch.Tensor, groups: int) -> torch.Tensor:
    """(n, H, D), the inverse."""
    return tensor_1JnD[0].unflatten(1, (groups, -1)).permute(2, 0, 1, 3).flatten(1, 2)


def _unfolded_sums(total_1Jn: torch.Tensor, groups: int) -> torch.Tensor:
    return _unfolded(total_1Jn[..., None], groups)[..., 0]


def _summed(gradient_cHnD: torch.Tensor, repeats: int) -> torch.Tensor:
    """The gradient of heads that were repeated."""
    return gradient_cHnD if repeats == 1 else gradient_cHnD.unflatten(1, (-1, repeats)).sum(2)


def _add(out_nHD: torch.Tensor, total_nH: torch.Tensor, more_nHD: torch.Tensor, more_total_nH: torch.Tensor) -> None:
    """Put another part of the same queries to what is there, in place."""
    both_nH = torch.logaddexp(total_nH, more_total_nH)
    old_nH1, new_nH1 = ((total - both_nH).exp()[..., None] for total in (total_nH, more_total_nH))
    out_nHD.copy_(out_nHD * old_nH1 + more_nHD * new_nH1)
    total_nH.copy_(both_nH)
