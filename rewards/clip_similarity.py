"""How well a picture and words fit, by a text-image encoder (CLIP, SigLIP).

Formula: the cosine of the two encodings, by `scale`: half: (1 + cos) / 2; raw: cos; clipscore: 2.5 max(cos, 0). What
does not render, draws nothing, or says nothing or more than the encoder reads, gets what a cosine of -1 gets.
Bounds: -1 to 2.5; 0 to 1 for half.
Answer: with `draws` (svg, html, chart) the code that a completion draws with; the words are the answer's, or those of
`text_column`. Without, the completion is a caption of the row's first picture.
Space: none.
Unit: seconds (`time_limit_s`, of a rendering).
Source: SGP-RL (half), CLIPScore (2.5 max(cos, 0)). An SVG with text elements counts as one that does not render, since
a caption written into a picture pleases the encoder; HTML and charts can be written into, so give them `html_render` or
`chart_render` beside this.
Example: cosine 0.28: half 0.64, clipscore 0.7; cosine 1: 1.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mmrl.data.sample import Sample
from mmrl.errors import RewardError
from mmrl.scoring.batch import each
from mmrl.scoring.encoders import check_encoder, encoder_of
from mmrl.scoring.similarities import Scale, scaled, worst
from mmrl.scoring.subjects import Draws, drawn_picture, require_renderer, row_picture, spoken, words_of

BOUNDS = (-1.0, 2.5)
NEEDS_MEDIA = True


def preflight(options: Mapping[str, Any], timeout_s: float) -> None:
    check_encoder(options["encoder"], reads=("pictures", "texts"))
    if options["draws"] is not None:
        require_renderer("clip_similarity", options["draws"], options, timeout_s=timeout_s)


def score_batch(
    completions: Sequence[str],
    samples: Sequence[Sample],
    *,
    encoder: dict[str, Any],
    draws: Draws | None = None,
    text_column: str | None = None,
    scale: Scale = "half",
    time_limit_s: float = 5.0,
    allow_weak_sandbox: bool = False,
) -> list[dict[str, float] | RewardError]:
    """`draws`: the kind of code that is rendered. `text_column`: holds the words, instead of the answer."""
    frozen = encoder_of(encoder)

    def pair(completion: str, sample: Sample) -> tuple[np.ndarray, str] | None:
        if draws is None:
            picture, words = row_picture(sample), spoken(completion)
            return (picture, words) if words and not frozen.refuses(words) else None
        wanted = frozen.check_text(words_of(sample, column=text_column), where=sample.where)
        drawn = drawn_picture(completion, draws, time_limit_s=time_limit_s)
        return None if drawn is None else (drawn, wanted)

    pairs = each(pair, completions, samples)
    whole = [p for p in pairs if isinstance(p, tuple)]
    pictures_ND = frozen.pictures([picture for picture, _ in whole])
    texts_ND = frozen.texts([words for _, words in whole])
    cosines = iter((pictures_ND * texts_ND).sum(axis=-1).tolist())
    nothing = {"reward": worst(scale), "compared": 0.0}

    def result(found: tuple[np.ndarray, str] | None) -> dict[str, float]:
        if found is None:
            return nothing
        cosine = next(cosines)
        return {"reward": scaled(cosine, scale), "compared": 1.0, "cosine": cosine}

    return [p if isinstance(p, RewardError) else result(p) for p in pairs]
