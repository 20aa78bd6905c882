"""Whether a thought names the moments of the key frames: near ones count, softly.

Formula: with d the distance of a named moment from the key frame that it is matched with, exp(-d^2 / (2 * sigma^2))
summed over the pairs, / the greater count of moments. `official`: mean over the named moments, each with the nearest
key frame, so one sure moment is enough. sigma `annealed`: 4 * (1 - p) for the share p < 0.75 of the stage's steps that
are done, then 1, as in validation and in `mmrl score`.
Bounds: 0 to 1.
Answer: read from the thought's `<t>..</t>`; the dataset's answer is a list of key frames, as for `object_identity`.
Space: times are in the model's; the framework has converted the dataset's (`original_px at seconds`).
Unit: `sigma` in the unit of the space.
Source: VisionCoach's thk_temporal_point on rows with key frames; `temporal_point` is for answers that are moments.
Example: key frames at 6 and 12, a thought with 5 and 9: sigma 4 0.862036, 2 0.603575, 1 0.308820.
"""

from mmrl.data.sample import Sample
from mmrl.scoring.gold_places import gold_key_frames
from mmrl.scoring.moments import Sigma, nearness, sigma_at
from mmrl.scoring.thoughts import thought, told_times

GEOMETRY = "tube"
BOUNDS = (0.0, 1.0)


def score(
    completion: str,
    sample: Sample,
    *,
    sigma: Sigma = "annealed",
    official: bool = False,
) -> float:
    """`sigma`: the distance at which a moment still scores 0.606531."""
    keys = [frame.time for frame in gold_key_frames(sample)]
    sigma = sigma_at(sample.progress, sigma)
    return nearness(told_times(thought(completion)), keys, sigma=sigma, nearest=official)
