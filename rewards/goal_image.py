"""How near recorded frames come to a goal picture, by a frozen image encoder.

Formula: (1 + cos(last frame, goal)) / 2; with `relative` (d(first) - d(last)) / d(first) between -1 and 1, d = 1 - cos:
the share of the way to the goal that was covered.
Bounds: -1 to 1; 0 to 1 unless relative.
Answer: any text; it is not read. The goal is the row's first picture; the frames are its clip, its other pictures, or
what the paths in `frames_column` show.
Space: none.
Source: distance to a goal image, as in visual foresight and goal-conditioned control; the scale is SGP-RL's.
Example: cosine 0.6: 0.8; from cosine 0 to 0.6, relative: 0.6; at the goal 1.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from mmrl.data.sample import Sample
from mmrl.errors import RewardError
from mmrl.scoring.batch import each
from mmrl.scoring.encoders import check_encoder, encoder_of
from mmrl.scoring.similarities import nearness
from mmrl.scoring.subjects import Footage, row_picture

BOUNDS = (-1.0, 1.0)
MEASURE = True
NEEDS_MEDIA = True


def preflight(options: Mapping[str, Any], timeout_s: float) -> None:
    check_encoder(options["encoder"], reads=("pictures",))


def score_batch(
    completions: Sequence[str],
    samples: Sequence[Sample],
    *,
    encoder: dict[str, Any],
    relative: bool = False,
    frames_column: str | None = None,
) -> list[float | RewardError]:
    """`relative`: what was covered from the first frame on. `frames_column`: paths of frames, or of a clip."""
    frozen = encoder_of(encoder)

    def pictures(_: str, sample: Sample) -> list:
        frames = Footage(frames_column, most=2, skip=1).frames(sample)
        return [row_picture(sample), frames[0], frames[-1]]

    found = each(pictures, completions, samples)
    vectors = iter(frozen.pictures([p for several in found if isinstance(several, list) for p in several]))

    def result() -> float:
        goal_D, first_D, last_D = (next(vectors) for _ in range(3))
        return nearness(last_D, goal_D, first_D=first_D if relative else None)

    return [several if isinstance(several, RewardError) else result() for several in found]
