"""ROVER: the log-ratio to the policy before the update is a Q value of the uniform policy, and is fitted, not clipped.

    r~ = r - mean of the group           on every token
    Q_t = log p_t - old_t
    target_t = r~ + [mean over the vocabulary of log p(.|s_(t+1)), now - before the update]     0 behind the last token
    loss_t = (Q_t - sg[target_t])²

r = [1, 0, 0, 0], Q 0.2, the mean now -10.0, before -10.1: target 0.85, loss 0.4225. In the first update Q is 0, the
loss is r~² (mean 0.1875) and its gradient -2 r~: a REINFORCE step. No clip, no KL, no value head.

Source: tinnerhrhe/ROVER@b0fa587, read in code; n 5, lr 1e-6. No neutral options: the squared loss has no setting in
which it is a policy gradient.

Shape letters: N completions, C completion tokens.
"""

import torch

from mmrl.algorithms.advantages import dr_grpo
from mmrl.algorithms.losses import LossInput, TokenStats
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.schema import AlgorithmSection

_MEAN = "mean_logprob"
NEEDS = ("old", _MEAN)
EXTRA = (_MEAN,)
NEUTRAL = None


def advantage(rewards_N: torch.Tensor, batch: RolloutBatch, settings: AlgorithmSection) -> torch.Tensor:
    return dr_grpo(rewards_N, batch, settings)


def policy_loss(inputs: LossInput) -> tuple[torch.Tensor, TokenStats]:
    moved_NC = torch.where(inputs.mask_NC, inputs.extra[_MEAN] - inputs.batch.meta[_MEAN], 0.0)
    next_NC = torch.nn.functional.pad(moved_NC[:, 1:], (0, 1))
    target_NC = (inputs.advantage_NC + next_NC).detach()
    return (inputs.log_ratio_NC - target_NC) ** 2, {"rover_target": target_NC}
