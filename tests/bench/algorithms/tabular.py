"""A policy that is a table, trained through `mmrl.algorithms.algorithm.Algorithm` as a stage trains a model.

Every prompt has a softmax over the vocabulary for each place and token before it, so that the share of right answers is
a sum over all completions: no sampling error enters what is measured. The step calls the hooks in the order of
`mmrl.algorithms.hooks`; the optimizer is plain SGD, whose step has the size of the advantages, as no Adam hides it.

Shape letters: P prompts, N completions, C completion tokens, V vocabulary, S all completions there are.
"""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import torch

from mmrl.algorithms.algorithm import Algorithm, build_algorithm
from mmrl.algorithms.requests import argument
from mmrl.algorithms.rollout_batch import RolloutBatch, concatenate
from mmrl.config.schema import AlgorithmSection

Tensor = torch.Tensor


@dataclass(frozen=True)
class Rows:
    """Completions: the prompt of each, its tokens, which of them there are, and the step they were sampled in."""

    prompt_N: Tensor
    ids_NC: Tensor
    mask_NC: Tensor
    step: int = 0


@dataclass(frozen=True)
class Task:
    """start: logits (P, C, V, V) by prompt, place, token before, token. truth: what an answer is worth, (N,).

    verdict: the reward that is seen of it, by default the truth. parts: further reward parts, of weight 0. columns:
    what rewards return beside their value, (N,) or (N, C). hints: what each adds to the logit of token 0. end: the
    token after which nothing follows. common: whether all prompts have logits in common beside their own.
    """

    start: Callable[[torch.Generator], Tensor]
    truth: Callable[[Rows], Tensor]
    verdict: Callable[[Rows, Tensor, torch.Generator], Tensor] = lambda rows, true_N, generator: true_N
    parts: Callable[[Rows, Tensor, torch.Generator], Mapping[str, Tensor]] = lambda rows, true_N, generator: {}
    columns: Callable[[Rows, Tensor, torch.Generator], Mapping[str, Tensor]] = lambda rows, true_N, generator: {}
    hints: Sequence[float] = ()
    end: int | None = None
    common: bool = False


