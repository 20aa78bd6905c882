"""Algorithm: the built-in parts and the plug-ins of `algorithm:` as one object with a method per hook, in step order.

Shape letters: P prompts, N completions, C completion tokens, K reward parts.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from mmrl.algorithms.advantages import group_stats
from mmrl.algorithms.aggregate import Denominator, aggregate, count
from mmrl.algorithms.built_in import built_in, entry, own_early_needs, own_extra, own_needs, own_regularisers
from mmrl.algorithms.contradictions import check_contradictions
from mmrl.algorithms.correction import off_policy_mask, rejection, rollout_correction, with_sample_size
from mmrl.algorithms.hooks import (
    HOOKS,
    SINGLE_HOOKS,
    Plugin,
    chain,
    check_single_hooks,
    load_plugin,
    plugin_name,
)
from mmrl.algorithms.losses import LossInput, TokenStats
from mmrl.algorithms.registry import ADVANTAGES, POLICY_LOSSES
from mmrl.algorithms.regularisers import KlController, ref_kl
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.algorithms.shaping import Shaped, overlong_penalty, weighted_sum
from mmrl.algorithms.token_advantages import returns
from mmrl.algorithms.value import value_loss
from mmrl.config.schema import AlgorithmSection, RowWeights
from mmrl.errors import CheckpointError, MmrlError, RewardError
from mmrl.training.distributed import sum_over_ranks

Generate = Callable[..., RolloutBatch]
_KL_STATE = "algorithm:ref_kl"  # no plug-in can have this name
_WEIGHTS = ("rollout_correction", "rollout_rejection", "off_policy_delta")


def build_algorithm(section: AlgorithmSection, *, max_new_tokens: int, relative_to: Path | None = None) -> Algorithm:
    """The algorithm a section describes. max_new_tokens: the completion limit, L of the -norm modes by default.

    Raises PluginError for a plug-in that is missing or malformed, ConfigError for methods that contradict each other.
    """
    plugins = tuple(
        load_plugin(spelling, options=section.plugin_options.get(plugin_name(spelling)), relative_to=relative_to)
        for spelling in section.plugins
    )
    check_single_hooks(plugins)
    check_contradictions(section, plugins)
    return Algorithm(section, plugins, max_new_tokens=max_new_tokens, relative_to=relative_to)


class Algorithm:
    """Hooks in step order. Without plug-ins and with default settings this is GRPO with clip-higher.

    needs: what the batch must hold from `advantage` on: old, ref and requests (algorithms/requests.py). needs_early:
    what it must hold already at `shape_rewards`. extra: requests of the pass that is trained, for `loss`. reports: what
    the engine is asked to say of each token. models: those beside the policy, by name.
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
        advantage = entry(section.advantage, ADVANTAGES)
        self._kl = KlController(section.ref_kl_coef, target=section.ref_kl_target, horizon=section.ref_kl_horizon)
        self.needs_early = own_early_needs(section).union(*(plugin.needs_early for plugin in plugins))
        self.needs = own_needs(section).union(self.needs_early, *(plugin.needs for plugin in plugins))
        self.models = {name: model for plugin in plugins for name, model in plugin.models.items()}
        own_advantage = self._single("advantage")
        if own_advantage is None:
            self.needs |= frozenset(advantage.needs)
        self._takes_token_rewards = own_advantage is not None or advantage.token_rewards
        self.reports = frozenset[str]().union(*(plugin.reports for plugin in plugins))
        self.extra = own_extra(section, self.needs).union(*(plugin.extra for plugin in plugins))
        self._advantage = own_advantage or built_in(section, "advantage", ADVANTAGES, relative_to=relative_to)
        self._policy_loss = self._single("policy_loss") or built_in(
            section, "policy_loss", POLICY_LOSSES, relative_to=relative_to
        )

    @property
    def has_value_head(self) -> bool:
        return "value" in self.needs

    def resolved(self) -> list[str]:
        """The hooks in step order with what fills each, one line per hook that is not the identity."""
        settings, lines = self.settings, []
        of_settings = {
            "shape_rewards": ["overlong_buffer"] if settings.overlong_buffer else [],
            "keep": ["dynamic_sampling"] if settings.dynamic_sampling else [],
            "advantage": [settings.advantage],
            "token_weight": [key for key in _WEIGHTS if getattr(settings, key) not in ("none", None)],
            "policy_loss": [settings.policy_loss],
            "regulariser": own_regularisers(settings, self.has_value_head),
            "aggregate": [settings.aggregation],
        }
        if settings.ref_kl_coef and settings.ref_kl_in == "reward":
            of_settings["shape_rewards"].append("ref_kl")
        for hook in HOOKS:
            names = [plugin.name for plugin in self.plugins if hook in plugin.hooks]
            if hook == "model_loss" and all(model.lr is None for model in self.models.values()):
                continue
            own = [] if hook in SINGLE_HOOKS and names else of_settings.get(hook, [])
            if own or names:
                lines.append(f"{hook}: {', '.join([*own, *names])}")
        lines += [f"needs: {', '.join(sorted(self.needs))}"] if self.needs else []
        return [*lines, f"trained pass: {', '.join(sorted(self.extra))}"] if self.extra else lines

    def _single(self, hook: str) -> Callable[..., Any] | None:
        return next(iter(chain(self.plugins, hook)), None)

    @property
    def draw(self) -> Callable[..., Sequence[int]] | None:
        """(pool, count, chance) -> row numbers, of a mmrl.data.pool.Pool; None: the loader's own order."""
        return self._single("draw")

    def sampler(self, prompt_ids: Sequence[str], generator: torch.Generator) -> torch.Tensor:
        """Indices (P,) of the prompts to use, in order. prompt_ids: sample ids of the loader's next prompts."""
        hook = self._single("sampler")
        return hook(prompt_ids, generator) if hook else torch.arange(len(prompt_ids))

    @property
    def frames(self) -> Callable[..., torch.Tensor | None] | None:
        """(sample, a MediaEntry of its prompt, share of the stage's steps done) -> its new frames, uint8 of the same
        shape, or None; None: prompts are shown as they are.
        """
        return self._single("frames")

    def budget(self, prompt_ids: Sequence[str], group_size: int) -> torch.Tensor:
        """Completions per prompt: (P,) int64."""
        hook = self._single("budget")
        return hook(prompt_ids, group_size) if hook else torch.full((len(prompt_ids),), group_size)

    def prefixes(self, drawn: Any) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """For each prompt the forced first tokens of each of its completions; empty: none are forced.

        drawn: a mmrl.training.drawn.Drawn.
        """
        hook = self._single("prefixes")
        found = hook(drawn, drawn.n) if hook else ()
        return tuple(tuple(tuple(ids) for ids in of_prompt) for of_prompt in found)

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
        """The parts as the router combined them, soft overlong penalty, the hooks, then the divergence in the reward.

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
        if settings.ref_kl_coef and settings.ref_kl_in == "reward":
            rewards_N, token_rewards_NC = self._with_kl(batch, rewards_N, token_rewards_NC, changes)
        for row in rewards_N.isinf().nonzero().flatten().tolist():
            raise RewardError(f"id={batch.prompt_id[row]}: the reward is infinite; a reward is a finite number")
        return Shaped(rewards_N, token_rewards_NC, changes)

    def _with_kl(
        self,
        batch: RolloutBatch,
        rewards_N: torch.Tensor,
        token_rewards_NC: torch.Tensor | None,
        changes: dict[str, torch.Tensor],
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Rewards less coef * (old - ref) of each token: as rewards of tokens, or summed for an advantage of whole
        completions.
        """
        assert batch.old_NC is not None, "needs_early contains old and ref"
        assert batch.ref_NC is not None, "needs_early contains old and ref"
        penalty_NC = self._kl.penalty(batch.old_NC, batch.ref_NC, batch.mask_NC)
        changes["ref_kl"] = penalty_NC.sum(1)
        if not self._takes_token_rewards:
            return rewards_N + changes["ref_kl"], token_rewards_NC
        return rewards_N, penalty_NC if token_rewards_NC is None else token_rewards_NC + penalty_NC

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
        if self._has_row_weights:
            advantage_NC = advantage_NC * self._row_weights(batch, "advantage_scale")
        return torch.where(self.loss_mask(batch), advantage_NC, 0.0)

    def token_weight(self, advantage_NC: torch.Tensor, batch: RolloutBatch) -> torch.Tensor:
        """(N, C), detached: the product of the hooks' weights. It scales the policy term and changes no denominator."""
        weight_NC = torch.ones_like(advantage_NC)
        for hook in chain(self.plugins, "token_weight"):
            weight_NC = weight_NC * hook(advantage_NC, batch).detach()
        return weight_NC

    def columns(
        self, rewards_N: torch.Tensor, advantage_NC: torch.Tensor, batch: RolloutBatch
    ) -> dict[str, torch.Tensor]:
        """What the loss hooks read from batch.meta: `advantage`, `weight`, the value head's targets `returns_NC`, and
        what hooks make over the whole batch.
        """
        columns = {"advantage": advantage_NC, "weight": self.token_weight(advantage_NC, batch)}
        if self.settings.advantage == "gae" and self._single("advantage") is None:
            columns["returns_NC"] = returns(rewards_N, batch, **self.settings.advantage_options)
        for hook in chain(self.plugins, "columns"):
            columns |= {name: column.detach() for name, column in hook(rewards_N, advantage_NC, batch).items()}
        return columns

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
        extra: Mapping[str, torch.Tensor] | None = None,
    ) -> tuple[torch.Tensor, dict[str, float]]:
        """The slice's share of the step's loss, and its shares of the logged means; sum both over micro-batches.

        aggregate(weight * policy loss) + sum of aggregate(regulariser), where the importance weights of
        `rollout_correction` are part of the weight. extra: what `self.extra` asked of the pass that made policy_NC.

        Where the batch has no old_NC the update is on policy: old equals the policy's value before the step, which is
        the value of policy_NC itself. Its detached copy gives the ratio 1 with the gradient of the ratio, exact, and
        saves the forward pass that would compute old.
        """
        mask_NC = self.loss_mask(batch_slice)
        old_NC = policy_NC if batch_slice.old_NC is None else batch_slice.old_NC
        inputs = LossInput(
            policy_NC, old_NC.detach(), advantage_NC, mask_NC, batch_slice, self.settings, dict(extra or {})
        )
        loss_NC, stats = self._policy_loss(inputs)
        weight_NC, weight_stats = self._corrected(weight_NC.detach(), inputs)
        extra_NC, extra_stats = self._regularise(inputs)
        loss_NC = weight_NC * loss_NC
        if self._has_row_weights:
            row_weight_N1 = self._row_weights(batch_slice, "loss_weight")
            loss_NC, extra_NC = row_weight_N1 * loss_NC, None if extra_NC is None else row_weight_N1 * extra_NC
        policy_loss = self._aggregate(loss_NC, mask_NC, denom)
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
        settings, batch, stats = self.settings, inputs.batch, {}
        if settings.rollout_correction != "none":
            found = rollout_correction(inputs.old_NC, batch.rollout_NC, batch.mask_NC, settings=settings)
            weight_NC, stats = weight_NC * found.weight_NC, found.stats()
        if settings.rollout_rejection != "none":
            kept_NC = rejection(inputs.old_NC, batch.rollout_NC, batch.mask_NC, settings=settings)
            weight_NC, stats = weight_NC * kept_NC, {**stats, "rejected": kept_NC == 0}
        if (delta := settings.off_policy_delta) is not None:
            grids = (inputs.policy_NC, batch.rollout_NC, inputs.advantage_NC, batch.mask_NC)
            kept_NC = off_policy_mask(*grids, delta=delta).expand_as(weight_NC)
            weight_NC, stats = weight_NC * kept_NC, {**stats, "off_policy_masked": kept_NC == 0}
        return weight_NC, stats

    def _regularise(self, inputs: LossInput) -> tuple[torch.Tensor | None, TokenStats]:
        """The sum of what is added to the policy term, or None, and what is logged of it."""
        settings, batch = self.settings, inputs.batch
        terms: list[torch.Tensor] = []
        stats: TokenStats = {}
        if settings.ref_kl_coef and settings.ref_kl_in == "loss":
            assert batch.ref_NC is not None, "needs contains ref"
            kl_NC = ref_kl(inputs.policy_NC, batch.ref_NC, estimator=settings.ref_kl_estimator)
            if settings.ref_kl_importance:
                kl_NC = kl_NC * inputs.log_ratio_NC.exp()
            terms.append(self._kl.coef * kl_NC)
            stats["ref_kl"] = kl_NC
        if settings.entropy_coef:
            terms.append(-settings.entropy_coef * inputs.extra["entropy"])
            stats["entropy"] = inputs.extra["entropy"]
        if "returns_NC" in batch.meta:
            error_NC, more = value_loss(inputs)
            terms.append(settings.value.coef * error_NC)
            stats |= more
        for hook in chain(self.plugins, "regulariser"):
            loss_NC, more = hook(inputs)
            terms.append(loss_NC)
            stats |= more
        return functools.reduce(torch.add, terms) if terms else None, stats

    @property
    def _has_row_weights(self) -> bool:
        return bool(self.settings.by_task or self.settings.by_dataset)

    def _row_weights(self, batch: RolloutBatch, key: str) -> torch.Tensor:
        """(N, 1): the weight of each row's task times that of its dataset."""
        tasks, datasets, default = self.settings.by_task, self.settings.by_dataset, RowWeights()
        weights = [
            getattr(tasks.get(task, default), key) * getattr(datasets.get(dataset, default), key)
            for task, dataset in zip(batch.task, batch.dataset, strict=True)
        ]
        return torch.tensor(weights)[:, None]

    def _aggregate(self, loss_NC: torch.Tensor, mask_NC: torch.Tensor, denom: Denominator) -> torch.Tensor:
        if hook := self._single("aggregate"):
            return hook(loss_NC, mask_NC, denom)
        return aggregate(loss_NC, mask_NC, mode=self.settings.aggregation, denom=denom)

    def model_loss(self, name: str, logprobs_NC: torch.Tensor, batch: RolloutBatch) -> torch.Tensor:
        """(N,) the loss of a model beside the policy, of each completion, differentiable in its log-probs."""
        hook = self._single("model_loss")
        assert hook is not None, "a model learns only beside a plug-in with this hook"
        return hook(name, logprobs_NC, batch)

    def on_step_end(self, batch: RolloutBatch, rewards_N: torch.Tensor, metrics: dict[str, float]) -> None:
        self._steer_kl(batch, metrics)
        for hook in chain(self.plugins, "on_step_end"):
            hook(batch, rewards_N, metrics)

    def _steer_kl(self, batch: RolloutBatch, metrics: dict[str, float]) -> None:
        """Log the divergence in the reward, and let the coefficient follow what was measured."""
        if not self.settings.ref_kl_coef:
            return
        if self.settings.ref_kl_in == "reward":
            metrics["reward/ref_kl"] = self._kl.measured()
        if self._kl.adapts:
            metrics["policy/ref_kl_coef"] = self._kl.coef
            [completions] = sum_over_ranks([len(batch)])
            kl = metrics.get("reward/ref_kl", metrics.get("policy/ref_kl", 0.0))
            self._kl.update(kl, completions=completions)

    def state_dict(self) -> dict[str, Any]:
        """JSON-able state of all plug-ins, by name, and the coefficient where it is steered."""
        state = {plugin.name: plugin.state_dict() for plugin in self.plugins}
        return {**state, _KL_STATE: {"coef": self._kl.coef}} if self._kl.adapts else state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore; raises CheckpointError when the checkpoint was written with other plug-ins."""
        of_plugins = {name: value for name, value in state.items() if name != _KL_STATE}
        names = [plugin.name for plugin in self.plugins]
        if sorted(of_plugins) != sorted(names):
            raise CheckpointError(
                f"the checkpoint holds state of the plug-ins {sorted(of_plugins)}, but 'algorithm.plugins' is {names}"
            )
        for plugin in self.plugins:
            plugin.load_state_dict(of_plugins[plugin.name])
        if self._kl.adapts and _KL_STATE in state:
            self._kl.coef = state[_KL_STATE]["coef"]


def _require(batch: RolloutBatch, needs: frozenset[str]) -> None:
    missing = [name for name in sorted(needs) if not batch.has(name)]
    assert not missing, f"the trainer did not compute {missing}, which the algorithm's `needs` ask for"


def _token_share(grid_NC: torch.Tensor, mask_NC: torch.Tensor, denom: Denominator) -> torch.Tensor:
    return torch.where(mask_NC, grid_NC.detach().double(), 0.0).sum() / max(denom.tokens, 1)


def _drift(inputs: LossInput) -> TokenStats:
    """Mean log-prob distance from the policy before the update (k1)."""
    return {"old_kl": inputs.old_NC - inputs.policy_NC.detach()}
