"""Who sees whom in packed rows: segments that follow their parents, as ranges of tokens and as a dense mask.

A token sees its own segment up to itself and all of its ancestors. Tokens are counted through the rows of a
micro-batch, b * T + t, so that several rows are one forest, and so are several trees behind each other in one row.

Shape letters: B packed rows, T packed tokens of a row, S segments, N = B * T.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import NamedTuple

import torch


class Span(NamedTuple):
    """Tokens start .. end of one segment; parent: index of an earlier span, or -1."""

    start: int
    end: int
    parent: int


class Chain(NamedTuple):
    """A run of tokens that see each other causally, and the ranges before it that all of them see."""

    start: int
    end: int
    seen: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Forest:
    """The segments of `rows` packed rows of `length` tokens, in token order. What no span covers is padding."""

    spans: tuple[Span, ...]
    rows: int
    length: int

    @property
    def num_tokens(self) -> int:
        """Without padding."""
        return sum(span.end - span.start for span in self.spans)

    @functools.cached_property
    def chains(self) -> tuple[Chain, ...]:
        """Each token in one chain: a segment and those after it of which each continues the one before.

        A prompt of 10 tokens and two completions of 3: (0, 13, ()) and (13, 16, ((0, 10),)).
        """
        chains: list[Chain] = []
        for index, span in enumerate(self.spans):
            if chains and span.parent == index - 1 and span.start == chains[-1].end:
                chains[-1] = chains[-1]._replace(end=span.end)
            else:
                chains.append(Chain(span.start, span.end, self._ancestors(span)))
        return tuple(chains)

    @property
    def is_causal(self) -> bool:
        """Every row is one chain from its first token on: the plain causal mask of each row is its own."""
        return all(not chain.seen and chain.start % self.length == 0 for chain in self.chains)

    def dense_mask(self) -> torch.Tensor:
        """bool (B, 1, T, T), True where a query may see a key.

        Padding sees padding, for a softmax over nothing would be NaN; nothing else sees it.
        """
        sees_SS = self.sees_SS
        segment_BT = self.segment_N.view(self.rows, self.length)
        causal_TT = torch.ones(self.length, self.length, dtype=torch.bool).tril()
        return torch.stack([sees_SS[segment_T][:, segment_T] & causal_TT for segment_T in segment_BT])[:, None]

    @functools.cached_property
    def segment_N(self) -> torch.Tensor:
        """int64: the span of each token; the number of spans where it is padding."""
        segment_N = torch.full((self.rows * self.length,), len(self.spans))
        for index, span in enumerate(self.spans):
            segment_N[span.start : span.end] = index
        return segment_N

    @functools.cached_property
    def sees_SS(self) -> torch.Tensor:
        """bool: which segments see which; the last one is padding, which sees itself."""
        sees_SS = torch.eye(len(self.spans) + 1, dtype=torch.bool)
        for index, span in enumerate(self.spans):
            if span.parent >= 0:
                sees_SS[index] |= sees_SS[span.parent]
        return sees_SS

    def _ancestors(self, span: Span) -> tuple[tuple[int, int], ...]:
        """The ranges of all ancestors in token order, neighbouring ones as one."""
        ranges: list[tuple[int, int]] = []
        while span.parent >= 0:
            span = self.spans[span.parent]
            if ranges and ranges[-1][0] == span.end:
                ranges[-1] = (span.start, ranges[-1][1])
            else:
                ranges.append((span.start, span.end))
        return tuple(reversed(ranges))
