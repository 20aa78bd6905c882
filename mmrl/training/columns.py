"""What rewards return beside their value, as columns of the batch: numbers, lists of steps, and spans on tokens.

    number  -> (N,)      float64, NaN where a row has none
    steps   -> (N, S)    float64, NaN behind the last step of a row
    spans   -> (N, C)    float64, the value on every token of a span, NaN on the others; and under `NAME.span` (N, C)
                         which of the row's spans it is, counted from 0

They stand in `batch.meta` as `part.key`. A token belongs to the span that holds its last character, so a token with a
blank before its word goes with the word; of overlapping spans the later one wins; a token without text (the end token)
belongs to none.

Shape letters: N completions, C completion tokens, S steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch

from mmrl.rollout.types import Completion
from mmrl.scoring.columns import Column, is_spans

Decode = Callable[[Sequence[int]], str]
NAN = float("nan")


def columns_of(
    numbers: Sequence[Mapping[str, float]],
    lists: Sequence[Mapping[str, Column]],
    completions: Sequence[Sequence[int]],
    decode: Decode,
    *,
    width: int,
) -> dict[str, torch.Tensor]:
    """The columns of all rows. completions: their token ids; width: C."""
    meta = {name: _numbers([row.get(name, NAN) for row in numbers]) for name in _names(numbers)}
    for name in _names(lists):
        rows = [row.get(name, ()) for row in lists]
        if not any(map(is_spans, rows)):
            meta[name] = _steps(rows)
            continue
        cells = [_on_tokens(row, ids, decode) for row, ids in zip(rows, completions, strict=True)]
        meta[name] = _grid([[value for value, _ in row] for row in cells], width=width)
        meta[f"{name}.span"] = _grid([[number for _, number in row] for row in cells], width=width)
    return meta


def reported(completions: Sequence[Completion], *, alternatives: int, width: int) -> dict[str, torch.Tensor]:
    """What the engine was asked to report of each token: `rollout_entropy` (N, C), `alternatives` (N, C, 2 A).

    alternatives: A. NaN behind a completion's last token, and where there were fewer alternatives.
    """
    columns = {}
    if any(completion.entropy for completion in completions):
        columns["rollout_entropy"] = _grid([completion.entropy for completion in completions], width=width)
    if alternatives:
        grid = torch.full((len(completions), width, 2 * alternatives), NAN, dtype=torch.float64)
        for n, completion in enumerate(completions):
            for t, row in enumerate(completion.alternatives):
                grid[n, t, : len(row)] = torch.tensor([token for token, _ in row], dtype=torch.float64)
                grid[n, t, alternatives : alternatives + len(row)] = torch.tensor(
                    [value for _, value in row], dtype=torch.float64
                )
        columns["alternatives"] = grid
    return columns


def token_ends(ids: Sequence[int], decode: Decode) -> list[int]:
    """How many characters of a completion's text are there after each of its tokens.

    The text of a token does not always stand by itself (a character in several tokens): then beginnings are decoded.
    """
    single, text = [decode([token]) for token in ids], decode(ids)
    if "".join(single) != text:
        return [len(decode(ids[: n + 1]).rstrip("\N{REPLACEMENT CHARACTER}")) for n in range(len(ids))]
    ends, end = [], 0
    for piece in single:
        end += len(piece)
        ends.append(end)
    return ends


def _on_tokens(spans: Column, ids: Sequence[int], decode: Decode) -> list[tuple[float, float]]:
    """Per token the value of its span and the span's number."""
    cells, before = [], 0
    for end in token_ends(ids, decode) if spans else []:
        cell = (NAN, NAN)
        for number, entry in enumerate(spans):
            if isinstance(entry, tuple) and end > before and entry[0] < end <= entry[1]:
                cell = (entry[2], float(number))
        cells.append(cell)
        before = max(before, end)
    return cells


def _names(rows: Sequence[Mapping[str, object]]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def _numbers(values: Sequence[float]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def _steps(rows: Sequence[Column]) -> torch.Tensor:
    return _grid(rows, width=max(map(len, rows), default=0))


def _grid(rows: Sequence[Sequence[object]], *, width: int) -> torch.Tensor:
    grid = torch.full((len(rows), width), NAN, dtype=torch.float64)
    for n, row in enumerate(rows):
        grid[n, : len(row)] = torch.tensor(row, dtype=torch.float64)
    return grid
