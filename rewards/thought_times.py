"""Whether a thought looks at the right part of a clip.

Formula: the share of the moments in `<t>..</t>` inside the thought that lie in the answer's span; 0 without a moment.
Bounds: 0 to 1.
Answer: read from the thought; the dataset's answer is one span.
Space: the model's (seconds, or 0..N of the clip); the framework has converted the dataset's span.
Source: VisionCoach's thk_temporal_segment.
Example: answer [10, 18]: a thought with 12 and 30 0.5, with 12 and 17 1, without a moment 0.
"""

from mmrl.data.sample import Sample
from mmrl.scoring.gold import gold_geometry
from mmrl.scoring.thoughts import thought, told_times

GEOMETRY = "time"
BOUNDS = (0.0, 1.0)


def score(completion: str, sample: Sample) -> float:
    """Of 0 to 1."""
    start, end = gold_geometry(sample, kind="time")
    moments = told_times(thought(completion))
    return sum(start <= moment <= end for moment in moments) / len(moments) if moments else 0.0