@dataclass(frozen=True)
class Arm:
    """How a task is trained. settings: of `algorithm:`. lr: per prompt and token of a step.

    prompts: per step; None: all. rollouts: the run ends once as many were sampled; None: after `steps`. lag: steps by
    which the sampler's weights are older.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    group: int = 8
    lr: float = 1.0
    steps: int = 40
    prompts: int | None = None
    rollouts: int | None = None
    lag: int = 0


@dataclass
class Result:
    """success: the exact mean worth of an answer before training and after each step. tokens: sampled by the engine.

    length: mean tokens of an answer at the end. trained: completions in the loss. logs: the metrics of each step.
    """

    success: list[float]
    policy: Policy
    start: Policy
    rollouts: int = 0
    trained: int = 0
    tokens: int = 0
    length: float = 0.0
    logs: list[dict[str, float]] = field(default_factory=list)

    @property
    def final(self) -> float:
        return self.success[-1]

    @property
    def mean(self) -> float:
        """Over the run: how fast it learns."""
        return sum(self.success[1:]) / max(len(self.success) - 1, 1)


class Policy:
    """The tables: own logits of prompts, those in common, and a value head."""

    def __init__(self, own: Tensor, *, task: Task) -> None:
        self.own, self.task = own.clone().requires_grad_(), task
        self.common = torch.zeros_like(own[0]).requires_grad_()
        self.value = torch.zeros(own.shape[:3]).requires_grad_()
        self.worth_N: Tensor | None = None  # of all completions there are

    @property
    def tensors(self) -> list[Tensor]:
        return [self.own, self.value, *([self.common] if self.task.common else [])]

    def copy(self) -> Policy:
        other = Policy(self.own.detach(), task=self.task)
        other.common = self.common.detach().clone().requires_grad_()
        other.value = self.value.detach().clone().requires_grad_()
        return other

    def _places(self, rows: Rows) -> tuple[Tensor, Tensor, Tensor]:
        before_NC = torch.nn.functional.pad(rows.ids_NC[:, :-1], (1, 0))
        return rows.prompt_N[:, None], torch.arange(rows.ids_NC.shape[1])[None], before_NC

    def distributions(self, rows: Rows) -> Tensor:
        """Log-probs of every token at each place, (N, C, V)."""
        prompt, place, before = self._places(rows)
        logits_NCV = self.own[prompt % len(self.own), place, before] + self.common[place, before]
        if self.task.hints:
            hint_N1V = torch.zeros(len(prompt), 1, logits_NCV.shape[-1])
            hint_N1V[..., 0] = torch.tensor([0.0, *self.task.hints])[prompt // len(self.own)]
            logits_NCV = logits_NCV + hint_N1V
        return logits_NCV.log_softmax(-1)

    def values(self, rows: Rows) -> Tensor:
        prompt, place, before = self._places(rows)
        return self.value[prompt % len(self.own), place, before] * rows.mask_NC

    def logprobs(self, rows: Rows) -> Tensor:
        found_NC = self.distributions(rows).gather(-1, rows.ids_NC[..., None])[..., 0]
        return torch.where(rows.mask_NC, found_NC, 0.0)

    def request(self, name: str, rows: Rows) -> Tensor:
        """As `mmrl.algorithms.requests` defines them."""
        if name == "value":
            return self.values(rows)
        logits_NCV = self.distributions(rows)
        if name == "entropy":
            grid = -(logits_NCV.exp() * logits_NCV).sum(-1)
        elif name == "mean_logprob":
            grid = logits_NCV.mean(-1).detach()
        elif name.startswith("min_p:"):
            low = logits_NCV.amax(-1, keepdim=True) + torch.tensor(argument(name)).log()
            cut_NCV = torch.where(logits_NCV >= low, logits_NCV, -torch.inf).log_softmax(-1)
            grid = cut_NCV.gather(-1, rows.ids_NC[..., None])[..., 0].detach()
        elif name.startswith("top:"):
            values, likely = logits_NCV.detach().topk(min(int(argument(name)), logits_NCV.shape[-1]))
            return torch.cat([likely.float(), values], -1) * rows.mask_NC[..., None]
        else:
            raise ValueError(f"a table has no {name!r}")
        return torch.where(rows.mask_NC, grid, 0.0)

    @torch.no_grad()
    def success(self) -> tuple[float, float]:
        """The mean worth and the mean length of an answer, exactly."""
        rows = every(self.own.shape, end=self.task.end)
        chance_N = self.logprobs(rows).sum(1).exp() / len(self.own)
        if self.worth_N is None:
            self.worth_N = self.task.truth(rows)
        return (chance_N * self.worth_N).sum().item(), (chance_N * rows.mask_NC.sum(1)).sum().item()


def every(shape: Sequence[int], *, end: int | None = None) -> Rows:
    """All completions of all prompts."""
    return _every(*shape[:3], end)


@functools.cache
def _every(prompts: int, places: int, vocab: int, end: int | None) -> Rows:
    ids_SC = torch.tensor(list(itertools.product(range(vocab), repeat=places)))
    mask_SC = mask_of(ids_SC, end=end)
    ids_SC = (ids_SC * mask_SC).unique(dim=0) if end is not None else ids_SC
    mask_SC = mask_of(ids_SC, end=end)
    prompt_N = torch.arange(prompts).repeat_interleave(len(ids_SC))
    return Rows(prompt_N, ids_SC.repeat(prompts, 1), mask_SC.repeat(prompts, 1))


def mask_of(ids_NC: Tensor, *, end: int | None) -> Tensor:
    """Tokens up to and with the first `end`."""
    if end is None:
        return torch.ones_like(ids_NC, dtype=torch.bool)
    ended_NC = (ids_NC == end).cumsum(1)
    return (ended_NC == 0) | ((ended_NC == 1) & (ids_NC == end))


@torch.no_grad()
def sample(
    policy: Policy,
    prompt_N: Tensor,
    generator: torch.Generator,
    *,
    step: int,
    greedy: bool = False,
    forced: Sequence[Sequence[int]] = (),
) -> Rows:
    """One completion of each prompt; forced: the first tokens of each."""
    places = policy.own.shape[1]
    ids_NC = torch.zeros(len(prompt_N), places, dtype=torch.int64)
    ones_NC = torch.ones_like(ids_NC, dtype=torch.bool)
    for place in range(places):
        logits_NV = policy.distributions(Rows(prompt_N, ids_NC, ones_NC))[:, place]
        # Inverse sampling, so that two policies draw the same where they agree.
        sums_NV = logits_NV.softmax(-1).cumsum(-1)
        drawn_N = (torch.rand(len(prompt_N), 1, generator=generator) > sums_NV).sum(1).clamp(max=sums_NV.shape[1] - 1)
        ids_NC[:, place] = logits_NV.argmax(-1) if greedy else drawn_N
        for row, prefix in enumerate(forced):
            if place < len(prefix):
                ids_NC[row, place] = prefix[place]
    mask_NC = mask_of(ids_NC, end=policy.task.end)
    return Rows(prompt_N, ids_NC * mask_NC, mask_NC, step)


@dataclass
class Drawn:
    """What a `prefixes` hook is given: `mmrl.training.drawn.Drawn` over a table."""

    policy: Policy
    prompt_ids: list[str]
    n: tuple[int, ...]
    seed: int

    @property
    def most_tokens(self) -> int:
        return self.policy.own.shape[1]

    def seed_of(self, prompt: int, purpose: str) -> int:
        return hash((self.seed, prompt)) % 2**31

    def _rows(self, prompts: Sequence[int], completions: Sequence[Sequence[int]], more: int = 0) -> Rows:
        ids_NC = torch.zeros(len(prompts), self.most_tokens, dtype=torch.int64)
        mask_NC = torch.zeros_like(ids_NC, dtype=torch.bool)
        for row, ids in enumerate(completions):
            ids_NC[row, : len(ids)] = torch.tensor(ids, dtype=torch.int64)
            mask_NC[row, : len(ids) + more] = True
        return Rows(torch.tensor([number_of(self.prompt_ids[p]) for p in prompts], dtype=torch.int64), ids_NC, mask_NC)

    @torch.no_grad()
    def logprobs(self, prompts: Sequence[int], completions: Sequence[Sequence[int]]) -> Tensor:
        return self.policy.logprobs(self._rows(prompts, completions))

    @torch.no_grad()
    def next_logprobs(self, prompts: Sequence[int], prefixes: Sequence[Sequence[int]]) -> Tensor:
        if not prompts:
            return torch.zeros(0, 0)
        places = torch.tensor([len(ids) for ids in prefixes])
        return self.policy.distributions(self._rows(prompts, prefixes, 1))[torch.arange(len(prefixes)), places]


@dataclass(frozen=True)
class SecondRound:
    """What a `second_round` hook is given: `mmrl.training.second_round.SecondRound` over a table.

    The prompt with hint k has the prompt's number plus k times the number of prompts: the same logits, and the hint.
    """

    sampled: Callable[..., RolloutBatch]
    numbers_P: Tensor
    task: Task
    prompts: int

    def __call__(
        self,
        gids: Sequence[int],
        *,
        n: int = 1,
        greedy: bool = False,
        prefix_ids: Sequence[Sequence[Sequence[int]]] = (),
    ) -> RolloutBatch:
        prompts = [int(self.numbers_P[gid]) for gid in gids]
        return self._of(gids, prompts, n=n, greedy=greedy, prefix_ids=prefix_ids)

    def sample(self, gid: int) -> SimpleNamespace:
        return SimpleNamespace(columns={"hints": [str(k) for k in range(1, len(self.task.hints) + 1)]})

    def changed(self, gid: int, name: str, *, text: str) -> int:
        return int(self.numbers_P[gid]) + int(name.removeprefix("hint")) * self.prompts

    def others(self, gids: Sequence[int], prompts: Sequence[int], *, n: int = 1) -> RolloutBatch:
        return self._of(gids, prompts, n=n)

    def _of(
        self,
        gids: Sequence[int],
        prompts: Sequence[int],
        *,
        n: int,
        greedy: bool = False,
        prefix_ids: Sequence[Sequence[Sequence[int]]] = (),
    ) -> RolloutBatch:
        gid_N, prompt_N = (torch.tensor(list(x), dtype=torch.int64).repeat_interleave(n) for x in (gids, prompts))
        forced = [ids for of_group in prefix_ids for ids in of_group]
        return self.sampled(prompt_N, gid_N, greedy=greedy, forced=forced)


def number_of(prompt_id: str) -> int:
    return int(prompt_id.removeprefix("d/"))


@dataclass(eq=False)
class Pool:
    """What a `draw` hook is given: `mmrl.data.pool.Pool` over the prompts, which have no columns."""

    prompts: int
    own_order: Callable[[int], list[int]]
    progress: float = 0.0

    def __len__(self) -> int:
        return self.prompts

    def row_of(self, prompt_id: str) -> int:
        return number_of(prompt_id)


class Trainer:
    """One run. The sampler may be older than the policy; the reference is the policy at the start."""

    def __init__(self, task: Task, arm: Arm, seed: int) -> None:
        self.task, self.arm = task, arm
        self.policy = Policy(task.start(torch.Generator().manual_seed(1000 + seed)), task=task)
        self.reference = self.policy.copy()
        self.prompts, self.places = self.policy.own.shape[:2]
        self.per_step = arm.prompts or self.prompts
        section = AlgorithmSection(**dict(arm.settings))
        self.algorithm: Algorithm = build_algorithm(section, max_new_tokens=self.places)
        self.chance = torch.Generator().manual_seed(seed)
        self.verdicts = torch.Generator().manual_seed(2000 + seed)
        self.order = torch.Generator().manual_seed(3000 + seed)
        self.older: list[Policy] = []
        self.waiting: list[int] = []
        self.pool, self.drawing = Pool(self.prompts, self._own_order), random.Random(4000 + seed)
        self.seed, self.step = seed, 0
        first, length = self.policy.success()
        self.result = Result([first], self.policy, self.reference, length=length)

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
        return self.step < self.arm.steps

    def _own_order(self, count: int) -> list[int]:
        while len(self.waiting) < count:
            self.waiting += torch.randperm(self.prompts, generator=self.order).tolist()
        drawn, self.waiting = self.waiting[:count], self.waiting[count:]
        return drawn

    def _next_prompts(self, count: int) -> list[str]:
        self.pool.progress = self.step / self.arm.steps
        draw = self.algorithm.draw
        drawn = self._own_order(count) if draw is None else draw(self.pool, count, self.drawing)
        return [f"d/{number}" for number in drawn]

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
        return RolloutBatch(
            prompt_id=tuple(f"d/{number}" for number in prompt_N.tolist()),
            gid_N=gid_N,
            ids_NC=rows.ids_NC,
            mask_NC=rows.mask_NC,
            rollout_NC=rollout_NC,
            rewards_NK=torch.stack([part.float() for part in parts.values()], 1),
            reward_names=tuple(parts),
            weights_NK=torch.tensor([1.0] + [0.0] * (len(parts) - 1)),
            truncated_N=self._truncated(rows),
            version_N=torch.full_like(gid_N, self.step - len(self.older)),
            policy_version=self.step,
            task=("t",) * len(prompt_N),
            dataset=("d",) * len(prompt_N),
            meta={**self.task.columns(rows, true_N, self.verdicts), **self._reported(rows)},
            step=self.step,
            total_steps=self.arm.steps,
        )

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
        rows, grids = rows_of(batch), {}
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

        batch = self.algorithm.second_round(batch, SecondRound(self._sampled, numbers_P, self.task, self.prompts))
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
        part, rows = batch.select(of_update_N), rows_of(batch.select(of_update_N))
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
        groups = len(part.gid_N.unique())
        with torch.no_grad():
            for tensor, gradient in zip(self.policy.tensors, gradients, strict=True):
                if gradient is not None:
                    tensor -= self.arm.lr * groups * self.places * gradient
        return self.algorithm.step_metrics(sums)


def rows_of(batch: RolloutBatch) -> Rows:
    prompt_N = torch.tensor([number_of(name) for name in batch.prompt_id])
    return Rows(prompt_N, batch.ids_NC, batch.mask_NC, batch.step)


def train(task: Task, arm: Arm, seed: int) -> Result:
    return Trainer(task, arm, seed).run()
