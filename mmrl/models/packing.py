"""Rows and micro-batches: from prompts and completions to the tensors a model takes.

A prompt and its completions are one row, the prompt held once (`group_row`), or one row per completion
(`separate_rows`). `plan_micro_batches` says which rows are padded together, `pack` makes the tensors.

Shape letters: B packed rows, T packed tokens, S segments of a row, L loss tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from mmrl.algorithms.batch import MicroBatch, Row, Segment
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


def plan_micro_batches(rows: Sequence[Row], max_tokens: int) -> list[list[Row]]:
    """Rows that are padded together: rows x longest row is at most `max_tokens`.

    Longest rows first, so that neighbours differ little and padding is small; equal lengths keep their order. A row
    above the limit is a micro-batch of its own.
    """
    batches: list[list[Row]] = []
    for row in sorted(rows, key=lambda row: -row.num_tokens):
        if batches and (len(batches[-1]) + 1) * batches[-1][0].num_tokens <= max_tokens:
            batches[-1].append(row)
        else:
            batches.append([row])
    return batches


def pack(rows: Sequence[Row], processor: FamilyProcessor) -> MicroBatch:
    """Tensors of one micro-batch: rows padded on the right with `processor.pad_token_id`."""
    length = max(row.num_tokens for row in rows)
    ids_BT = torch.full((len(rows), length), processor.pad_token_id)
    positions_3BT = torch.zeros(3, len(rows), length, dtype=torch.long)
    for b, row in enumerate(rows):
        ids_BT[b, : row.num_tokens] = torch.cat([s.ids_T for s in row.segments])
        positions_3BT[:, b, : row.num_tokens] = torch.cat([s.positions_3T for s in row.segments], dim=1)
    media, media_order = _media_table(rows)
    predict_L, target_L, sequence_L, token_L = _loss_tokens(rows, length=length)
    return MicroBatch(
        ids_BT=ids_BT,
        positions_3BT=positions_3BT,
        mask_B1TT=None if all(_is_chain(row) for row in rows) else _tree_mask(rows, length=length),
        media=media,
        media_order=media_order,
        predict_L=predict_L,
        target_L=target_L,
        sequence_L=sequence_L,
        token_L=token_L,
    )


def _prompt_segment(prompt: RenderedPrompt) -> Segment:
    return Segment(prompt.prompt_ids_T, prompt.position_ids_3T, placeholders=prompt.placeholders)


def _completion_segment(prompt: RenderedPrompt, ids: Sequence[int], *, sequence: int) -> Segment:
    positions_T = prompt.next_position + torch.arange(len(ids))
    return Segment(torch.tensor(ids), positions_T.expand(3, -1), parent=0, sequence=sequence)


def _is_chain(row: Row) -> bool:
    """Every segment continues the one before it: the plain causal mask is the row's own."""
    return all(segment.parent == index - 1 for index, segment in enumerate(row.segments))


def _starts(row: Row) -> list[int]:
    """Index of each segment's first token in the row."""
    starts = [0]
    for segment in row.segments:
        starts.append(starts[-1] + segment.ids_T.numel())
    return starts[:-1]


def _tree_mask(rows: Sequence[Row], *, length: int) -> torch.Tensor:
    """True where a query may see a key: its own segment and that segment's ancestors, causally.

    Padding sees padding, for a softmax over nothing would be NaN; nothing else sees it.
    """
    causal_TT = torch.ones(length, length, dtype=torch.bool).tril()
    return torch.stack([_segment_mask(row, length=length) & causal_TT for row in rows])[:, None]


def _segment_mask(row: Row, *, length: int) -> torch.Tensor:
    """(T, T) mask of the row's tree alone, without the causal part."""
    count = len(row.segments)
    sees_SS = torch.eye(count + 1, dtype=torch.bool)  # the last one is padding
    for index, segment in enumerate(row.segments):
        if segment.parent >= 0:
            sees_SS[index] |= sees_SS[segment.parent]
    lengths = [s.ids_T.numel() for s in row.segments] + [length - row.num_tokens]
    segment_T = torch.arange(count + 1).repeat_interleave(torch.tensor(lengths))
    return sees_SS[segment_T][:, segment_T]


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


def _loss_tokens(rows: Sequence[Row], *, length: int) -> tuple[torch.Tensor, ...]:
    """predict_L, target_L, sequence_L, token_L of the packed rows."""
    parts = [part for b, row in enumerate(rows) for part in _row_loss_tokens(row, offset=b * length)]
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
