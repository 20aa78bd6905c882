"""Position ids on three axes (time, height, width) by the reference rule of the Qwen families.

Text counts on from one position to the next, equal on all axes. A medium spreads over a grid of tokens that starts at
the next free position. What follows a medium starts at the largest position so far, over all three axes, plus 1.

transformers 5.19 (`get_rope_index`) leaves time out of that maximum, so after a Qwen2-VL or Qwen2.5-VL clip that is
longer than wide, text runs back into the clip's positions; vLLM and the reference do not. Its rule is never used.

Shape letters: T tokens of a prompt, C completion tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from mmrl.data.rendered import MediaEntry, Placeholder
from mmrl.data.vision import VisionGeometry


def text_positions(start: int, length: int) -> torch.Tensor:
    """int64 (3, length): start, start + 1, ... on every axis. Also the positions of completion tokens.

    >>> text_positions(5, 3)[0].tolist()
    [5, 6, 7]
    """
    return torch.arange(start, start + length).expand(3, -1)


def grid_positions(start: int, times: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """int64 (3, t * height * width) of a grid of tokens (after merging), width running fastest.

    times: int64 (t), the temporal position of each temporal patch, relative to `start`.

    >>> grid_positions(4, torch.arange(2), 1, 2).tolist()
    [[4, 4, 5, 5], [4, 4, 4, 4], [4, 5, 4, 5]]
    """
    axes = torch.meshgrid(times, torch.arange(height), torch.arange(width), indexing="ij")
    return torch.stack([axis.reshape(-1) for axis in axes]) + start


def prompt_positions(
    num_tokens: int,
    placeholders: Sequence[Placeholder],
    media: Sequence[MediaEntry],
    geometry: VisionGeometry,
    *,
    start: int = 0,
) -> tuple[torch.Tensor, int]:
    """Positions int64 (3, T) of T tokens with these placeholder runs, and the position that comes next.

    Runs are in order, as token offsets into the T tokens; `medium` indexes `media`. T tokens that continue a prompt
    begin at its next position: `start`.
    """
    pieces: list[torch.Tensor] = []
    done, free = 0, start
    for run in placeholders:
        pieces.append(text_positions(free, run.start - done))
        free += run.start - done
        pieces.append(geometry.run_positions(run, media[run.medium], start=free))
        free = int(pieces[-1].max()) + 1
        done = run.start + run.length
    pieces.append(text_positions(free, num_tokens - done))
    return torch.cat(pieces, dim=1), free + num_tokens - done


def patch_times(num_patches: int, entry: MediaEntry, geometry: VisionGeometry) -> torch.Tensor:
    """int64 (t): temporal positions of consecutive temporal patches of a medium, from 0.

    Families that know time: index * seconds per patch * tokens_per_second, cut to whole numbers at the end. Patches of
    2 frames sampled at 5 a second are 0.4 s long; with 2 tokens_per_second: 0 0 1 2 3. (Cutting a step of 0.8 before
    the product would give zeros only.) The others count patches: 0 1 2 3 4.
    """
    index = torch.arange(num_patches)
    if entry.kind == "image" or geometry.tokens_per_second is None:
        return index
    assert entry.sample_fps, f"a clip of {geometry.family} needs its sample_fps for its positions"
    # In float32 and in this order, like the reference: another order cuts some products to the neighbouring number.
    return (index * (geometry.temporal_patch_size / entry.sample_fps) * geometry.tokens_per_second).long()


def seconds_per_patch(entry: MediaEntry, geometry: VisionGeometry) -> float | None:
    """Seconds from one temporal patch of a clip to the next, as vLLM wants them; None where positions know no time.

    vLLM places patch i at floor(i * seconds * tokens_per_second) in float64, the families' reference does so in
    float32, and the two can round to different sides. So the middle of all values that give the reference's places is
    taken. Patches at 0 1 2 3 4, 2 tokens a second: everything from 0.5 to 0.625 does; 0.5625.
    """
    if geometry.tokens_per_second is None:
        return None
    places = patch_times(entry.grid_thw[0], entry, geometry).tolist()
    lowest = max((place / i for i, place in enumerate(places) if i), default=0.0)
    highest = min(((place + 1) / i for i, place in enumerate(places) if i), default=1.0)
    return (lowest + highest) / 2 / geometry.tokens_per_second
