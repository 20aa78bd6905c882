"""How alike a drawn picture and the row's are, by an image encoder (DINOv2 and any other).

Formula: the cosine of the two encodings (embedding), or the mean cosine of the feature maps of all layers at each place
(layers: 1 - half the perceptual distance of LPIPS without learned weights), of the last layer's alone (position), or
the mean best cosine of its places with any place of the other picture, both ways (patches; `official`: from the
drawing's alone, for which one patch of the reference all over is enough), by `scale`: half: (1 + cos) / 2; raw: cos.
What draws nothing or does not render gets what a cosine of -1 gets.
Bounds: -1 to 1; 0 to 1 for half.
Answer: the code that a completion draws with. The row's first picture is the reference; in a row without one, what its
answer, such code, renders to.
Space: none; each picture is resized and cropped as its encoder wants it (all but `embedding`: first stretched to one
shape).
Unit: seconds (`time_limit_s`, of a rendering).
Source: SGP-RL's image term, (1 + cos) / 2 of DINOv2's class tokens, and its forms by patches, `position` and `max`;
LPIPS for the layers.
Example: the picture itself 1, one at a right angle to it 0.5.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from mmrl.data.sample import Sample
from mmrl.errors import ConfigError, RewardError
from mmrl.scoring.batch import each
from mmrl.scoring.encoders import Encoder, check_encoder, encoder_of
from mmrl.scoring.pictures import stretched
from mmrl.scoring.references import reference_picture
from mmrl.scoring.similarities import layer_cosine, patch_cosine, scaled, worst
from mmrl.scoring.subjects import LONGEST_PX, Draws, drawn_picture, renderer, require_renderer

BOUNDS = (-1.0, 1.0)
NEEDS_MEDIA = True

Measure = Literal["embedding", "layers", "position", "patches"]
Pair = tuple[np.ndarray, np.ndarray]
Maps = Sequence[np.ndarray]


def preflight(options: Mapping[str, Any], timeout_s: float) -> None:
    check_encoder(options["encoder"], reads=("pictures",))
    if options["official"] and options["measure"] != "patches":
        raise ConfigError("image_similarity: `official` is a form of `measure: patches`; leave it out")
    require_renderer("image_similarity", options["draws"], options, timeout_s=timeout_s)


def score_batch(
    completions: Sequence[str],
    samples: Sequence[Sample],
    *,
    encoder: dict[str, Any],
    draws: Draws = "svg",
    measure: Measure = "embedding",
    scale: Literal["half", "raw"] = "half",
    time_limit_s: float = 5.0,
    allow_weak_sandbox: bool = False,
    official: bool = False,
) -> list[dict[str, float] | RewardError]:
    """`draws`: the kind of code that is rendered. `measure`: all but embedding need an encoder of kind timm."""
    frozen = encoder_of(encoder)

    def pair(completion: str, sample: Sample) -> Pair | None:
        reference = reference_picture(sample, renderer(draws), longest=LONGEST_PX)
        drawn = drawn_picture(completion, draws, time_limit_s=time_limit_s)
        return None if drawn is None else (drawn, reference)

    pairs = each(pair, completions, samples)
    whole = [p for p in pairs if isinstance(p, tuple)]
    if measure != "embedding":
        cosines = _map_cosines(frozen, whole, _of_maps(measure, official=official))
    else:
        drawn_ND, wanted_ND = (frozen.pictures([p[side] for p in whole]) for side in (0, 1))
        cosines = iter((drawn_ND * wanted_ND).sum(axis=-1).tolist())

    def result(found: Pair | None) -> dict[str, float]:
        if found is None:
            return {"reward": worst(scale), "renders": 0.0}
        cosine = next(cosines)
        return {"reward": scaled(cosine, scale), "renders": 1.0, "cosine": cosine}

    return [p if isinstance(p, RewardError) else result(p) for p in pairs]


def _of_maps(measure: Measure, *, official: bool) -> Callable[[Maps, Maps], float]:
    """What makes a cosine of the feature maps of two pictures."""
    return {
        "layers": layer_cosine,
        "position": lambda drawn, wanted: layer_cosine(drawn[-1:], wanted[-1:]),
        "patches": lambda drawn, wanted: patch_cosine(drawn[-1], wanted[-1], both_ways=not official),
    }[measure]


def _map_cosines(frozen: Encoder, pairs: Sequence[Pair], cosine: Callable[[Maps, Maps], float]) -> Iterator[float]:
    """One a pair, in batches; feature maps are large, so that those of one batch are held at a time."""
    together = max(1, frozen.section.batch_size // 2)
    for start in range(0, len(pairs), together):
        part = pairs[start : start + together]
        maps = frozen.layers([p for drawn, wanted in part for p in (stretched(drawn, like=wanted), wanted)])
        yield from (cosine(*both) for both in zip(maps[::2], maps[1::2], strict=True))
