"""TrainBatch: rows that are trees of segments, and the packed micro-batches made from them.

A row holds a prompt once and everything that continues it. Each segment names its parent, so the attention mask
(a token sees its own segment causally and all of its ancestors) and the positions follow from the tree. A prompt with
G completions is the depth-1 case; turns that bring new media and tree search are deeper ones.

    segment 0: prompt                parent -1, no loss
    segment 1: completion 0          parent  0, loss, row index n = 0
    segment 2: completion 1          parent  0, loss, row index n = 1

Shape letters: N sequences (completions), C completion tokens, B packed rows, T packed tokens, L loss tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from mmrl.algorithms.tree import Forest
from mmrl.data.rendered import MediaEntry, Placeholder

Attention = Literal["auto", "parts", "flex", "sdpa"]


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """A run of tokens after its parent.

    ids_T: int64. positions_3T: int64. parent: index of an earlier segment of the row, or -1.
    sequence: index n of the completion this segment belongs to (its loss tokens are row n of all (N, C) arrays),
        or None for tokens without loss. first_token: column of its first token in those arrays.
    placeholders: `start` counts from the segment's first token; `medium` indexes the row's media.
    """

    ids_T: torch.Tensor
    positions_3T: torch.Tensor
    parent: int = -1
    sequence: int | None = None
    first_token: int = 0
    placeholders: tuple[Placeholder, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One tree of segments and the media its placeholders point at."""

    segments: tuple[Segment, ...]
    media: tuple[MediaEntry, ...]

    @property
    def num_tokens(self) -> int:
        return sum(s.ids_T.numel() for s in self.segments)


@dataclass(frozen=True, slots=True, eq=False)
class MicroBatch:
    """Packed rows as the model takes them.

    ids_BT, positions_3BT. forest: who sees whom. attention: by what, see mmrl/models/attention.py.
    media: distinct entries, each encoded once. media_order: for every placeholder run of the packed batch, in token
        order, (index into media, first token, length).
    predict_L: flat index b * T + t of the position whose logits predict target_L; sequence_L and token_L say where
        the result belongs in an (N, C) array.
    """

    ids_BT: torch.Tensor
    positions_3BT: torch.Tensor
    forest: Forest
    media: tuple[MediaEntry, ...]
    media_order: tuple[tuple[int, int, int], ...]
    predict_L: torch.Tensor
    target_L: torch.Tensor
    sequence_L: torch.Tensor
    token_L: torch.Tensor
    attention: Attention = "auto"

    @property
    def mask_B1TT(self) -> torch.Tensor | None:
        """True where a query may see a key; None where plain causal is the same. Made anew each time: it is large."""
        return None if self.forest.is_causal else self.forest.dense_mask()
