"""The block mask of a forest for FlexAttention, from its segments alone: no T x T mask is made on the way.

A block of queries and a block of keys are visited where some segment of the one sees some segment of the other and
the keys do not all follow; they need no mask where all do and the keys all precede. FlexAttention asks `sees` for the
pairs in between.

Shape letters: B rows, T tokens of a row, N = B * T, S segments, Q blocks of a row.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn.attention.flex_attention import BlockMask

from mmrl.algorithms.tree import Forest
from mmrl.models.tree_attention import Window

BLOCK = 128


def block_mask(forest: Forest, window: Window | None = None, *, device: torch.device | str = "cpu") -> BlockMask:
    """See `mmrl.models.tree_attention.Window` for what a window changes."""
    visited_BQQ, whole_BQQ = _blocks(forest, window)
    partial = _listed(visited_BQQ & ~whole_BQQ, device=device)
    whole = _listed(whole_BQQ, device=device)
    return BlockMask.from_kv_blocks(
        *partial,
        *whole,
        BLOCK_SIZE=BLOCK,
        mask_mod=_sees(forest, window, device=device),
        seq_lengths=(forest.length, forest.length),
    )


def _sees(forest: Forest, window: Window | None, *, device: torch.device | str) -> Callable[..., torch.Tensor]:
    """FlexAttention's question: does query q of row b see key k?

    What differs between micro-batches are tensors, no numbers, for which it would be compiled anew.
    """
    shape = forest.rows, forest.length
    segment_BT, sees_SS = forest.segment_N.view(shape).to(device), forest.sees_SS.to(device)

    def sees(b: torch.Tensor, h: torch.Tensor, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        del h
        return sees_SS[segment_BT[b, q], segment_BT[b, k]] & (k <= q)

    if window is None:
        return sees
    size = window.size
    positions_BT, pictures_BT = (of.view(shape).to(device) for of in (window.positions_N, window.pictures_N))

    def sees_near(b: torch.Tensor, h: torch.Tensor, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        picture = pictures_BT[b, q]
        found = sees(b, h, q, k) | ((picture > 0) & (picture == pictures_BT[b, k]))
        return found if size is None else found & (positions_BT[b, k] > positions_BT[b, q] - size)

    return sees_near


def _blocks(forest: Forest, window: Window | None) -> tuple[torch.Tensor, torch.Tensor]:
    """bool (B, Q, Q) twice: pairs of blocks in which some token sees some, and in which all see all."""
    count = -(-forest.length // BLOCK)
    has_BQS = _presence(forest.segment_N, len(forest.spans) + 1, forest=forest, count=count)
    sees_SS = forest.sees_SS.float()
    some_BQQ = (has_BQS @ sees_SS @ has_BQS.transpose(1, 2)) > 0
    all_BQQ = (has_BQS @ (1 - sees_SS) @ has_BQS.transpose(1, 2)) == 0
    number_Q = torch.arange(count)
    visited_BQQ = some_BQQ & (number_Q <= number_Q[:, None])
    whole_BQQ = all_BQQ & (number_Q < number_Q[:, None])
    if window is not None:
        pictures = int(window.pictures_N.max()) + 1
        shows_BQS = _presence(window.pictures_N, pictures, forest=forest, count=count)[:, :, 1:]
        visited_BQQ |= (shows_BQS @ shows_BQS.transpose(1, 2)) > 0
        if window.size is not None:
            whole_BQQ = torch.zeros_like(whole_BQQ)
    return visited_BQQ, whole_BQQ & visited_BQQ


def _presence(number_N: torch.Tensor, numbers: int, *, forest: Forest, count: int) -> torch.Tensor:
    """float (B, Q, numbers): 1 where a block has a token of the number."""
    block_N = torch.arange(forest.length).div(BLOCK, rounding_mode="floor").repeat(forest.rows)
    row_N = torch.arange(forest.rows).repeat_interleave(forest.length)
    found = torch.zeros(forest.rows, count, numbers)
    found[row_N, block_N, number_N] = 1.0
    return found


def _listed(blocks_BQQ: torch.Tensor, *, device: torch.device | str) -> tuple[torch.Tensor, torch.Tensor]:
    """How many blocks of keys each block of queries has, and their numbers first: (B, 1, Q) and (B, 1, Q, Q)."""
    count_BQ = blocks_BQQ.sum(-1, dtype=torch.int32)
    order_BQQ = blocks_BQQ.int().argsort(dim=-1, descending=True, stable=True).int()
    return count_BQ[:, None].to(device), order_BQQ[:, None].to(device)
