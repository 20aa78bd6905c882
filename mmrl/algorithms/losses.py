"""Policy losses: token grids of loss to be minimised, never aggregated here.

A loss returns (loss_NC, stats), where stats are token grids whose mean over loss tokens is logged; being grids they
add up over micro-batches like the loss.

Shape letters: N completions, C completion tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.schema import AlgorithmSection
from mmrl.config.section import PositiveFloat

MAX_LOG_RATIO = 20.0

TokenStats = dict[str, torch.Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class LossInput:
    """What a loss or regulariser may read; only policy_NC carries gradient.

    policy_NC, old_NC: log-probs of the completion tokens now and before the update. advantage_NC: 0 off the mask.
    mask_NC: bool, loss tokens. batch: the same rows, for columns of its own (ref_NC, entropy_NC, meta).
    extra: what EXTRA of a plug-in asked of the forward pass that made policy_NC, by request (algorithms/requests.py).
    """

    policy_NC: torch.Tensor
    old_NC: torch.Tensor
    advantage_NC: torch.Tensor
    mask_NC: torch.Tensor
    batch: RolloutBatch
    settings: AlgorithmSection
    extra: dict[str, torch.Tensor] = field(default_factory=dict)

    @property
    def log_ratio_NC(self) -> torch.Tensor:
        """policy - old, clamped to ±20 so that its exponential stays finite."""
        return (self.policy_NC - self.old_NC).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)


def ppo_clip(inputs: LossInput, *, delta: PositiveFloat | None = None) -> tuple[torch.Tensor, TokenStats]:
    """max(-A ratio, -A clip(ratio, 1 - clip_low, 1 + clip_high)); for A < 0 at most -A dual_clip.

    PPO (Schulman 2017) with DAPO's separate upper bound (2025) and dual clip (Ye 2020). A = -1, ratio = 5 costs 5, with
    dual_clip = 3 it costs 3 and has no gradient. dual_clip None switches the bound off.

    delta: two-sided clipping as TRL@f2cd57710 has it (INTELLECT-2, 2025: 4): the unclipped ratio is at most delta. It
    bounds the same side as dual_clip, which must be null beside it. A = -1, ratio = 6, delta = 4 costs 4.
    """
    settings, advantage_NC = inputs.settings, inputs.advantage_NC
    ratio_NC = inputs.log_ratio_NC.exp()
    loss_NC, stats = clipped(ratio_NC, inputs, delta=delta)
    if settings.dual_clip is not None:
        is_negative_NC = advantage_NC < 0
        bounded_NC = torch.minimum(loss_NC, -advantage_NC * settings.dual_clip)
        loss_NC = torch.where(is_negative_NC, bounded_NC, loss_NC)
        stats["clipfrac_dual"] = is_negative_NC & (ratio_NC > settings.dual_clip)
    return loss_NC, stats


def clipped(
    ratio_NC: torch.Tensor, inputs: LossInput, *, delta: float | None = None
) -> tuple[torch.Tensor, TokenStats]:
    """The pessimistic of -A ratio and -A clip(ratio), and the shares of tokens at each bound."""
    advantage_NC, low, high = inputs.advantage_NC, 1 - inputs.settings.clip_low, 1 + inputs.settings.clip_high
    capped_NC = ratio_NC if delta is None else ratio_NC.clamp(max=delta)
    loss_NC = torch.maximum(-advantage_NC * capped_NC, -advantage_NC * ratio_NC.clamp(low, high))
    stats = {
        "clipfrac_low": (advantage_NC < 0) & (ratio_NC < low),
        "clipfrac_high": (advantage_NC > 0) & (ratio_NC > high),
    }
    if delta is not None:
        stats["clipfrac_delta"] = (advantage_NC < 0) & (ratio_NC > delta)
    return loss_NC, stats


def cispo(inputs: LossInput, *, cap: PositiveFloat | None = None) -> tuple[torch.Tensor, TokenStats]:
    """-sg[w] A log p, w = clip(ratio, 1 - clip_low, 1 + clip_high): no token is dropped (CISPO, MiniMax-M1 2025).

    cap: TRL's form w = min(ratio, cap), where the cap is absolute (5, say). Source: verl, EasyR1, TRL, read in code.

    Ratio 1.5, A = 1, log p = -1, clips 0.2: loss 1.2, gradient -1.2 where PPO has none. Ratio 7, cap 5, log p = -2: 10.
    """
    ratio_NC = inputs.log_ratio_NC.detach().exp()
    if cap is None:
        weight_NC = ratio_NC.clamp(1 - inputs.settings.clip_low, 1 + inputs.settings.clip_high)
    else:
        weight_NC = ratio_NC.clamp(max=cap)
    return -weight_NC * inputs.advantage_NC * inputs.policy_NC, {"clipfrac": weight_NC != ratio_NC}


def sapo(
    inputs: LossInput, *, tau_positive: PositiveFloat = 1.0, tau_negative: PositiveFloat = 1.05
) -> tuple[torch.Tensor, TokenStats]:
    """-A g(ratio), g = 4 / tau sigmoid(tau (ratio - 1)): a soft gate in place of a clip (SAPO).

    The slope of g at 1 is 1, so the gradient there is PPO's; the value differs by 2 / tau. Source: TRL@f2cd57710 and
    verl, read in code. Ratio 1: g is 2 for A > 0, 1.9048 for A < 0; ratio 1.5, A > 0: 2.4898, slope 0.9400.
    """
    tau_NC = torch.where(inputs.advantage_NC > 0, tau_positive, tau_negative).to(inputs.policy_NC.dtype)
    gate_NC = (tau_NC * (inputs.log_ratio_NC.exp() - 1)).sigmoid() * 4 / tau_NC
    return -inputs.advantage_NC * gate_NC, {}


def gpg(inputs: LossInput) -> tuple[torch.Tensor, TokenStats]:
    """-A log p: the plain policy gradient, without a ratio (GPG 2025, with `advantage: gpg`). Source: verl, in code."""
    return -inputs.advantage_NC * inputs.policy_NC, {}
