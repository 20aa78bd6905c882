"""How good recorded frames look for what the row asks for, by a model of preferences (RL-VLM-F).

Formula: the mean over the frames and over the model's members of their rewards; `disagreement` (logged) is the members'
standard deviation.
Bounds: -1 to 1.
Answer: any text; it is not read. The frames are the row's clip, its pictures, or those that `frames_column` names by
paths; the instruction is the row's question, or the text of `text_column`.
Space: none.
Source: RL-VLM-F, Bradley-Terry on the preferences of a vision-language model.
Example: a preferred frame scores more than the one it was preferred to.
"""

from mmrl.reward_models.rewards import TrainedReward

BOUNDS = (-1.0, 1.0)
MEASURE = True
NEEDS_MEDIA = True
TRAINED = TrainedReward("preference")

preflight, score_batch = TRAINED.preflight, TRAINED.score_batch
