"""How unlike a completion's reasoning is to the others of its group, as a measurement for shaping (`evol_rl`).

Formula: 1 - (mean cosine to the others of its camp + largest cosine to any other) / 2, of sentence encodings. The camps
are the answer given most often and all others, as `evol_rl` has them; alone in its camp the mean is 0. Without an
answer, and for a text that the encoder cannot read to its end, 0.
Bounds: 0 to 2.
Answer: as of `answer_class`; what is encoded is the thought, or the whole text where there is none.
Space: none.
Source: EVOL-RL. Not a score: give it weight 0, beside `answer_class` with the same `answer`.
Example: mean cosine 0.8 to its camp, largest cosine 0.9: 0.15.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from mmrl.data.sample import Sample
from mmrl.scoring.camps import NO_ANSWER, answer_classes, in_majority, novelties
from mmrl.scoring.encoders import check_encoder, encoder_of
from mmrl.scoring.parse import AnswerFormat
from mmrl.scoring.thoughts import thought

BOUNDS = (0.0, 2.0)
MEASURE = True
_LONGEST = 20_000


def preflight(options: Mapping[str, Any], timeout_s: float) -> None:
    check_encoder(options["encoder"], reads=("texts",))


def score_group(
    completions: Sequence[str], sample: Sample, *, encoder: dict[str, Any], answer: AnswerFormat = "auto"
) -> list[float]:
    """A number per completion. A text above 20 000 characters is not read."""
    frozen = encoder_of(encoder)
    texts = [thought(completion) or completion for completion in completions]
    readable = [0 < len(text) <= _LONGEST and not frozen.refuses(text) for text in texts]
    classes = answer_classes(completions, answer=answer)
    rows = [n for n, number in enumerate(classes) if readable[n] and number != NO_ANSWER]
    majority = in_majority(classes)
    found = dict(zip(rows, novelties(frozen.texts([texts[n] for n in rows]), [majority[n] for n in rows]), strict=True))
    return [found.get(n, 0.0) for n in range(len(completions))]
