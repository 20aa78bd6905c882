"""Filling the batch of a reinforcement-learning step: prompts, completions, rewards, and which groups are kept.

Shape letters: P prompts, N sequences (completions), C completion tokens, K reward parts.
"""

from __future__ import annotations

import functools
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from mmrl.algorithms.advantages import group_stats
from mmrl.algorithms.algorithm import Algorithm
from mmrl.algorithms.rollout_batch import Rewards, RolloutBatch, batch_from_groups, concatenate
from mmrl.algorithms.shaping import Shaped
from mmrl.config.schema import StageSection
from mmrl.data.prepare import Prepared
from mmrl.data.rendered import RenderedPrompt
from mmrl.errors import RewardError
from mmrl.training import distributed
from mmrl.training.columns import Decode, columns_of, reported
from mmrl.training.drawn import prompt_id
from mmrl.training.metrics import means_over_ranks
from mmrl.training.prompts import rank_share
from mmrl.training.rollouts import ScoredRollouts, alternatives_of, rollout_rows
from mmrl.training.runtime import Runtime
from mmrl.training.second_round import SecondRound
from mmrl.training.source import RolloutSource, Round

# Adds old, ref or entropy to a batch: (batch, prompts by prompt id, names) -> batch
AddLogprobs = Callable[[RolloutBatch, Mapping[str, RenderedPrompt], frozenset[str]], RolloutBatch]


@dataclass(frozen=True)
class Collected:
    """The kept rows of a step. prompts: by `batch.prompt_id`."""

    batch: RolloutBatch
    rewards_N: torch.Tensor
    prompts: dict[str, RenderedPrompt]
    metrics: dict[str, float]


