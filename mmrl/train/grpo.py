"""Reinforcement-learning stage: sample groups, reward them, update the policy. GRPO, or what the hooks make of it.

Shape letters: P prompts, G group size, N = P * G sequences, C completion tokens, K reward parts.
"""

from __future__ import annotations

from mmrl.algorithms.algorithm import build_algorithm
from mmrl.config.schema import StageSection
from mmrl.data.loader import Loader
from mmrl.train.collect import collect
from mmrl.train.runtime import Runtime


class GrpoStage:
    """One batch of scored groups per step, and `updates_per_batch` optimizer steps on it per pass."""

    def __init__(self, run: Runtime, section: StageSection, loader: Loader) -> None:
        self.run, self.section, self.loader = run, section, loader
        self.algorithm = build_algorithm(run.config.algorithm, max_new_tokens=run.config.rollout.max_new_tokens)
        self.settings = run.logprob_settings(temperature=run.config.rollout.temperature)
        self.reference = open_reference(run, section) if "ref" in self.algorithm.needs else None

    def step(self, number: int) -> dict[str, float]:
        collected = collect(self.run, self.section, self.loader, self.algorithm, number=number)
        with self.run.watch.time("logprobs"):
            batch = self._add_logprobs(collected)
        advantage_NC = self.algorithm.advantage(collected.rewards_N, batch)
        weight_NC = self.algorithm.token_weight(advantage_NC, batch)
        with self.run.watch.time("update"):
            stats = self._update(batch, collected.rows, advantage_NC=advantage_NC, weight_NC=weight_NC, number=number)
        self.run.sync_policy()
        metrics = {**collected.metrics, **stats}
        self.algorithm.on_step_end(batch, collected.rewards_N, metrics)
        return metrics
