"""Rows and micro-batches: from prompts and completions to the tensors a model takes.

A prompt and its completions are one row, the prompt held once (`group_row`), or one row per completion
(`separate_rows`). `plan_micro_batches` says which rows go through the model together, `pack` makes the tensors: rows
are padded to the longest, or put behind each other without padding.

Shape letters: B packed rows, T packed tokens, N = B * T, L loss tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

import torch

from mmrl.algorithms.batch import Attention, MicroBatch, Row, Segment
from mmrl.algorithms.tree import Forest, Span
from mmrl.data.rendered import MediaEntry, RenderedPrompt
from mmrl.models.families import FamilyProcessor


def group_row(prompt: RenderedPrompt, completions: Sequence[Sequence[int]], sequences: Sequence[int]) -> Row:
    """One row: the prompt once, then its completions, each at the positions that follow the prompt.

    sequences[g] is the index n of completions[g] in all (N, C) arrays. A completion without tokens has nothing to
    learn from and gets no segment.

    >>> group_row(prompt, [[5, 6], [7]], [0, 1]).num_tokens   # of a prompt of 10 tokens
    13
    """
    segments = [_prompt_segment(prompt)]
    for ids, sequence in zip(completions, sequences, strict=True):
        if len(ids):
            segments.append(_completion_segment(prompt, ids, sequence=sequence))
    return Row(tuple(segments), prompt.media)


def group_rows(
    prompt: RenderedPrompt, completions: Sequence[Sequence[int]], sequences: Sequence[int], *, max_tokens: int
) -> list[Row]:
    """The group as few rows of at most `max_tokens` tokens, completions in order; the prompt is repeated per row.

    A single completion that is too long together with its prompt has a row of its own.
    """
    rows: list[Row] = []
    room = 0
    start = 0
    for index, ids in enumerate(completions):
        if index > start and len(ids) > room:
            rows.append(group_row(prompt, completions[start:index], sequences[start:index]))
            start = index
        if index == start:
            room = max_tokens - len(prompt.prompt_ids_T)
        room -= len(ids)
    rows.append(group_row(prompt, completions[start:], sequences[start:]))
    return rows


def separate_rows(prompt: RenderedPrompt, completions: Sequence[Sequence[int]], sequences: Sequence[int]) -> list[Row]:
    """One plain causal row per completion, for families whose attention takes no tree mask."""
    return [group_row(prompt, [ids], [sequence]) for ids, sequence in zip(completions, sequences, strict=True)]


def plan_micro_batches(rows: Sequence[Row], max_tokens: int, *, padded: bool = True) -> list[list[Row]]:
    """Rows of one micro-batch: as many as fit into `max_tokens`, rows x longest row where they are padded, else tokens.

    Longest rows first, so that neighbours differ little and padding is small; equal lengths keep their order. A row
    above the limit is a micro-batch of its own.
    """
    batches: list[list[Row]] = []
    tokens = 0
    for row in sorted(rows, key=lambda row: -row.num_tokens):
        more = batches[-1][0].num_tokens if batches and padded else row.num_tokens
        if batches and tokens + more <= max_tokens:
            batches[-1].append(row)
            tokens += more
        else:
            batches.append([row])
            tokens = row.num_tokens
    return batches


def pack(
    rows: Sequence[Row], processor: FamilyProcessor, *, padded: bool = True, attention: Attention = "auto"
) -> MicroBatch:
    """Tensors of one micro-batch: a line for each row, filled up on the right with `processor.pad_token_id`, or, not
    padded, all rows behind each other in one line, where none sees another.
    """
    sizes = [row.num_tokens for row in rows]
    length = max(sizes) if padded else sum(sizes)
    offsets = [b * length for b in range(len(rows))] if padded else [0, *accumulate(sizes)][:-1]
    lines = len(rows) if padded else 1
    ids_N = torch.full((lines * length,), processor.pad_token_id)
    positions_3N = torch.zeros(3, lines * length, dtype=torch.long)
    for row, offset, size in zip(rows, offsets, sizes, strict=True):
        ids_N[offset : offset + size] = torch.cat([s.ids_T for s in row.segments])
        positions_3N[:, offset : offset + size] = torch.cat([s.positions_3T for s in row.segments], dim=1)
    media, media_order = _media_table(rows)
    predict_L, target_L, sequence_L, token_L = _loss_tokens(rows, offsets)
    return MicroBatch(
        ids_BT=ids_N.view(lines, length),
        positions_3BT=positions_3N.view(3, lines, length),
        forest=_forest(rows, offsets, lines=lines, length=length),
        media=media,
        media_order=media_order,
        predict_L=predict_L,
        target_L=target_L,
        sequence_L=sequence_L,
        token_L=token_L,
        attention=attention,
    )


def _prompt_segment(prompt: RenderedPrompt) -> Segment:
    return Segment(prompt.prompt_ids_T, prompt.position_ids_3T, placeholders=prompt.placeholders)


def _completion_segment(prompt: RenderedPrompt, ids: Sequence[int], *, sequence: int) -> Segment:
    positions_T = prompt.next_position + torch.arange(len(ids))
    return Segment(torch.tensor(ids), positions_T.expand(3, -1), parent=0, sequence=sequence)


def _starts(row: Row) -> list[int]:
    """Index of each segment's first token in the row."""
    return [0, *accumulate(segment.ids_T.numel() for segment in row.segments)][:-1]


