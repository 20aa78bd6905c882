"""The picture that a rendering is compared with."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from mmrl.data.image import open_image
from mmrl.data.locations import FileSource, FrameFiles, MediaSource, PdfPage
from mmrl.data.sample import Sample
from mmrl.errors import RewardError
from mmrl.scoring.pictures import fitted

Render = Callable[[str], np.ndarray | None]


def reference_picture(sample: Sample, render: Render, *, longest: int) -> np.ndarray:
    """The row's first picture, else what its answer renders to; uint8 RGB (H, W, 3), longest side at most `longest`.

    render: a function of a module, not made anew per call, so that one sample's picture is rendered once.
    Raises RewardError, naming the sample, where there is neither, or the answer does not render.
    """
    images = [medium for medium in sample.media if medium.kind == "image"]
    if images:
        return _of_row(images[0].source, longest)
    if not isinstance(sample.answer, str) or not sample.answer.strip():
        raise RewardError(f"{sample.where}: the row has neither a picture to compare with nor an answer that renders")
    picture = _rendered(render, sample.answer, longest)
    if picture is None:
        raise RewardError(f"{sample.where}: the answer does not render within the time limit")
    return picture


def _of_row(source: MediaSource, longest: int) -> np.ndarray:
    assert not isinstance(source, FrameFiles), "frames are a clip's"
    if isinstance(source, np.ndarray):
        return fitted(open_image(source), longest=longest)
    return _from_file(source, longest)


@functools.lru_cache(maxsize=32)
def _from_file(source: FileSource | PdfPage, longest: int) -> np.ndarray:
    """Kept, since all completions of a sample are compared with one picture."""
    return fitted(open_image(source), longest=longest)


@functools.lru_cache(maxsize=32)
def _rendered(render: Render, answer: str, longest: int) -> np.ndarray | None:
    picture = render(answer)
    return None if picture is None else fitted(picture, longest=longest)
