"""Advantages that differ from token to token: returns to go, whitened over the step, and GAE with a value head.

An unscored completion (NaN) takes no part in the statistics and gets 0. Statistics are those of all processes.

Shape letters: N completions, C completion tokens.
"""

from __future__ import annotations

import torch

from mmrl.algorithms.advantages import group_stats
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.schema import AlgorithmSection
from mmrl.config.section import Probability
from mmrl.training.distributed import sum_over_ranks

_WHITEN_EPS = 1e-8


def reinforce_pp(
    rewards_N: torch.Tensor, batch: RolloutBatch, settings: AlgorithmSection, *, gamma: Probability = 1.0
) -> torch.Tensor:
    """Returns to go, whitened over all tokens of the step (REINFORCE++, Hu 2025). No group is needed.

    Long completions count more in the statistics. Rewards 1 and 0, 2 and 4 tokens: 1.2910 and -0.6455. Source:
    verl@b178a3cd5 and OpenRLHF@3c3be623, read in code.
    """
    return whitened(returns_to_go(rewards_N, batch, gamma=gamma), _scored(rewards_N, batch))


def reinforce_pp_baseline(rewards_N: torch.Tensor, batch: RolloutBatch, settings: AlgorithmSection) -> torch.Tensor:
    """Reward less the group's mean on every token, whitened over all tokens of the step (REINFORCE++-baseline).

    Rewards [1, 0 | 1, 1], lengths [2, 1 | 2, 2]: 1.2421, -1.6562 and -0.2070. Source: as `reinforce_pp`.
    """
    centred_N = rewards_N - group_stats(rewards_N, batch.gid_N).mean_N
    return whitened(centred_N[:, None].expand(batch.mask_NC.shape), _scored(rewards_N, batch))


def gae(
    rewards_N: torch.Tensor,
    batch: RolloutBatch,
    settings: AlgorithmSection,
    *,
    gamma: Probability = 1.0,
    lam: Probability = 1.0,
) -> torch.Tensor:
    """Generalised advantage estimation with the value head (PPO; Schulman 2016), whitened over all tokens of the step.

    delta_t = r_t + gamma V_(t+1) - V_t, A_t = delta_t + gamma lam A_(t+1); behind the last token V is 0. The value head
    learns A_t + V_t before whitening (`returns`). Source: verl@b178a3cd5, read in code.

    Rewards of tokens 0, 0, 1, V = 0.2, 0.4, 0.6, gamma 1, lam 0.5: A = 0.4, 0.4, 0.4; lam 1: 0.8, 0.6, 0.4.
    """
    return whitened(gae_unscaled(rewards_N, batch, gamma=gamma, lam=lam), _scored(rewards_N, batch))


def gae_unscaled(rewards_N: torch.Tensor, batch: RolloutBatch, *, gamma: float = 1.0, lam: float = 1.0) -> torch.Tensor:
    """GAE before whitening, float64; 0 off the mask."""
    assert batch.value_NC is not None, "needs contains value"
    value_NC = torch.where(batch.mask_NC, batch.value_NC.double(), 0.0)
    next_NC = torch.nn.functional.pad(value_NC[:, 1:], (0, 1))
    delta_NC = token_rewards(rewards_N, batch) + gamma * next_NC - value_NC
    return _discounted(delta_NC, gamma * lam)


def returns(rewards_N: torch.Tensor, batch: RolloutBatch, **options: float) -> torch.Tensor:
    """What the value head learns: GAE before whitening plus the value it had; that value for an unscored completion."""
    assert batch.value_NC is not None, "needs contains value"
    gained_NC = torch.where(_scored(rewards_N, batch), gae_unscaled(rewards_N, batch, **options), 0.0)
    return (gained_NC + batch.value_NC).float().detach()


def returns_to_go(rewards_N: torch.Tensor, batch: RolloutBatch, *, gamma: float = 1.0) -> torch.Tensor:
    """Discounted sum of the rewards from each token on, float64; gamma 0.9 and one reward at the last of three tokens
    give 0.81, 0.9, 1.
    """
    return torch.where(batch.mask_NC, _discounted(token_rewards(rewards_N, batch), gamma), 0.0)


def token_rewards(rewards_N: torch.Tensor, batch: RolloutBatch) -> torch.Tensor:
    """The rewards of tokens, that of the completion added to its last one; float64, 0 for NaN and off the mask."""
    grid_NC = torch.zeros(batch.mask_NC.shape, dtype=torch.float64)
    if batch.token_rewards_NC is not None:
        grid_NC = torch.where(batch.mask_NC, batch.token_rewards_NC.double().nan_to_num(nan=0.0), 0.0)
    is_last_NC = batch.mask_NC & (torch.arange(grid_NC.shape[1]) == batch.length_N[:, None] - 1)
    return grid_NC + torch.where(is_last_NC, rewards_N.double().nan_to_num(nan=0.0)[:, None], 0.0)


def whitened(values_NC: torch.Tensor, mask_NC: torch.Tensor) -> torch.Tensor:
    """(x - mean) / sqrt(unbiased variance + 1e-8) over the masked cells of all processes; float32, 0 elsewhere."""
    cells = values_NC[mask_NC].double()
    count, total = sum_over_ranks([len(cells), cells.sum().item()])
    mean = total / max(count, 1)
    [squares] = sum_over_ranks([((cells - mean) ** 2).sum().item()])
    variance = squares / (count - 1) if count > 1 else 0.0
    return torch.where(mask_NC, (values_NC.double() - mean) / (variance + _WHITEN_EPS) ** 0.5, 0.0).float().detach()


def _discounted(values_NC: torch.Tensor, gamma: float) -> torch.Tensor:
    """s_t = x_t + gamma s_(t+1)."""
    sums_NC, after_N = torch.zeros_like(values_NC), torch.zeros(len(values_NC), dtype=values_NC.dtype)
    for token in reversed(range(values_NC.shape[1])):
        after_N = values_NC[:, token] + gamma * after_N
        sums_NC[:, token] = after_N
    return sums_NC


def _scored(rewards_N: torch.Tensor, batch: RolloutBatch) -> torch.Tensor:
    return batch.mask_NC & ~rewards_N.isnan()[:, None]
