"""Blockwise advantages (BAE, OCB): each block of a completion is judged by its own reward, against its own kind.

    block 0       A = r_0 - mean of the group's r_0
    block k > 0   A = r_k - mean of r_k over the group's completions of the same outcome (right or wrong)

No division by the std. A block's advantage stands on its tokens alone; tokens of no block have 0. With `block_mean` the
policy term of a token is weighed by length / tokens of its block, so that under `seq-mean-token-mean` a completion's
loss is the sum of its blocks' token means.

`blocks` is a column of spans, `[[0, 120, 1.0], [120, 180, -0.01]]`, each with its block's reward (a part counts as one
block over all); a completion may lack later blocks. Right: the row's reward is at least `threshold`.

Source: the paper's text; `ref_kl_coef` 0 there. One block is Dr.GRPO, so there are no options at which it is GRPO:
no neutral ones. A stratum of one completion has 0.

Rewards of block 1 [.9, .2, .6, .1], right, right, wrong, wrong: [.35, -.35, .25, -.25], where the group's mean would
give [.45, -.25, .15, -.35]. A confidence block has -(q - c)^2: q .9 gives -.01 or -.81.

Shape letters: N completions, C completion tokens.
"""

import torch

from mmrl.algorithms.advantages import group_stats
from mmrl.algorithms.parts import on_tokens_of
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.schema import AlgorithmSection

NEUTRAL = None
OPTION = "blockwise's option 'blocks'"


class Plugin:
    """blocks: name of the column. threshold: the least reward of a right completion. strata: False: one for all."""

    def __init__(
        self, *, blocks: str = "blocks", threshold: float = 0.5, strata: bool = True, block_mean: bool = True
    ) -> None:
        self._blocks, self._threshold, self._strata, self._block_mean = blocks, threshold, strata, block_mean

    def advantage(self, rewards_N: torch.Tensor, batch: RolloutBatch, settings: AlgorithmSection) -> torch.Tensor:
        values_NC, block_NC = on_tokens_of(batch, self._blocks, option=OPTION)
        right_N = (rewards_N >= self._threshold).long() if self._strata else torch.zeros_like(batch.gid_N)
        advantage_NC = torch.zeros(batch.mask_NC.shape, dtype=torch.float64)
        for block in block_NC.unique().tolist():
            if block < 0:
                continue
            here_NC = block_NC == block
            value_N = torch.where(here_NC, values_NC, -torch.inf).amax(1)
            value_N = torch.where(here_NC.any(1) & ~rewards_N.isnan(), value_N, torch.nan)
            stats = group_stats(value_N, 2 * batch.gid_N + (right_N if block else 0))
            centred_N = torch.where(stats.constant_N, 0.0, value_N - stats.mean_N).nan_to_num(nan=0.0)
            advantage_NC = torch.where(here_NC, centred_N[:, None], advantage_NC)
        return advantage_NC.float()

    def token_weight(self, advantage_NC: torch.Tensor, batch: RolloutBatch) -> torch.Tensor:
        _, block_NC = on_tokens_of(batch, self._blocks, option=OPTION)
        weight_NC = torch.ones_like(advantage_NC)
        for block in block_NC.unique().tolist() if self._block_mean else ():
            here_NC = (block_NC == block) & (block >= 0)
            share_N = batch.length_N / here_NC.sum(1).clamp(min=1)
            weight_NC = torch.where(here_NC, share_N[:, None].to(weight_NC.dtype), weight_NC)
        return weight_NC
