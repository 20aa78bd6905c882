"""How far recorded frames have come, by a model of gaining, standing still and losing ground (ARM).

Formula: the progress at the last frame: 1 from the frame on at which the model calls the task completed; without such a
frame the net gain of the intervals by the mean net gain of clips that succeed, between 0 and 1.
Bounds: 0 to 1.
Answer: any text; it is not read. The frames are the row's clip, its pictures, or those that `frames_column` names by
paths; the instruction is the row's question, or the text of `text_column`.
Space: none.
Source: ARM. Advantages and weights for cloning are `arm_gains` and `arm_weights` in `mmrl/reward_models/targets.py`.
Example: states 1, 1, -1 of clips that gain 4: 0.25; completed: 1.
"""

from mmrl.reward_models.rewards import TrainedReward

BOUNDS = (0.0, 1.0)
MEASURE = True
NEEDS_MEDIA = True
TRAINED = TrainedReward("tri_state")

preflight, score_batch = TRAINED.preflight, TRAINED.score_batch
