"""What vLLM is told about the media of a rendered prompt: where each one's placeholders are.

Shape letters: T prompt tokens, S tokens of a span.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from mmrl.data.rendered import MediaEntry, Placeholder, RenderedPrompt
from mmrl.data.sample import MediaKind
from mmrl.errors import EngineError
from mmrl.models.families import FamilyProcessor


@dataclass(frozen=True, slots=True, eq=False)
class MediaSpan:
    """One showing of a medium: all its placeholders are in ids[start : start + length].

    modality: what the medium is to vLLM; a clip whose frames the family sees as pictures is an image.
    is_placeholder_S: bool, which ids of the span they are; None: all.
    """

    entry: MediaEntry
    modality: MediaKind
    start: int
    length: int
    is_placeholder_S: torch.Tensor | None = None


def media_spans(prompt: RenderedPrompt, processor: FamilyProcessor) -> list[MediaSpan]:
    """The media of a prompt in the order they are shown; one shown twice is there twice.

    An image and a Qwen2.5-VL clip are one run of placeholders and span exactly that. A Qwen3-VL clip of 2 temporal
    patches with 4 tokens each, `<|vision_start|>PPPP<|vision_end|><1.2 seconds><|vision_start|>PPPP<|vision_end|>`,
    spans from its first `<|vision_start|>` to its last P. vLLM finds each temporal patch of a span by the next
    `<|vision_start|>`, so a pair that encloses the whole clip must lie outside the span. Other media of several runs,
    such as pictures in tiles, span from their first placeholder to their last.

    Raises EngineError where a temporal patch is not enclosed: vLLM could not place it.
    """
    showings: list[list[Placeholder]] = []
    for run in prompt.placeholders:
        if run.first == 0:
            showings.append([])
        showings[-1].append(run)
    return [_span(prompt, runs, processor) for runs in showings]


def _span(prompt: RenderedPrompt, runs: Sequence[Placeholder], processor: FamilyProcessor) -> MediaSpan:
    entry = prompt.media[runs[0].medium]
    modality = processor.family.clip_tokens if entry.kind == "video" else entry.kind
    if len(runs) == 1 and (entry.kind == "image" or processor.family.run_marks is None):
        return MediaSpan(entry, modality, runs[0].start, runs[0].length)
    start = runs[0].start
    if processor.family.run_marks is not None:
        _check_enclosed(prompt, runs, processor)
        start -= 1
    is_placeholder_S = torch.zeros(runs[-1].start + runs[-1].length - start, dtype=torch.bool)
    for run in runs:
        is_placeholder_S[run.start - start : run.start - start + run.length] = True
    return MediaSpan(entry, modality, start, len(is_placeholder_S), is_placeholder_S)


def _check_enclosed(prompt: RenderedPrompt, runs: Sequence[Placeholder], processor: FamilyProcessor) -> None:
    marks = processor.family.run_marks
    assert marks is not None
    ids_T = prompt.prompt_ids_T
    start_id, end_id = (processor.special_ids[name] for name in marks)
    for run in runs:
        enclosing = ids_T[max(0, run.start - 1)], ids_T[min(run.start + run.length, len(ids_T) - 1)]
        if enclosing != (start_id, end_id):
            raise EngineError(
                f"{prompt.sample_id}: the placeholders at {run.start} of a clip are not enclosed by {marks[0]}"
                f" and {marks[1]}, by which vLLM finds them; use rollout.engine hf"
            )
