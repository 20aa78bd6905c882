"""One step of an algorithm on a made batch that has everything a plug-in may read: what the property tests run.

A plug-in's options that are texts name reward parts: the batch has a part, of weight 0, for each of them.
"""

import inspect
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import torch
from makers.batches import make_batch

from mmrl.algorithms.algorithm import Algorithm, build_algorithm
from mmrl.algorithms.hooks import load_plugin
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.schema import AlgorithmSection
from mmrl.plugins import resolve_module

LENGTHS, GID = (2, 5, 0, 3, 1, 4, 2, 3), (0, 1, 0, 1, 0, 1, 0, 1)
# Rewards of the two groups, mixed; the second has one unscored completion.
MIXED = (1.0, 0.2, 0.5, float("nan"), 0.0, 0.7, 1.0, 0.0)
# The first group, of short completions, is all wrong, the second all right.
CONSTANT = (0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0)
TOKENS = 8
# Options with which a plug-in has work on completions of at most five tokens, where its defaults would have none.
OPTIONS: dict[str, dict[str, Any]] = {
    "cde": {"alpha": 0.1},
    "repetition_penalty": {"size": 2},
    "clip_cov": {"ratio": 0.2, "low": 0.0},
    "kl_cov": {"ratio": 0.2},
    "lp_reg": {"share": 0.5},
    "rlfr": {"warmup_steps": 0, "width": 8, "blocks": 2},
}


@dataclass(frozen=True)
class Step:
    """What a step came to. kept_N: which rows would have been trained on alone."""

    loss: torch.Tensor
    gradient_NC: torch.Tensor
    stats: dict[str, float]
    advantage_NC: torch.Tensor
    weight_NC: torch.Tensor
    rewards_N: torch.Tensor
    kept_N: torch.Tensor


def module_of(plugin: str) -> ModuleType:
    return resolve_module(plugin, kind="algorithms")[0]


def parts_of(plugin: str) -> tuple[str, ...]:
    """Names of the reward parts a plug-in asks for by default."""
    factory = getattr(module_of(plugin), "Plugin", None) if plugin else None
    if factory is None:
        return ()
    defaults = (p.default for p in inspect.signature(factory).parameters.values())
    return tuple(dict.fromkeys(value for value in defaults if isinstance(value, str)))


def algorithm_of(plugin: str = "", *, options: dict[str, Any] | None = None, **settings: Any) -> Algorithm:
    """GRPO with one plug-in, at `OPTIONS` or its defaults unless options are given.

    A loss with one ratio per sequence gets the aggregation it needs.
    """
    options = OPTIONS.get(plugin) if options is None else options
    if plugin and load_plugin(plugin, options=options).sequence_level:
        settings = {"aggregation": "seq-mean-token-mean"} | settings
    chosen = {"plugins": (plugin,), "plugin_options": {plugin: options or {}}} if plugin else {}
    return build_algorithm(AlgorithmSection(**chosen, **settings), max_new_tokens=TOKENS)