@dataclass(frozen=True)
class Collector:
    """Fills batches for one stage."""

    run: Runtime
    section: StageSection
    source: RolloutSource
    algorithm: Algorithm
    add_logprobs: AddLogprobs

    def collect(self, number: int) -> Collected:
        """Rounds of generation until enough groups are kept; one round unless the algorithm refills its batch."""
        wanted = rank_share(self.section.prompts_per_step)
        batches: list[RolloutBatch] = []
        rewards: list[torch.Tensor] = []
        prompts: dict[str, RenderedPrompt] = {}
        values: dict[str, list[float]] = defaultdict(list)
        missing = wanted
        while True:
            # A rank whose share is full takes part in the rounds of the others, with one prompt more.
            groups = max(1, missing)
            batch, rewards_N = self._round(groups, seed=(number, len(batches)), prompts=prompts, values=values)
            batches.append(batch)
            rewards.append(rewards_N)
            self._refuse_unscored(means_over_ranks({"unscored": values["reward/unscored"]}), number=number)
            missing = distributed.together(lambda: self._missing(batches, wanted=wanted))
            if not distributed.any_rank(missing):
                break
        batch, rewards_N = concatenate(batches), torch.cat(rewards)
        if self.algorithm.refills:
            in_share_N = _first_groups(batch, wanted)
            batch, rewards_N = batch.select(in_share_N), rewards_N[in_share_N]
        batch, rewards_N = self.algorithm.replay(batch, rewards_N)
        [tokens] = distributed.sum_over_ranks([float(batch.mask_NC.sum())])
        metrics = {**means_over_ranks(values), "groups/rounds": float(len(batches)), "tokens": tokens}
        metrics |= staleness(batch)
        return Collected(batch, rewards_N, prompts, metrics)

    def _refuse_unscored(self, means: Mapping[str, float], *, number: int) -> None:
        """RewardError, naming the rewards, when no completion of the step has a score: there is nothing to learn from.

        Chance fails single completions; what fails them all is the reward, and such a run would end well untaught.
        """
        if means.get("unscored") != 1.0:
            return

        def refuse() -> None:
            failures = " | ".join(self.run.reward_events.values()) or "an algorithm plug-in gave no reward"
            fact = f"step {number + 1} of stage {self.section.name!r}: no completion could be scored: {failures}"
            raise RewardError(f"{fact}; mend the reward, `mmrl score` tries it out")

        distributed.on_main(refuse)

    def _missing(self, batches: Sequence[RolloutBatch], *, wanted: int) -> int:
        """Groups that this rank still has to generate. Raises what `missing_groups` raises."""
        if not self.algorithm.refills:
            return 0
        kept = sum(len(batch.gid_N[~_recycled(batch)].unique()) for batch in batches)
        return self.algorithm.missing_groups(kept, wanted=wanted, rounds=len(batches))

    def _round(
        self,
        groups: int,
        *,
        seed: tuple[int, int],
        prompts: dict[str, RenderedPrompt],
        values: dict[str, list[float]],
    ) -> tuple[RolloutBatch, torch.Tensor]:
        """Generate, score and filter up to `groups` groups. Adds to `prompts` and to the logged `values`."""
        drawn = self.source.next_round(groups, seed=seed)
        with self.source.sampling(drawn):
            rolled, batch, prepared = distributed.together(lambda: self._sampled(drawn))
        prompts.update({prompt_id(item): item.prompt for item in prepared})
        batch = self.add_logprobs(batch, prompts, self.algorithm.needs_early)
        shaped = distributed.together(lambda: self.algorithm.shape_rewards(batch))
        batch = replace(batch, token_rewards_NC=shaped.token_rewards_NC)
        keep_N = self.algorithm.keep(batch, shaped.rewards_N)
        log_rollouts(rolled, batch, shaped.rewards_N, values=values)
        log_shaping(batch, shaped, {prompt_id(item): item.sample.task for item in prepared}, values=values)
        self._write_samples(rolled)
        return batch.select(keep_N), shaped.rewards_N[keep_N]

    def _sampled(self, drawn: Round) -> tuple[ScoredRollouts, RolloutBatch, list[Prepared]]:
        """Scored completions of this rank's prompts, the batch of them with what second rounds added, and all prompts
        there then are.
        """
        rolled = self.source.sample(drawn)
        batch = self._batch(rolled, number=drawn.seed[0])
        generate = self._second_round(drawn)
        return rolled, self.algorithm.second_round(batch, generate), generate.prepared

    def _batch(self, rolled: ScoredRollouts, *, number: int) -> RolloutBatch:
        decode = functools.partial(self.run.processor.decode, skip_special_tokens=True)
        alternatives = alternatives_of(self.algorithm.reports)
        batch = as_batch(rolled, decode, step=number, total_steps=self.section.steps, alternatives=alternatives)
        return replace(batch, policy_version=self.run.policy_version)

    def _second_round(self, drawn: Round) -> SecondRound:
        return SecondRound(
            run=self.run,
            section=self.section,
            prepared=list(drawn.prepared),
            seed=drawn.seed,
            progress=self.source.progress(drawn.seed[0]),
            to_batch=functools.partial(self._batch, number=drawn.seed[0]),
        )

    def _write_samples(self, rolled: ScoredRollouts) -> None:
        if not distributed.is_main():
            return
        for row in rollout_rows(rolled, limit=self.run.config.log.rollouts_per_step):
            self.run.rollouts_log.write({"stage": self.section.name, "split": "train", **row})


def _recycled(batch: RolloutBatch) -> torch.Tensor:
    """Rows of prompts that a hook made: they come with the others and fill no place of theirs."""
    return torch.tensor([kind == "recycled" for kind in batch.kind or ("fresh",) * len(batch)], dtype=torch.bool)


def _first_groups(batch: RolloutBatch, wanted: int) -> torch.Tensor:
    """Rows of the first `wanted` groups, and those that hooks made."""
    recycled_N = _recycled(batch)
    return recycled_N | torch.isin(batch.gid_N, batch.gid_N[~recycled_N].unique()[:wanted])


def staleness(batch: RolloutBatch) -> dict[str, float]:
    """Mean and largest number of versions by which the policy is ahead of the samplers, over the rows of all ranks."""
    ages = [age for part in distributed.gather_objects(batch.staleness_N.tolist()) for age in part]
    return {"rollout/staleness": sum(ages) / len(ages), "rollout/staleness_max": float(max(ages))} if ages else {}


