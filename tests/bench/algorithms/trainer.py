"""Trains a table through `mmrl.algorithms.algorithm.Algorithm` as a stage trains a model.

A step calls the hooks in the order of `mmrl.algorithms.hooks`; the optimizer is plain SGD, whose step has the size of
the advantages, as no Adam hides it (`Arm.unit` does).

Shape letters: P prompts, N completions, C completion tokens, K reward parts.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace

import torch
from bench.algorithms.rounds import Drawn, Pool, SecondRound, number_of, sample_of
from bench.algorithms.tabular import Arm, Policy, Result, Rows, Task, Tensor, sample

from mmrl.algorithms.algorithm import Algorithm, build_algorithm
from mmrl.algorithms.rollout_batch import RolloutBatch, concatenate
from mmrl.config.schema import AlgorithmSection
from mmrl.scoring.combine import PartRule, TaskRule, rewards_of_group


class Trainer:
    """One run. The sampler may be older than the policy; the reference is the policy at the start."""

    def __init__(self, task: Task, arm: Arm, seed: int) -> None:
        self.task, self.arm = task, arm
        self.policy = Policy(task.start(torch.Generator().manual_seed(1000 + seed)), task=task)
        self.reference = self.policy.copy()
        self.prompts, self.places = task.questions or len(self.policy.own), self.policy.own.shape[1]
        self.per_step = arm.prompts or self.prompts
        section = AlgorithmSection(**dict(arm.settings))
        self.algorithm: Algorithm = build_algorithm(section, max_new_tokens=self.places)
        self.chance = torch.Generator().manual_seed(seed)
        self.verdicts = torch.Generator().manual_seed(2000 + seed)
        self.order = torch.Generator().manual_seed(3000 + seed)
        self.older: list[Policy] = []
        self.waiting: list[int] = []
        self.named: dict[str, int] = {}  # prompts that were asked beside those of the table
        self.pool, self.drawing = Pool(task, self.prompts, self._own_order), random.Random(4000 + seed)
        self.seed, self.step = seed, 0
        first, length = self.policy.success()
        self.result = Result([first], self.policy, self.reference, length=length)
        self.drawn_from = self._rated() if arm.rated else list(range(self.prompts))

    def run(self) -> Result:
        while self._goes_on():
            self._step()
            self.step += 1
            success, self.result.length = self.policy.success()
            self.result.success.append(success)
        return self.result

    def _goes_on(self) -> bool:
        if self.arm.rollouts is not None:
            return self.result.rollouts < self.arm.rollouts
        if self.arm.tokens is not None:
            return self.result.tokens < self.arm.tokens and self.step < self.arm.steps
        return self.step < self.arm.steps

    def _rated(self) -> list[int]:
        """The prompts that have right and wrong answers among `rated`, which are counted as rollouts."""
        prompt_N = torch.arange(self.prompts).repeat_interleave(self.arm.rated)
        rows = sample(self.policy, prompt_N, torch.Generator().manual_seed(5000 + self.seed), step=0)
        self.result.rollouts += len(prompt_N)
        right_PG = self.task.truth(rows).reshape(self.prompts, self.arm.rated)
        return ((right_PG.mean(1) > 0) & (right_PG.mean(1) < 1)).nonzero().flatten().tolist()

    def _own_order(self, count: int) -> list[int]:
        if self.arm.shares:
            return self._by_shares(count)
        while len(self.waiting) < count:
            order = torch.randperm(len(self.drawn_from), generator=self.order).tolist()
            self.waiting += [self.drawn_from[place] for place in order]
        drawn, self.waiting = self.waiting[:count], self.waiting[count:]
        return drawn

    def _by_shares(self, count: int) -> list[int]:
        parts, size = len(self.arm.shares), self.prompts // len(self.arm.shares)
        part_N = torch.multinomial(torch.tensor(self.arm.shares), count, replacement=True, generator=self.order)
        assert size * parts == self.prompts
        return (part_N * size + torch.randint(size, (count,), generator=self.order)).tolist()

    def _next_prompts(self, count: int) -> list[str]:
        self.pool.progress = self.step / self.arm.steps
        draw = self.algorithm.draw
        drawn = self._own_order(count) if draw is None else draw(self.pool, count, self.drawing)
        return [f"d/{self._shown(number)}" for number in drawn]

    def _shown(self, prompt: int) -> int:
        """The prompt, or its view of so many black frames."""
        if self.algorithm.frames is None or self.task.clip is None:
            return prompt
        entry = self.task.clip(prompt)
        frames_F3HW = self.algorithm.frames(sample_of(self.task, prompt), entry, self.pool.progress)
        black = 0 if frames_F3HW is None else int((frames_F3HW == 0).flatten(1).all(1).sum())
        return prompt + black * len(self.policy.own)

    @property
    def _sampler(self) -> Policy:
        return self.older[0] if self.older else self.policy

    def _sampled(
        self, prompt_N: Tensor, gid_N: Tensor, *, greedy: bool = False, forced: Sequence[Sequence[int]] = ()
    ) -> RolloutBatch:
        """Completions as scored rows."""
        rows = sample(self._sampler, prompt_N, self.chance, step=self.step, greedy=greedy, forced=forced)
        with torch.no_grad():
            rollout_NC = self._sampler.logprobs(rows)
            true_N = self.task.truth(rows)
        self.result.rollouts += len(rows.prompt_N)
        kept = sum(min(len(ids), int(rows.mask_NC[row].sum())) for row, ids in enumerate(forced))
        self.result.tokens += int(rows.mask_NC.sum()) - kept
        parts = {
            "reward": self.task.verdict(rows, true_N, self.verdicts),
            **self.task.parts(rows, true_N, self.verdicts),
        }
        parts_NK = torch.stack([part.float() for part in parts.values()], 1)
        return RolloutBatch(
            prompt_id=tuple(f"d/{number}" for number in prompt_N.tolist()),
            gid_N=gid_N,
            ids_NC=rows.ids_NC,
            mask_NC=rows.mask_NC,
            rollout_NC=rollout_NC,
            rewards_NK=parts_NK,
            reward_names=tuple(parts),
            weights_NK=torch.tensor([float(name == self.arm.reward) for name in parts]),
            combined_N=None if self.arm.combine is None else self._combined(parts_NK, gid_N),
            truncated_N=self._truncated(rows),
            version_N=torch.full_like(gid_N, self.step - len(self.older)),
            policy_version=self.step,
            task=tuple(self.task.task_of(number) for number in prompt_N.tolist()),
            dataset=("d",) * len(prompt_N),
            meta={**self.task.columns(rows, true_N, self.verdicts), **self._reported(rows)},
            step=self.step,
            total_steps=self.arm.steps,
        )

    def _combined(self, parts_NK: Tensor, gid_N: Tensor) -> Tensor:
        rule = TaskRule(tuple(PartRule(k) for k in range(1, parts_NK.shape[1])), combine=self.arm.combine or "sum")
        reward_N = torch.zeros(len(gid_N))
        for gid in gid_N.unique():
            reward_N[gid_N == gid] = torch.from_numpy(rewards_of_group(parts_NK[gid_N == gid].numpy(), rule)).float()
        return reward_N

    @torch.no_grad()
    def _reported(self, rows: Rows) -> dict[str, Tensor]:
        """What hooks ask the engine to say of each token."""
        names = {"entropy": "rollout_entropy", "alternatives": "alternatives"}
        return {
            names[report.partition(":")[0]]: self._sampler.request(report.replace("alternatives", "top"), rows)
            for report in self.algorithm.reports
        }

    def _truncated(self, rows: Rows) -> Tensor:
        if self.task.end is None:
            return torch.zeros(len(rows.prompt_N), dtype=torch.bool)
        return ~((rows.ids_NC == self.task.end) & rows.mask_NC).any(1)

    def _with(self, batch: RolloutBatch, needs: frozenset[str]) -> RolloutBatch:
        """The batch with what a hook asked for; replayed rows keep their recorded log-probs as old."""
        rows, grids = self._rows(batch), {}
        with torch.no_grad():
            for name in sorted(need for need in needs if not batch.has(need)):
                if name == "old":
                    grids[name] = self.policy.logprobs(rows)
                elif name == "ref":
                    grids[name] = self.reference.logprobs(rows)
                else:
                    grids[name] = self.policy.request(name, rows)
        if "old" in grids and batch.kind:
            is_replay_N1 = torch.tensor([kind == "replay" for kind in batch.kind])[:, None]
            grids["old"] = torch.where(is_replay_N1, batch.rollout_NC, grids["old"])
        if self.algorithm.settings.old_logprobs == "sampler" and "old" in grids:
            grids["old"] = batch.rollout_NC
        return batch.with_grids(grids)

    def _round(self, groups: int) -> tuple[RolloutBatch, Tensor]:
        names = self._next_prompts(groups)
        names = [names[i] for i in self.algorithm.sampler(names, self.order).tolist()]
        n_P = self.algorithm.budget(names, self.arm.group)
        numbers_P = torch.tensor([number_of(name) for name in names])
        drawn = Drawn(self._sampler, names, tuple(n_P.tolist()), hash((self.seed, self.step)) % 2**31)
        prefixes = self.algorithm.prefixes(drawn)
        forced = [ids for of_prompt in prefixes for ids in of_prompt]
        gid_N = torch.arange(len(names)).repeat_interleave(n_P)
        batch = self._sampled(numbers_P[gid_N], gid_N, forced=forced)

        batch = self.algorithm.second_round(batch, SecondRound(self._sampled, numbers_P, self.policy, self.named))
        batch = self._with(batch, self.algorithm.needs_early)
        shaped = self.algorithm.shape_rewards(batch)
        batch = replace(batch, token_rewards_NC=shaped.token_rewards_NC)
        keep_N = self.algorithm.keep(batch, shaped.rewards_N)
        return batch.select(keep_N), shaped.rewards_N[keep_N]

    def _step(self) -> None:
        batches, rewards, missing = [], [], self.per_step
        while missing:
            batch, rewards_N = self._round(missing)
            batches.append(batch)
            rewards.append(rewards_N)
            kept = sum(len(batch.gid_N.unique()) for batch in batches)
            missing = max(self.per_step - kept, 0) if self.algorithm.refills and len(batches) < 10 else 0
        self.older = [*self.older, self.policy.copy()][-self.arm.lag :] if self.arm.lag else []
        batch, rewards_N = concatenate(batches), torch.cat(rewards)
        batch, rewards_N = self.algorithm.replay(batch, rewards_N)
        metrics = self._trained(batch, rewards_N) if len(batch) else {}
        self.result.logs.append(metrics)

    def _trained(self, batch: RolloutBatch, rewards_N: Tensor) -> dict[str, float]:
        algorithm = self.algorithm
        batch = self._with(batch, algorithm.needs)
        advantage_NC = algorithm.advantage(rewards_N, batch)
        batch = replace(batch, meta={**batch.meta, **algorithm.columns(rewards_N, advantage_NC, batch)})
        metrics: dict[str, float] = {}
        for _ in range(algorithm.settings.epochs_per_batch):
            for share in batch.gid_N.unique().chunk(algorithm.settings.updates_per_batch):
                metrics = self._update(batch, advantage_NC, torch.isin(batch.gid_N, share))
        self.result.trained += len(batch)
        algorithm.on_step_end(batch, rewards_N, metrics)
        return metrics

    def _update(self, batch: RolloutBatch, advantage_NC: Tensor, of_update_N: Tensor) -> dict[str, float]:
        part = batch.select(of_update_N)
        rows = self._rows(part)
        extra = {name: self.policy.request(name, rows) for name in self.algorithm.extra}
        weight_NC = part.meta["weight"]
        loss, sums = self.algorithm.loss(
            self.policy.logprobs(rows),
            part,
            advantage_NC[of_update_N],
            weight_NC,
            denom=self.algorithm.denominator(part),
            extra=extra,
        )
        gradients = torch.autograd.grad(loss, self.policy.tensors, allow_unused=True)
        size = len(part.gid_N.unique()) * self.places
        if self.arm.unit:
            norm = math.sqrt(sum(float((gradient**2).sum()) for gradient in gradients if gradient is not None))
            size = math.sqrt(size) / norm if norm > 1e-12 else 0.0
        with torch.no_grad():
            for tensor, gradient in zip(self.policy.tensors, gradients, strict=True):
                if gradient is not None:
                    tensor -= self.arm.lr * size * gradient
        return self.algorithm.step_metrics(sums)

    def _rows(self, batch: RolloutBatch) -> Rows:
        numbers = [self.named[name] if name in self.named else number_of(name) for name in batch.prompt_id]
        return Rows(torch.tensor(numbers), batch.ids_NC, batch.mask_NC, batch.step)


def train(task: Task, arm: Arm, seed: int) -> Result:
    return Trainer(task, arm, seed).run()
