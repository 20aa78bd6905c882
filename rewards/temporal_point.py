"""Naming moments: near ones count, softly.

Formula: with d the distance of a predicted moment from its key moment, exp(-d^2 / (2 * sigma^2)) summed over the pairs
of the one-to-one matching with the greatest sum, / the greater count of moments. `official`: mean over the
predictions, each with its nearest key moment, so one sure moment is enough.
Bounds: 0 to 1.
Answer: JSON, `[5, 9.5]`, `{"times": [5, 9.5]}`, or bare moments, `5s and 9.5s`; `read: thought` takes the `<t>..</t>`
inside the thought instead.
Space: the model's (seconds, or 0..N of the clip); the framework has converted the dataset's moments.
Unit: `sigma` in the unit of the space.
Source: VisionCoach's thk_temporal_point. Its sigma is `annealed`: 4 * (1 - p) for the share p < 0.75 of the stage's
steps that are done, then 1, as in validation and in `mmrl score`.
Example: keys 6 and 12: `[5, 9]` 0.862036 with sigma 4, 0.603575 with 2, 0.308820 with 1; `[6]` 0.5 (official 1).
"""

from typing import Literal

from mmrl.data.sample import Sample
from mmrl.scoring.gold_places import gold_moments
from mmrl.scoring.listings import parse_moments
from mmrl.scoring.moments import Sigma, nearness, sigma_at
from mmrl.scoring.parse import AnswerFormat, extract_prediction
from mmrl.scoring.thoughts import thought, told_times

GEOMETRY = "time"
BOUNDS = (0.0, 1.0)


def score(
    completion: str,
    sample: Sample,
    *,
    answer: AnswerFormat = "auto",
    sigma: Sigma = 1.0,
    read: Literal["answer", "thought"] = "answer",
    official: bool = False,
) -> float:
    """`sigma`: the distance at which a moment still scores 0.606531. `read`: where the moments stand."""
    keys = gold_moments(sample)
    if read == "answer":
        found = parse_moments(extract_prediction(completion, answer=answer) or "")
    else:
        found = told_times(thought(completion))
    return nearness(found or (), keys, sigma=sigma_at(sample.progress, sigma), nearest=official)
