"""What vLLM is told about the media of a rendered prompt: where each one's placeholders are, and a clip's tempo.

Shape letters: T prompt tokens, S tokens of a span.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from mmrl.data.budget import VisionGeometry
from mmrl.data.positions import patch_times
from mmrl.data.rendered import MediaEntry, Placeholder, RenderedPrompt
from mmrl.errors import EngineError
from mmrl.models.families import FamilyProcessor


@dataclass(frozen=True, slots=True, eq=False)
class MediaSpan:
    """One showing of a medium: all its placeholders are in ids[start : start + length].

    is_placeholder_S: bool, which ids of the span they are; None: all.
    """

    entry: MediaEntry
    start: int
    length: int
    is_placeholder_S: torch.Tensor | None = None


def media_spans(prompt: RenderedPrompt, processor: FamilyProcessor) -> list[MediaSpan]:
    """The media of a prompt in the order they are shown; one shown twice is there twice.

    An image and a Qwen2.5-VL clip are one run of placeholders and span exactly that. A Qwen3-VL clip of 2 temporal
    patches with 4 tokens each, `<|vision_start|>PPPP<|vision_end|><1.2 seconds><|vision_start|>PPPP<|vision_end|>`,
    spans from its first `<|vision_start|>` to its last P. vLLM finds each temporal patch of a span by the next
    `<|vision_start|>`, so a pair that encloses the whole clip must lie outside the span.

    Raises EngineError where a temporal patch is not enclosed: vLLM could not place it.
    """
    showings: list[list[Placeholder]] = []
    for run in prompt.placeholders:
        if run.first == 0:
            showings.append([])
        showings[-1].append(run)
    return [_span(prompt, runs, processor) for runs in showings]


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


def _span(prompt: RenderedPrompt, runs: Sequence[Placeholder], processor: FamilyProcessor) -> MediaSpan:
    entry = prompt.media[runs[0].medium]
    if entry.kind == "image" or processor.family.video_prompt == "one_run":
        return MediaSpan(entry, runs[0].start, runs[0].length)
    ids_T = prompt.prompt_ids_T
    start_id, end_id = (processor.special_ids[name] for name in ("<|vision_start|>", "<|vision_end|>"))
    for run in runs:
        enclosing = ids_T[max(0, run.start - 1)], ids_T[min(run.start + run.length, len(ids_T) - 1)]
        if enclosing != (start_id, end_id):
            raise EngineError(
                f"{prompt.sample_id}: the placeholders at {run.start} of a clip are not enclosed by <|vision_start|>"
                " and <|vision_end|>, by which vLLM finds them; use rollout.engine hf"
            )
    start = runs[0].start - 1
    is_placeholder_S = torch.zeros(runs[-1].start + runs[-1].length - start, dtype=torch.bool)
    for run in runs:
        is_placeholder_S[run.start - start : run.start - start + run.length] = True
    return MediaSpan(entry, start, len(is_placeholder_S), is_placeholder_S)