def batch_for(
    plugin: str = "", rewards: tuple[float, ...] = MIXED, *, seed: int = 0, constant: bool = False
) -> RolloutBatch:
    """Two groups of four completions with every log-prob, entropies and the plug-in's parts.

    The vocabulary is two tokens, so completions share beginnings and repeat runs.
    constant: the parts are equal within a group, as its rewards are.
    """
    generator = torch.Generator().manual_seed(seed)
    batch = make_batch(LENGTHS, gid=GID, rewards=rewards)

    def grid(low: float, high: float) -> torch.Tensor:
        return (low + (high - low) * torch.rand(batch.mask_NC.shape, generator=generator)) * batch.mask_NC

    reward_N1, names = batch.rewards_NK, parts_of(plugin)
    parts_NK = torch.rand(len(LENGTHS), len(names), generator=generator)
    if constant:
        parts_NK = reward_N1.expand(-1, len(names))
    rollout_NC, wanted = grid(-2.0, -0.2), module_of(plugin) if plugin else None
    requests = {*getattr(wanted, "NEEDS", ()), *getattr(wanted, "NEEDS_EARLY", ())} - {"old", "ref", "entropy", "value"}
    ids_NC = torch.randint(0, 2, batch.mask_NC.shape, generator=generator)
    return replace(
        batch,
        ids_NC=ids_NC * batch.mask_NC,
        reward_names=("r", *names),
        rewards_NK=torch.cat([reward_N1, parts_NK.masked_fill(reward_N1.isnan(), torch.nan)], 1),
        weights_NK=torch.tensor([1.0] + [0.0] * len(names)),
        truncated_N=torch.tensor([n == 1 for n in range(len(LENGTHS))]),
        rollout_NC=rollout_NC,
        old_NC=rollout_NC + 0.1 * grid(-1.0, 1.0),
        ref_NC=grid(-2.0, -0.2),
        entropy_NC=grid(0.1, 2.0),
        value_NC=grid(-0.5, 0.5),
        task=("t",) * len(LENGTHS),
        dataset=("d",) * len(LENGTHS),
        meta={
            "greedy_reward": torch.full((len(LENGTHS),), 0.4),
            **{name: grid(-3.0, -1.0) for name in sorted(requests) if not name.startswith("top:")},
            **{name: _most_likely(ids_NC, rollout_NC) for name in sorted(requests) if name.startswith("top:")},
        },
        step=seed,
        total_steps=10,
    )


def _most_likely(ids_NC: torch.Tensor, logprobs_NC: torch.Tensor) -> torch.Tensor:
    """(N, C, 4) as of `top:2`: both tokens of the vocabulary."""
    other_NC = torch.log1p(-logprobs_NC.exp().clamp(max=0.99))
    return torch.stack([ids_NC, 1 - ids_NC, logprobs_NC, other_NC], -1)


def policy_for(batch: RolloutBatch, *, seed: int = 1) -> torch.Tensor:
    """Log-probs of a policy that has moved a little from old."""
    assert batch.old_NC is not None
    generator = torch.Generator().manual_seed(seed)
    return batch.old_NC + 0.6 * (torch.rand(len(LENGTHS), max(LENGTHS), generator=generator) - 0.5) * batch.mask_NC


def extra_for(algorithm: Algorithm, batch: RolloutBatch) -> dict[str, torch.Tensor]:
    """What the trained pass is asked for: some numbers for each token."""
    return dict.fromkeys(sorted(algorithm.extra), 0.1 * batch.ids_NC - 1.5 * batch.mask_NC)


def run_step(
    algorithm: Algorithm, batch: RolloutBatch, policy_NC: torch.Tensor, *, slices: list[list[int]] | None = None
) -> Step:
    """The hooks as the trainer calls them: one denominator, any split of the rows into micro-batches.

    Rows that `keep` drops stay, so that the steps of two batches can be compared row by row.
    """
    policy_NC = policy_NC.clone().requires_grad_()
    shaped = algorithm.shape_rewards(batch)
    batch = replace(batch, token_rewards_NC=shaped.token_rewards_NC)
    kept_N = algorithm.keep(batch, shaped.rewards_N)
    advantage_NC = algorithm.advantage(shaped.rewards_N, batch)
    batch = replace(batch, meta={**batch.meta, **algorithm.columns(shaped.rewards_N, advantage_NC, batch)})
    weight_NC, denom = batch.meta["weight"], algorithm.denominator(batch)
    extra = extra_for(algorithm, batch)
    total, sums = torch.zeros(()), {}
    for rows in slices or [list(range(len(batch)))]:
        part = batch.select(torch.tensor(rows))
        asked = {name: grid[rows] for name, grid in extra.items()}
        loss, stats = algorithm.loss(
            policy_NC[rows], part, advantage_NC[rows], weight_NC[rows], denom=denom, extra=asked
        )
        total = total + loss
        sums = {name: sums.get(name, 0.0) + value for name, value in stats.items()}
    total.backward()
    gradient_NC = torch.zeros_like(policy_NC) if policy_NC.grad is None else policy_NC.grad
    metrics = algorithm.step_metrics(sums)
    algorithm.on_step_end(batch, shaped.rewards_N, metrics)
    return Step(total.detach(), gradient_NC, metrics, advantage_NC, weight_NC, shaped.rewards_N, kept_N)