def _forest(rows: Sequence[Row], offsets: Sequence[int], *, lines: int, length: int) -> Forest:
    """Who sees whom in rows that begin at these tokens of `lines` rows of `length` tokens."""
    spans: list[Span] = []
    for row, offset in zip(rows, offsets, strict=True):
        first = len(spans)
        for segment, start in zip(row.segments, _starts(row), strict=True):
            end = offset + start + segment.ids_T.numel()
            spans.append(Span(offset + start, end, first + segment.parent if segment.parent >= 0 else -1))
    return Forest(tuple(spans), lines, length)


def _media_table(rows: Sequence[Row]) -> tuple[tuple[MediaEntry, ...], tuple[tuple[int, int, int], ...]]:
    """Distinct media in order of first use, and (medium, first token, length) of every placeholder run."""
    table: dict[str, int] = {}
    entries: list[MediaEntry] = []
    order: list[tuple[int, int, int]] = []
    for row in rows:
        for segment in row.segments:
            for run in sorted(segment.placeholders, key=lambda run: run.start):
                entry = row.media[run.medium]
                if entry.key not in table:
                    table[entry.key] = len(entries)
                    entries.append(entry)
                order.append((table[entry.key], run.first, run.length))
    return tuple(entries), tuple(order)


def _loss_tokens(rows: Sequence[Row], offsets: Sequence[int]) -> tuple[torch.Tensor, ...]:
    """predict_L, target_L, sequence_L, token_L of the packed rows."""
    parts = [part for row, offset in zip(rows, offsets, strict=True) for part in _row_loss_tokens(row, offset=offset)]
    if not parts:
        return tuple(torch.zeros(4, 0, dtype=torch.long))
    return tuple(torch.cat(column) for column in zip(*parts, strict=True))


def _row_loss_tokens(row: Row, *, offset: int) -> Iterator[tuple[torch.Tensor, ...]]:
    """The four columns of each segment that has a loss. Its first token is predicted by its parent's last."""
    starts = _starts(row)
    for segment, start in zip(row.segments, starts, strict=True):
        if segment.sequence is None:
            continue
        assert segment.parent >= 0, f"sequence {segment.sequence}: nothing before the segment predicts its first token"
        count = segment.ids_T.numel()
        last_of_parent = starts[segment.parent] + row.segments[segment.parent].ids_T.numel() - 1
        predict_L = torch.arange(start - 1, start + count - 1)
        predict_L[:1] = last_of_parent
        token_L = segment.first_token + torch.arange(count)
        yield predict_L + offset, segment.ids_T, torch.full((count,), segment.sequence), token_L