def as_batch(
    rolled: ScoredRollouts, decode: Decode, *, step: int, total_steps: int, alternatives: int = 0
) -> RolloutBatch:
    """The arrays the algorithm works on; groups are numbered in the order of their prompts.

    decode: from token ids to the text that the rewards were given. alternatives: reported for each token.
    """
    scores = rolled.scores
    rewards = Rewards(
        torch.from_numpy(np.where(scores.applies_NK, scores.values_NK, np.nan)),
        torch.from_numpy(scores.weights_NK),
        scores.names,
        combined_N=torch.from_numpy(scores.rewards_N),
    )
    ids = [prompt_id(item) for item in rolled.prepared]
    batch = batch_from_groups(rolled.groups, ids, rewards=rewards, step=step, total_steps=total_steps)
    completions = [completion for group in rolled.groups for completion in group.completions]
    ids_of = [completion.ids for completion in completions]
    meta = columns_of(scores.extras, scores.columns, ids_of, decode, width=batch.mask_NC.shape[1])
    meta |= reported(completions, alternatives=alternatives, width=batch.mask_NC.shape[1])
    samples = [rolled.prepared[group].sample for group in batch.gid_N.tolist()]
    names = {"task": tuple(s.task for s in samples), "dataset": tuple(s.dataset for s in samples)}
    return replace(batch, **names, meta=meta)


def _log_parts(rolled: ScoredRollouts, *, values: dict[str, list[float]]) -> None:
    """Per task and part: value, shares at 0 and at 1, of errors and of time-outs, seconds of a completion."""
    scores = rolled.scores
    tasks = [
        item.sample.task for item, size in zip(rolled.prepared, scores.group_sizes, strict=True) for _ in range(size)
    ]
    for row, task in enumerate(tasks):
        for part, value in scores.row_breakdown(row).items():
            values[f"reward/part/{task}/{part}"].append(value)
        for column in scores.applies_NK[row].nonzero()[0].tolist():
            place, value = f"{task}/{scores.names[column]}", float(scores.values_NK[row, column])
            if not math.isnan(value):
                values[f"reward/at_0/{place}"].append(float(value == 0))
                values[f"reward/at_1/{place}"].append(float(value == 1))
            values[f"reward/errors/{place}"].append(float(scores.errors_NK[row, column]))
            values[f"reward/timeouts/{place}"].append(float(scores.timeouts_NK[row, column]))
            values[f"perf/reward_seconds/{place}"].append(float(scores.seconds_NK[row, column]))


def log_rollouts(
    rolled: ScoredRollouts, batch: RolloutBatch, rewards_N: torch.Tensor, *, values: dict[str, list[float]]
) -> None:
    """Add what a round gave to the logged values: rewards per task and part, lengths, groups without signal."""
    for index, item in enumerate(rolled.prepared):
        task = item.sample.task
        for reward in rolled.scores.rewards[index]:
            values["reward/mean"].append(reward)
            values[f"reward/task/{task}"].append(reward)
    _log_parts(rolled, values=values)
    stats = group_stats(rewards_N, batch.gid_N)
    values["groups/zero_std"] += stats.constant_N.float().tolist()
    values["groups/reward_std"] += stats.std_N.tolist()
    values["completion/length"] += batch.length_N.float().tolist()
    values["completion/truncated"] += batch.truncated_N.float().tolist()
    values["reward/unscored"] += rewards_N.isnan().float().tolist()
    for event, count in rolled.scores.events.items():
        values[f"reward/event/{event}"] += [float(count)]


def log_shaping(
    batch: RolloutBatch, shaped: Shaped, tasks: Mapping[str, str], *, values: dict[str, list[float]]
) -> None:
    """Add what is trained on, and what each step of shaping changed, per task; nothing where nothing shapes.

    tasks: by `batch.prompt_id`.
    """
    if not shaped.changes:
        return
    for row, name in enumerate(batch.prompt_id):
        reward = shaped.rewards_N[row].item()
        values["reward_shaped/mean"].append(reward)
        values[f"reward_shaped/task/{tasks[name]}"].append(reward)
        for step, change_N in shaped.changes.items():
            values[f"reward_shaped/change/{tasks[name]}/{step}"].append(change_N[row].item())
