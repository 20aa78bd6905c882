"""How far recorded frames have come with what the row asks for, by a trained progress model (ReWiND).

Formula: the progress that the model tells at the last frame, from it, the first frame and the instruction. `gain`
(logged): that less the progress at the first frame.
Bounds: 0 to 1.
Answer: any text; it is not read. The frames are the row's clip, its pictures, or those that `frames_column` names by
paths; the instruction is the row's question, or the text of `text_column`.
Space: none.
Source: ReWiND. Its environment reward adds 64 for success: give the success itself a part of its own.
Example: a clip that ends where demonstrations end about 1, one that was played back about 0.
"""

from mmrl.reward_models.rewards import TrainedReward

BOUNDS = (0.0, 1.0)
MEASURE = True
NEEDS_MEDIA = True
TRAINED = TrainedReward("progress")

preflight, score_batch = TRAINED.preflight, TRAINED.score_batch
