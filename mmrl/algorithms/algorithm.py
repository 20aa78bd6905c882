"""Algorithm: the built-in parts and the plug-ins of `algorithm:` as one object with a method per hook, in step order.

Shape letters: P prompts, N completions, C completion tokens, K reward parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from mmrl.algorithms.advantages import group_stats
from mmrl.algorithms.aggregate import Denominator, aggregate, count
from mmrl.algorithms.correction import rollout_correction, with_sample_size
from mmrl.algorithms.hooks import Plugin, chain, check_single_hooks, load_plugin, plugin_name
from mmrl.algorithms.losses import LossInput, TokenStats
from mmrl.algorithms.registry import ADVANTAGES, POLICY_LOSSES, Entry
from mmrl.algorithms.regularisers import ref_kl
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.algorithms.shaping import Shaped, overlong_penalty, weighted_sum
from mmrl.config.schema import AlgorithmSection
from mmrl.errors import CheckpointError, ConfigError, MmrlError, RewardError
from mmrl.plugins import resolve_function

Generate = Callable[..., RolloutBatch]


def build_algorithm(section: AlgorithmSection, *, max_new_tokens: int, relative_to: Path | None = None) -> Algorithm:
    """The algorithm a section describes. max_new_tokens: the completion limit, L of the -norm modes by default.

    Raises PluginError for a plug-in that is missing or malformed, ConfigError for a sequence-level loss with another
    aggregation than seq-mean-token-mean.
    """
    plugins = tuple(
        load_plugin(spelling, options=section.plugin_options.get(plugin_name(spelling)), relative_to=relative_to)
        for spelling in section.plugins
    )
    check_single_hooks(plugins)
    algorithm = Algorithm(section, plugins, max_new_tokens=max_new_tokens, relative_to=relative_to)
    _check_sequence_level(section, plugins)
    return algorithm


def _check_sequence_level(section: AlgorithmSection, plugins: Sequence[Plugin]) -> None:
    entry = POLICY_LOSSES.get(section.policy_loss)
    is_sequence_level = bool(entry and entry.sequence_level)
    for plugin in plugins:
        if "policy_loss" in plugin.hooks:
            is_sequence_level = plugin.sequence_level
    if is_sequence_level and section.aggregation != "seq-mean-token-mean":
        raise ConfigError(
            f"the policy loss has one ratio per sequence, but 'algorithm.aggregation' is {section.aggregation!r}, which"
            " weights sequences by length; set it to seq-mean-token-mean"
        )


class Algorithm:
    """Hooks in step order. Without plug-ins and with default settings this is GRPO with clip-higher.

    needs: what the batch must hold from `advantage` on: a subset of old, ref, entropy. needs_early: what it must hold
    already at `shape_rewards`.
    """

    def __init__(
        self,
        section: AlgorithmSection,
        plugins: Sequence[Plugin] = (),
        *,
        max_new_tokens: int,
        relative_to: Path | None = None,
    ) -> None:
        self.settings = section
        self.plugins = tuple(plugins)
        self.max_new_tokens = max_new_tokens
        self.needs_early = frozenset().union(*(plugin.needs_early for plugin in plugins))
        self.needs = _own_needs(section).union(*(plugin.needs for plugin in plugins))
        self._advantage = self._single("advantage") or _built_in(
            section.advantage, ADVANTAGES, default="advantage", relative_to=relative_to
        )
        self._policy_loss = self._single("policy_loss") or _built_in(
            section.policy_loss, POLICY_LOSSES, default="policy_loss", relative_to=relative_to
        )

    def _single(self, hook: str) -> Callable[..., Any] | None:
        return next(iter(chain(self.plugins, hook)), None)

    def sampler(self, prompt_ids: Sequence[str], generator: torch.Generator) -> torch.Tensor:
        """Indices (P,) of the prompts to use, in order. prompt_ids: sample ids of the loader's next prompts."""
        hook = self._single("sampler")
        return hook(prompt_ids, generator) if hook else torch.arange(len(prompt_ids))

    def budget(self, prompt_ids: Sequence[str], group_size: int) -> torch.Tensor:
        """Completions per prompt: (P,) int64."""
        hook = self._single("budget")
        return hook(prompt_ids, group_size) if hook else torch.full((len(prompt_ids),), group_size)

    @property
    def has_second_rounds(self) -> bool:
        """Whether a hook may generate more for the groups of a round."""
        return bool(chain(self.plugins, "second_round"))

    def second_round(self, batch: RolloutBatch, generate: Generate) -> RolloutBatch:
        """The batch after hooks have added or replaced rows by calling `generate`."""
        for hook in chain(self.plugins, "second_round"):
            batch = hook(batch, generate)
        return batch

    def shape_rewards(self, batch: RolloutBatch) -> Shaped:
        """The parts as the router combined them, soft overlong penalty, then the hooks.

        Raises RewardError for an infinite reward.
        """
        _require(batch, self.needs_early)
        rewards_N = batch.combined_N
        if rewards_N is None:
            rewards_N = weighted_sum(batch.rewards_NK, batch.weights_NK)
        settings, token_rewards_NC = self.settings, batch.token_rewards_NC
        changes: dict[str, torch.Tensor] = {}
        if settings.overlong_buffer:
            changes["overlong_buffer"] = overlong_penalty(
                batch.length_N,
                max_length=self.max_new_tokens,
                buffer=settings.overlong_buffer,
                factor=settings.overlong_factor,
            )
            rewards_N = rewards_N + changes["overlong_buffer"]
        for plugin in self.plugins:
            if "shape_rewards" not in plugin.hooks:
                continue
            before_N = rewards_N.clone()  # a hook may write into what it is given
            rewards_N, more_NC = plugin.hooks["shape_rewards"](batch, rewards_N)
            changes[plugin.name] = rewards_N.double() - before_N.double()
            token_rewards_NC = token_rewards_NC if more_NC is None else more_NC
        for row in rewards_N.isinf().nonzero().flatten().tolist():
            raise RewardError(f"id={batch.prompt_id[row]}: the reward is infinite; a reward is a finite number")
        return Shaped(rewards_N, token_rewards_NC, changes)

    def keep(self, batch: RolloutBatch, rewards_N: torch.Tensor) -> torch.Tensor:
        """Rows to train on, (N,) bool. Dynamic sampling drops the groups whose rewards are all equal (DAPO 2025)."""
        keep_N = torch.ones(len(batch), dtype=torch.bool)
        if self.settings.dynamic_sampling:
            keep_N &= ~group_stats(rewards_N, batch.gid_N).constant_N
        for hook in chain(self.plugins, "keep"):
            keep_N &= hook(batch, rewards_N)
        return keep_N

    @property
    def refills(self) -> bool:
        """Whether groups dropped by `keep` are replaced by generating more."""
        return self.settings.dynamic_sampling

    def missing_groups(self, kept: int, *, wanted: int, rounds: int) -> int:
        """Groups still to generate after `rounds` rounds that left `kept` of `wanted`; 0 when the batch is full.

        Raises MmrlError after max_generation_rounds, so that a run whose groups have no signal ends with a reason
        instead of generating for ever.
        """
        missing = max(wanted - kept, 0)
        limit = self.settings.max_generation_rounds
        if missing and rounds >= limit:
            raise MmrlError(
                f"dynamic sampling: after {rounds} rounds of generation only {kept} of {wanted} groups have rewards"
                " that differ inside the group; raise 'algorithm.max_generation_rounds' or 'rollout.group_size', use"
                " rewards with partial credit or prompts the model solves sometimes, or set"
                " 'algorithm.dynamic_sampling' to false"
            )
        return missing

    def replay(self, batch: RolloutBatch, rewards_N: torch.Tensor) -> tuple[RolloutBatch, torch.Tensor]:
        """The batch and rewards after hooks have merged in rows of earlier steps."""
        for hook in chain(self.plugins, "replay"):
            batch, rewards_N = hook(batch, rewards_N)
        return batch, rewards_N

    def advantage(self, rewards_N: torch.Tensor, batch: RolloutBatch) -> torch.Tensor:
        """(N, C) float32, detached, 0 where there is no loss token.

        With mask_truncated a truncated completion still counts in its group's statistics; only its tokens get 0.
        """
        _require(batch, self.needs)
        advantage_NC = self._advantage(rewards_N, batch, self.settings).detach()
        return torch.where(self.loss_mask(batch), advantage_NC, 0.0)

    def token_weight(self, advantage_NC: torch.Tensor, batch: RolloutBatch) -> torch.Tensor:
        """(N, C), detached: the product of the hooks' weights. It scales the policy term and changes no denominator."""
        weight_NC = torch.ones_like(advantage_NC)
        for hook in chain(self.plugins, "token_weight"):
            weight_NC = weight_NC * hook(advantage_NC, batch).detach()
        return weight_NC

    def loss_mask(self, batch: RolloutBatch) -> torch.Tensor:
        """Cells with loss, (N, C) bool: all completion tokens, without truncated completions under mask_truncated."""
        if self.settings.mask_truncated:
            return batch.mask_NC & ~batch.truncated_N[:, None]
        return batch.mask_NC

    def denominator(self, batch: RolloutBatch) -> Denominator:
        """Counts over all rows of one optimizer step, for `loss`. Add up those of several processes."""
        return count(self.loss_mask(batch), length=self.settings.aggregation_length or self.max_new_tokens)

    def loss(
        self,
        policy_NC: torch.Tensor,
        batch_slice: RolloutBatch,
        advantage_NC: torch.Tensor,
        weight_NC: torch.Tensor,
        *,
        denom: Denominator,
    ) -> tuple[torch.Tensor, dict[str, float]]:
        """The slice's share of the step's loss, and its shares of the logged means; sum both over micro-batches.

        aggregate(weight * policy loss) + sum of aggregate(regulariser), where the importance weights of
        `rollout_correction` are part of the weight. Where the batch has no old_NC the update is on
        policy: old equals the policy's value before the step, which is the value of policy_NC itself. Its detached copy
        gives the ratio 1 with the gradient of the ratio, exact, and saves the forward pass that would compute old.
        """
        mask_NC = self.loss_mask(batch_slice)
        old_NC = policy_NC if batch_slice.old_NC is None else batch_slice.old_NC
        inputs = LossInput(policy_NC, old_NC.detach(), advantage_NC, mask_NC, batch_slice, self.settings)
        loss_NC, stats = self._policy_loss(inputs)
        weight_NC, weight_stats = self._corrected(weight_NC.detach(), inputs)
        policy_loss = self._aggregate(weight_NC * loss_NC, mask_NC, denom)
        extra_NC, extra_stats = self._regularise(inputs)
        total = policy_loss if extra_NC is None else policy_loss + self._aggregate(extra_NC, mask_NC, denom)
        grids = {**stats, **weight_stats, **extra_stats, **_drift(inputs)}
        shares = {name: _token_share(grid_NC, mask_NC, denom) for name, grid_NC in grids.items()}
        shares["policy_loss"] = policy_loss.detach()
        values = torch.stack([share.double() for share in shares.values()]).tolist()
        return total, {f"policy/{name}": value for name, value in zip(shares, values, strict=True)}

    def step_metrics(self, sums: dict[str, float]) -> dict[str, float]:
        """Metrics of an optimizer step from the sums, over its micro-batches and processes, of what `loss` returned."""
        return with_sample_size(sums)

    def _corrected(self, weight_NC: torch.Tensor, inputs: LossInput) -> tuple[torch.Tensor, TokenStats]:
        """The weights times those between sampler and trainer, where the configuration asks for these."""
        if self.settings.rollout_correction == "none":
            return weight_NC, {}
        batch = inputs.batch
        found = rollout_correction(inputs.old_NC, batch.rollout_NC, batch.mask_NC, settings=self.settings)
        return weight_NC * found.weight_NC, found.stats()

    def _regularise(self, inputs: LossInput) -> tuple[torch.Tensor | None, TokenStats]:
        settings, batch = self.settings, inputs.batch
        total_NC, stats = None, {}
        if settings.ref_kl_coef:
            assert batch.ref_NC is not None, "needs contains ref"
            kl_NC = ref_kl(inputs.policy_NC, batch.ref_NC, estimator=settings.ref_kl_estimator)
            total_NC, stats["ref_kl"] = settings.ref_kl_coef * kl_NC, kl_NC
        for hook in chain(self.plugins, "regulariser"):
            loss_NC, more = hook(inputs)
            total_NC = loss_NC if total_NC is None else total_NC + loss_NC
            stats |= more
        return total_NC, stats

    def _aggregate(self, loss_NC: torch.Tensor, mask_NC: torch.Tensor, denom: Denominator) -> torch.Tensor:
        if hook := self._single("aggregate"):
            return hook(loss_NC, mask_NC, denom)
        return aggregate(loss_NC, mask_NC, mode=self.settings.aggregation, denom=denom)

    def on_step_end(self, batch: RolloutBatch, rewards_N: torch.Tensor, metrics: dict[str, float]) -> None:
        for hook in chain(self.plugins, "on_step_end"):
            hook(batch, rewards_N, metrics)

    def state_dict(self) -> dict[str, Any]:
        """JSON-able state of all plug-ins, by name."""
        return {plugin.name: plugin.state_dict() for plugin in self.plugins}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore; raises CheckpointError when the checkpoint was written with other plug-ins."""
        names = [plugin.name for plugin in self.plugins]
        if sorted(state) != sorted(names):
            raise CheckpointError(
                f"the checkpoint holds state of the plug-ins {sorted(state)}, but 'algorithm.plugins' is {names}"
            )
        for plugin in self.plugins:
            plugin.load_state_dict(state[plugin.name])


def _own_needs(section: AlgorithmSection) -> frozenset[str]:
    """The reference only for its KL; old only when a later update sees a policy that has moved since."""
    needs = {"ref"} if section.ref_kl_coef else set()
    if section.updates_per_batch * section.epochs_per_batch > 1:
        needs.add("old")
    return frozenset(needs)


def _built_in(name: str, table: dict[str, Entry], *, default: str, relative_to: Path | None) -> Callable[..., Any]:
    spelling = table[name].function if name in table else name
    return resolve_function(spelling, kind="algorithms", default=default, relative_to=relative_to)


def _require(batch: RolloutBatch, needs: frozenset[str]) -> None:
    missing = [name for name in sorted(needs) if getattr(batch, f"{name}_NC") is None]
    assert not missing, f"the trainer did not compute {missing}, which the algorithm's `needs` ask for"


def _token_share(grid_NC: torch.Tensor, mask_NC: torch.Tensor, denom: Denominator) -> torch.Tensor:
    return torch.where(mask_NC, grid_NC.detach().double(), 0.0).sum() / max(denom.tokens, 1)


def _drift(inputs: LossInput) -> TokenStats:
    """Mean log-prob distance from the policy before the update (k1)."""
    return {"old_kl": inputs.old_NC - inputs.policy_NC.detach()}
