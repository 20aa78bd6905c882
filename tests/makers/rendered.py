"""Prompts of texts and media: rendered from what a user wrote, or made by hand with token ids as given.

By hand: random frames, positions by the reference rule.
"""

import itertools
from collections.abc import Sequence

import torch

from mmrl.data.render import render
from mmrl.data.rendered import MediaEntry, Placeholder, RenderedPrompt
from mmrl.data.sample import MediaPart, MediaRef, Message, Sample, TextPart
from mmrl.models.families import FamilyProcessor

PATCH = {"qwen2_5_vl": 14, "qwen3_vl": 16}


def render_parts(processor: FamilyProcessor, *parts: str | MediaEntry) -> RenderedPrompt:
    """A user's message of texts and media in that order."""
    media = [part for part in parts if isinstance(part, MediaEntry)]
    number = itertools.count()
    pieces = tuple(TextPart(p) if isinstance(p, str) else MediaPart(next(number)) for p in parts)
    references = tuple(MediaRef(entry.kind, torch.zeros(1)) for entry in media)
    return render(Sample("made", "t", "image", (Message("user", pieces),), references), media, processor)


def make_image(kind: str, *, seed: int, height: int = 4, width: int = 4) -> MediaEntry:
    """A random picture of height x width patches."""
    return _entry(kind, "image", seed=seed, grid=(1, height, width), frames=1)


def make_clip(kind: str, *, seed: int, frames: int = 4, height: int = 2, width: int = 4) -> MediaEntry:
    """A random clip; every frame has height x width patches, two frames are one temporal patch."""
    return _entry(kind, "video", seed=seed, grid=((frames + 1) // 2, height, width), frames=frames)


def make_prompt(parts: Sequence[Sequence[int] | MediaEntry], *, family: str, pad_ids: dict[str, int]) -> RenderedPrompt:
    """Text ids and media in order. pad_ids: the placeholder id of "image" and "video".

    A Qwen3-VL clip is one run per temporal patch with a text token (7) before each.
    """
    ids: list[int] = []
    positions: list[torch.Tensor] = []
    runs: list[Placeholder] = []
    media: list[MediaEntry] = []
    for part in parts:
        if not isinstance(part, MediaEntry):
            _add_text(ids, positions, part)
            continue
        for grid, first in _runs(part, family=family):
            if family == "qwen3_vl" and part.kind == "video":
                _add_text(ids, positions, [7])
            length = grid[0] * grid[1] * grid[2] // 4
            runs.append(Placeholder(len(ids), length, len(media), first))
            ids.extend([pad_ids[part.kind]] * length)
            positions.append(_vision_positions(grid, start=_next(positions), stride=_stride(part, family=family)))
        media.append(part)
    return RenderedPrompt(
        sample_id="hand-made",
        prompt_ids_T=torch.tensor(ids),
        position_ids_3T=torch.cat(positions, dim=1),
        next_position=_next(positions),
        placeholders=tuple(runs),
        media=tuple(media),
        engine_ids=(),
    )


def random_completions(lengths: Sequence[int], *, seed: int, vocabulary: int = 60) -> list[list[int]]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(0, vocabulary, (length,), generator=generator).tolist() for length in lengths]


def _entry(family: str, kind: str, *, seed: int, grid: tuple[int, int, int], frames: int) -> MediaEntry:
    patch = PATCH[family]
    generator = torch.Generator().manual_seed(seed)
    shape = (frames, 3, grid[1] * patch, grid[2] * patch)
    return MediaEntry(
        key=f"{kind}-{seed}-{grid}-{frames}",
        kind=kind,
        frames_F3HW=torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8),
        grid_thw=grid,
        num_tokens=grid[0] * grid[1] * grid[2] // 4,
        source_size=(shape[3], shape[2]),
        timestamps_s=tuple(i / 4 for i in range(frames)) if kind == "video" else (),
        frame_indices=tuple(range(frames)) if kind == "video" else (),
        source_fps=4.0 if kind == "video" else None,
        duration_s=frames / 4 if kind == "video" else None,
        sample_fps=4.0 if kind == "video" else None,
    )


def _runs(entry: MediaEntry, *, family: str) -> list[tuple[tuple[int, int, int], int]]:
    t, h, w = entry.grid_thw
    if family == "qwen3_vl" and entry.kind == "video":
        return [((1, h, w), i * h * w // 4) for i in range(t)]
    return [(entry.grid_thw, 0)]


def _stride(entry: MediaEntry, *, family: str) -> float:
    """Temporal positions from one temporal patch to the next: 2 a second, 2 frames of 1/4 s each."""
    return 1.0 if entry.kind == "video" and family == "qwen2_5_vl" else 0.0


def _vision_positions(grid: tuple[int, int, int], *, start: int, stride: float) -> torch.Tensor:
    t, h, w = grid[0], grid[1] // 2, grid[2] // 2
    axes = torch.meshgrid((torch.arange(t) * stride).long(), torch.arange(h), torch.arange(w), indexing="ij")
    return torch.stack([axis.reshape(-1) for axis in axes]) + start


def _add_text(ids: list[int], positions: list[torch.Tensor], text: Sequence[int]) -> None:
    positions.append((_next(positions) + torch.arange(len(text))).expand(3, -1))
    ids.extend(text)


def _next(positions: Sequence[torch.Tensor]) -> int:
    return int(positions[-1].max()) + 1 if positions else 0
