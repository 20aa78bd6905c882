"""Reinforcement-learning stage: sample groups, reward them, update the policy. GRPO, or what the hooks make of it.

Shape letters: P prompts, N sequences (completions of all prompts), C completion tokens.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from mmrl.algorithms.aggregate import joined
from mmrl.algorithms.algorithm import build_algorithm
from mmrl.algorithms.batch import Row
from mmrl.algorithms.requests import is_request
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.schema import StageSection
from mmrl.data.loader import Loader
from mmrl.data.rendered import RenderedPrompt
from mmrl.errors import EngineError
from mmrl.models.packing import group_rows, separate_rows
from mmrl.rollout.sampling import derive_seed
from mmrl.training import distributed
from mmrl.training.agreement import GapMeter, gap_problem
from mmrl.training.beside import Beside
from mmrl.training.collect import Collector
from mmrl.training.feature_gap import feature_gap
from mmrl.training.on_policy import sampled_by_trainer
from mmrl.training.reference import open_reference
from mmrl.training.runtime import Runtime
from mmrl.training.source import RolloutSource
from mmrl.training.step import Grids, logprob_pass, optimizer_step


class GrpoStage:
    """One batch of scored groups per step, and `updates_per_batch` optimizer steps on each pass over it."""

    def __init__(self, run: Runtime, section: StageSection, loader: Loader) -> None:
        self.run, self.section, self.loader = run, section, loader
        self.algorithm = build_algorithm(run.config.algorithm, max_new_tokens=run.config.rollout.max_new_tokens)
        self.settings = run.logprob_settings(temperature=run.config.rollout.temperature)
        self.reference = open_reference(run, section) if "ref" in self._all_needs() else None
        self.beside = Beside(run, self.algorithm, self.settings)
        self.source = RolloutSource(run, section, loader, self.algorithm)
        self.collector = Collector(run, section, self.source, self.algorithm, self._add_logprobs)
        self.gaps, self._warned = GapMeter(run.config.rollout), False
        self._reused = self._moved = False  # in this step: no pass for old log-probs; the policy has been updated

    def step(self, number: int) -> dict[str, float]:
        self._reused = self._moved = False
        collected = self.collector.collect(number)
        self.source.begin(number + 1)
        rewards_N, prompts = collected.rewards_N, collected.prompts
        batch = self._add_logprobs(collected.batch, prompts, self.algorithm.needs)
        gap = {} if self.run.feature_gap_known else self._feature_gap(batch, prompts)
        advantage_NC = self.algorithm.advantage(rewards_N, batch)
        batch = replace(batch, meta={**batch.meta, **self.algorithm.columns(rewards_N, advantage_NC, batch)})
        stats = [self._update(batch.select(rows), prompts) for rows in self._updates(batch, number=number)]
        self.run.updated()
        metrics = {**collected.metrics, **mean_of(stats), **self._agreement(number), **gap}
        metrics |= {"policy/old_reused": float(self._reused)} if "old" in self._all_needs() else {}
        metrics |= self.beside.learn(batch, lambda: self._rows(batch, prompts))
        self.algorithm.on_step_end(batch, rewards_N, metrics)
        return metrics

    def state_dict(self) -> dict[str, Any]:
        return {"loader": self.source.loader_state(), "algorithm": self.algorithm.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.loader.load_state_dict(state["loader"])
        self.algorithm.load_state_dict(state["algorithm"])

    def _feature_gap(self, batch: RolloutBatch, prompts: Mapping[str, RenderedPrompt]) -> dict[str, float]:
        shape = (len(batch), batch.mask_NC.shape[1])
        return feature_gap(self.run, self._rows(batch, prompts), self.settings, shape=shape)

    def _all_needs(self) -> frozenset[str]:
        return self.algorithm.needs | self.algorithm.needs_early

    def _updates(self, batch: RolloutBatch, *, number: int) -> Iterator[torch.Tensor]:
        """Row indices of each optimizer step: whole groups, in an order drawn anew for each pass over the batch.

        As many steps on every rank: where another one has groups left, a rank without any takes the step with no row.
        """
        settings, groups = self.algorithm.settings, batch.gid_N.unique().tolist()
        most = max(distributed.gather_objects(len(groups)))
        for epoch in range(settings.epochs_per_batch):
            random.Random(derive_seed(self.run.config.seed, self.section.name, number, epoch)).shuffle(groups)
            for part in range(min(settings.updates_per_batch, most)):
                chosen = torch.tensor(groups[part :: settings.updates_per_batch], dtype=torch.long)
                yield torch.isin(batch.gid_N, chosen).nonzero().flatten()

    def _update(self, batch: RolloutBatch, prompts: Mapping[str, RenderedPrompt]) -> dict[str, float]:
        """One optimizer step on these groups. The loss is a share of the mean over all ranks' tokens."""
        own = self.algorithm.denominator(batch)
        denom, requests = joined(distributed.gather_objects(own), own=own), sorted(self.algorithm.extra)

        def loss(policy_NC: torch.Tensor, sequences: torch.Tensor, extra: Grids) -> tuple[torch.Tensor, dict]:
            rows = batch.select(sequences)
            self._add_gap(policy_NC, rows)
            advantage_NC, weight_NC = rows.meta["advantage"], rows.meta["weight"]
            return self.algorithm.loss(policy_NC, rows, advantage_NC, weight_NC, denom=denom, extra=extra)

        with self.run.watch.time("update"):
            rows, width = self._rows(batch, prompts), batch.mask_NC.shape[1]
            how = {"settings": self.settings, "num_tokens": width, "requests": requests}
            sums = optimizer_step(self.run.trainer, rows, loss, **how)
        self._moved = True
        return self.algorithm.step_metrics(sums)

    def _add_gap(self, policy_NC: torch.Tensor, rows: RolloutBatch) -> None:
        """Where old log-probs are the sampler's own, the trainer's are those of the first update."""
        if rows.old_NC is None or self._reused or self.algorithm.settings.old_logprobs == "sampler":
            if not self._moved:
                self.gaps.add(policy_NC, rows)
        else:
            self.gaps.add(rows.old_NC, rows)

    @property
    def _may_reuse(self) -> bool:
        return self.algorithm.settings.old_logprobs == "auto"

    def _agreement(self, number: int) -> dict[str, float]:
        """Distances of trainer and sampler in the step. One that is too large is said once a stage, or ends the run."""
        metrics, worst = self.gaps.take()
        problem = gap_problem(worst, self.run.config.rollout)
        if problem is None:
            return metrics
        message = f"step {number + 1} of stage {self.section.name!r}: {problem}"

        def refuse() -> None:
            raise EngineError(message)

        if self.run.config.rollout.on_logprob_gap == "error":
            distributed.on_main(refuse)
        if not self._warned:
            self.run.warnings.append(message)
        self._warned = True
        return metrics

    def _add_logprobs(
        self, batch: RolloutBatch, prompts: Mapping[str, RenderedPrompt], names: frozenset[str]
    ) -> RolloutBatch:
        """The batch with those of old, ref, models beside and the requests that are asked for and not there yet."""
        if self.algorithm.settings.old_logprobs == "sampler" and batch.old_NC is None:
            batch = replace(batch, old_NC=batch.rollout_NC)
        wanted = sorted(name for name in names if not batch.has(name))
        requests = [name for name in wanted if is_request(name)]
        if "old" in wanted and not requests and self._may_reuse and sampled_by_trainer(batch, self.run):
            batch, self._reused = replace(batch, old_NC=batch.rollout_NC), True
            wanted.remove("old")
        if not wanted:
            return batch
        rows, shape = self._rows(batch, prompts), (len(batch), batch.mask_NC.shape[1])
        with self.run.watch.time("logprobs"):
            if requests or "old" in wanted:
                old_NC, extra = logprob_pass(
                    self.run.trainer, rows, settings=self.settings, shape=shape, requests=requests
                )
                old_NC = _with_recorded(old_NC, batch) if batch.old_NC is None else batch.old_NC
                batch = batch.with_grids({**extra, "old": old_NC})
            if "ref" in wanted:
                ref_NC, _ = logprob_pass(self.reference, rows, settings=self.settings, shape=shape)
                batch = batch.with_grids({"ref": ref_NC})
            return self.beside.with_logprobs(batch, rows, wanted)

    def _rows(self, batch: RolloutBatch, prompts: Mapping[str, RenderedPrompt]) -> list[Row]:
        """Packed rows of the batch: rows of a group with one prompt share it where configuration and family allow."""
        train, rows = self.run.config.train, []
        lengths = batch.length_N.tolist()
        members_of: dict[tuple[int, str], list[int]] = {}
        for n, key in enumerate(zip(batch.gid_N.tolist(), batch.prompt_id, strict=True)):
            members_of.setdefault(key, []).append(n)
        for (_, name), members in sorted(members_of.items()):
            prompt = prompts[name]
            completions = [batch.ids_NC[n, : lengths[n]].tolist() for n in members]
            if train.shared_prefix and self.run.processor.family.shares_prefix:
                rows += group_rows(prompt, completions, members, max_tokens=train.micro_batch_tokens)
            else:
                rows += separate_rows(prompt, completions, members)
        return rows


def _with_recorded(old_NC: torch.Tensor, batch: RolloutBatch) -> torch.Tensor:
    """Old log-probs, those that were recorded for rows of earlier steps."""
    is_replay_N = torch.tensor([kind == "replay" for kind in batch.kind or ("fresh",) * len(batch)])
    return torch.where(is_replay_N[:, None], batch.rollout_NC.to(old_NC), old_NC)


def mean_of(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Mean of each key over the optimizer steps of one batch."""
    return {key: math.fsum(row[key] for row in rows) / len(rows) for key in (rows[0] if rows else ())}
