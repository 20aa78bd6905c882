"""Whether a text means what the answer means, by a sentence encoder.

Formula: the largest cosine between the text's encoding and those of the accepted answers, between 0 and 1; with
`threshold` 1 from there on, else 0.
Bounds: 0 to 1.
Answer: by `answer` the tag, the box or the text after the thought. One above 20 000 characters scores 0, since every
word of it is read; a longer one of the dataset is an error.
Space: none.
Source: rewards of semantic equivalence such as PB-RLSVR's; the measure and the threshold are ours. An encoder hardly
hears a `not`, and numbers are words to it: use it where answers are descriptions.
Example: cosine 0.6: 0.6, with threshold 0.8: 0; the answer itself 1.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from mmrl.data.sample import Sample
from mmrl.errors import RewardError
from mmrl.scoring.batch import each
from mmrl.scoring.encoders import check_encoder, encoder_of
from mmrl.scoring.gold import gold_texts
from mmrl.scoring.parse import AnswerFormat, extract_prediction

BOUNDS = (0.0, 1.0)
_LONGEST = 20_000


def preflight(options: Mapping[str, Any], timeout_s: float) -> None:
    check_encoder(options["encoder"], reads=("texts",))


def score_batch(
    completions: Sequence[str],
    samples: Sequence[Sample],
    *,
    encoder: dict[str, Any],
    answer: AnswerFormat = "auto",
    threshold: float | None = None,
) -> list[float | RewardError]:
    """`threshold`: least cosine that counts, as 1; None: the cosine itself."""
    frozen = encoder_of(encoder)

    def texts(completion: str, sample: Sample) -> tuple[str, ...]:
        golds = [frozen.check_text(gold, where=sample.where) for gold in gold_texts(sample)]
        if any(len(gold) > _LONGEST for gold in golds):
            raise RewardError(f"{sample.where}: the answer has above {_LONGEST} characters; it is no sentence")
        said = extract_prediction(completion, answer=answer)
        usable = said is not None and said.strip() and len(said) <= _LONGEST and not frozen.refuses(said)
        return (said or "", *golds) if usable else ()

    found = each(texts, completions, samples)
    flat = [text for several in found if isinstance(several, tuple) for text in several]
    vectors = iter(frozen.texts(flat))

    def result(several: tuple[str, ...]) -> float:
        if not several:
            return 0.0
        said_D, *golds = (next(vectors) for _ in several)
        cosine = min(1.0, max(0.0, *(float(said_D @ gold_D) for gold_D in golds)))
        return cosine if threshold is None else float(cosine >= threshold)

    return [several if isinstance(several, RewardError) else result(several) for several in found]
