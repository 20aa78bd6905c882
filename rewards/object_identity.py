"""Whether a thought points at the things it names: named boxes at times against key frames.

Formula: each claim `<obj>name</obj><box>[..]</box>at<t>6.4</t>s` of the thought is held against the key frame nearest
in time (at most `within` away). Of each object there that it means, the mean over the object's boxes of the best IoU
with a claimed box; of several objects the mean (`mode: max`: the best). Reward: sum / all claims, 0 without a claim.
`official`: sum / the claims that mean an object, names matched softly, so that claims of other things cost nothing.
Bounds: 0 to 1.
Answer: read from the thought; the dataset's answer is a list of key frames, `[{"time": 6, "objects": {"red car": [[x1,
y1, x2, y2], ...]}}]`, or `{"answer": ..., "frames": [...]}` for a task with other rewards beside this one.
Space: boxes and times are in the model's; the framework has converted the dataset's (`original_px at seconds`).
Source: VisionCoach's thk_spatial (released with avg, soft, matched); `names: null` with `mode: max` is Open-o3's.
Example: at 6 s a red car [0, 0, 10, 10] and a man; claims of a car [0, 0, 10, 8] at 6.4 and a man at 9.0: 0.4
(official 0.8); a claim `dog` with the car's box 0.
"""

import math
from typing import Literal

from mmrl.data.sample import Sample
from mmrl.scoring.gold_places import gold_key_frames
from mmrl.scoring.thoughts import ClaimRules, NameRule, claim_score, claims, thought

GEOMETRY = "tube"
BOUNDS = (0.0, 1.0)


def score(
    completion: str,
    sample: Sample,
    *,
    names: NameRule | None = "head",
    mode: Literal["avg", "max"] = "avg",
    within: float = 1.0,
    official: bool = False,
) -> dict[str, float]:
    """Also returns `claims`, their count. `names`: when a name means an object (null: always). `within`: seconds."""
    frames = gold_key_frames(sample)
    made = claims(thought(completion))
    rules = ClaimRules("soft" if official and names is not None else names, within, mode)
    scores = [value for claim in made if (value := claim_score(claim, frames, rules)) is not None]
    total = len(scores) if official else len(made)
    return {"reward": math.fsum(scores) / total if total else 0.0, "claims": float(len(made))}
