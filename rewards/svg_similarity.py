"""SVG by how its rendering fits words and looks beside a picture, to frozen encoders (SGP-RL).

Formula: w_text (1 + cos(words, rendering)) / 2 + w_image (1 + cos(reference, rendering)) / 2 + w_length length, where
length is 1 - characters / 6000 between 0 and 1, without white space and comments. 0 unless a complete SVG without text
elements renders. The image term counts only in rows with a picture, the text term only in rows with words.
Bounds: at least 0; at most the sum of the weights.
Answer: the last complete `<svg ..>..</svg>` after the thought. The words are the answer, or the text of `text_column`;
the reference is the row's first picture, or the rendering of an answer that is an SVG.
Space: none.
Unit: seconds (`time_limit_s`).
Source: SGP-RL; its released script has w_image 0 and CLIP ViT-B/32. Its gate wants `</think> <answer>`: give the part
`format` beside this.
Example: cosine 0.28 with the words alone 0.64, with 0.6 to the picture as well 1.44; not rendered 0.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mmrl.data.sample import Sample
from mmrl.errors import RewardError
from mmrl.scoring.batch import each
from mmrl.scoring.encoders import Encoder, check_encoder, encoder_of
from mmrl.scoring.references import reference_picture
from mmrl.scoring.similarities import scaled, sgp_mix
from mmrl.scoring.subjects import LONGEST_PX, drawn_code, drawn_picture, require_renderer, words_of
from mmrl.scoring.svg import extract_svg, length_term, render_svg

BOUNDS = (0.0, None)
NEEDS_MEDIA = True


@dataclass(frozen=True, slots=True)
class _Drawing:
    """What one completion draws, and what it is compared with."""

    picture: np.ndarray
    length: float
    words: str | None
    reference: np.ndarray | None


def preflight(options: Mapping[str, Any], timeout_s: float) -> None:
    check_encoder(options["text_encoder"], name="text_encoder", reads=("pictures", "texts"))
    if options["image_encoder"] is not None:
        check_encoder(options["image_encoder"], name="image_encoder", reads=("pictures",))
    require_renderer("svg_similarity", "svg", options, timeout_s=timeout_s)


def score_batch(
    completions: Sequence[str],
    samples: Sequence[Sample],
    *,
    text_encoder: dict[str, Any],
    image_encoder: dict[str, Any] | None = None,
    w_text: float = 1.0,
    w_image: float = 1.0,
    w_length: float = 0.0,
    text_column: str | None = None,
    time_limit_s: float = 5.0,
    allow_weak_sandbox: bool = False,
) -> list[dict[str, float] | RewardError]:
    """`text_encoder`: CLIP or SigLIP. `image_encoder`: DINOv2 or another; without one no picture is compared."""
    clip = encoder_of(text_encoder, name="text_encoder")
    dino = encoder_of(image_encoder, name="image_encoder") if image_encoder is not None else None

    def drawing(completion: str, sample: Sample) -> _Drawing | None:
        reference = _reference(sample) if dino is not None else None
        words = _words(sample, text_column, may_lack=reference is not None)
        if words is not None:
            clip.check_text(words, where=sample.where)
        picture, svg = drawn_picture(completion, "svg", time_limit_s=time_limit_s), drawn_code(completion, "svg")
        return None if picture is None or svg is None else _Drawing(picture, length_term(svg), words, reference)

    drawings = each(drawing, completions, samples)
    done = [d for d in drawings if isinstance(d, _Drawing)]
    weights = {"length": w_length, "text": w_text, "image": w_image}
    text_cosines = _text_cosines(clip, [d for d in done if d.words is not None])
    image_cosines = _image_cosines(dino, [d for d in done if d.reference is not None])

    def result(found: _Drawing | None) -> dict[str, float]:
        if found is None:
            return {"reward": 0.0, "renders": 0.0}
        parts = {"length": found.length}
        if found.words is not None:
            parts["text"] = scaled(next(text_cosines), "half")
        if found.reference is not None:
            parts["image"] = scaled(next(image_cosines), "half")
        terms = [(weights[name], value) for name, value in parts.items()]
        return {"reward": max(0.0, sgp_mix(terms)), "renders": 1.0, **parts}

    return [d if isinstance(d, RewardError) else result(d) for d in drawings]


def _text_cosines(clip: Encoder, drawings: Sequence[_Drawing]) -> Iterator[float]:
    pictures_ND = clip.pictures([d.picture for d in drawings])
    texts_ND = clip.texts([d.words for d in drawings if d.words is not None])
    return iter((pictures_ND * texts_ND).sum(axis=-1).tolist())


def _image_cosines(dino: Encoder | None, drawings: Sequence[_Drawing]) -> Iterator[float]:
    if dino is None:
        return iter(())
    wanted = [d.reference for d in drawings if d.reference is not None]
    both_ND = dino.pictures([*(d.picture for d in drawings), *wanted])
    return iter((both_ND[: len(drawings)] * both_ND[len(drawings) :]).sum(axis=-1).tolist())


def _reference(sample: Sample) -> np.ndarray | None:
    """The row's picture, or the rendering of its answer; None in rows that have only words."""
    has_picture = any(medium.kind == "image" for medium in sample.media)
    is_svg = isinstance(sample.answer, str) and extract_svg(sample.answer) is not None
    return reference_picture(sample, render_svg, longest=LONGEST_PX) if has_picture or is_svg else None


def _words(sample: Sample, column: str | None, *, may_lack: bool) -> str | None:
    is_svg = column is None and isinstance(sample.answer, str) and extract_svg(sample.answer) is not None
    lacks = is_svg or (column is None and not sample.answer)
    return None if lacks and may_lack else words_of(sample, column=column)
