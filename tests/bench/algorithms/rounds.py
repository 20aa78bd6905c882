"""What hooks are given by a stage, over a policy that is a table."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from bench.algorithms.tabular import Policy, Rows, Task, Tensor

from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.data.pool import Labels
from mmrl.data.sample import Message, Sample, TextPart


def number_of(prompt_id: str) -> int:
    return int(prompt_id.removeprefix("d/"))


def sample_of(task: Task, prompt: int) -> Sample:
    """A prompt as a row of a dataset; its right answer is the first token."""
    columns = dict(task.of_prompt(prompt))
    if task.hints:
        columns.setdefault("hints", [str(k) for k in range(1, len(task.hints) + 1)])
    messages = (Message("user", (TextPart(f"{prompt}?"),)),)
    return Sample(str(prompt), task.task_of(prompt), "text", messages, answer="a", columns=columns, dataset="d")


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

    def sample(self, prompt: int) -> Sample:
        return sample_of(self.policy.task, number_of(self.prompt_ids[prompt]))

    def encode(self, text: str) -> tuple[int, ...]:
        return self.policy.task.words[text]

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


@dataclass
class SecondRound:
    """What a `second_round` hook is given: `mmrl.training.second_round.SecondRound` over a table.

    View k of a prompt has the prompt's number plus k times the number of prompts: the same logits, and the hint.
    named: numbers of the prompts that were asked, by their prompt ids.
    """

    sampled: Callable[..., RolloutBatch]
    numbers_P: Tensor
    policy: Policy
    named: dict[str, int]
    _next_gid: Iterator[int] = field(init=False)

    def __post_init__(self) -> None:
        self._next_gid = itertools.count(len(self.numbers_P))

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

    @property
    def most_tokens(self) -> int:
        return self.policy.own.shape[1]

    def sample(self, gid: int) -> Sample:
        return sample_of(self.policy.task, int(self.numbers_P[gid]))

    def changed(self, gid: int, name: str, *, text: str = "", frames: object = None) -> int:
        """A hint by its number; other words or pixels are the first view."""
        view = int(name.removeprefix("hint")) if name.startswith("hint") else 1
        return int(self.numbers_P[gid]) + view * len(self.policy.own)

    def others(
        self,
        gids: Sequence[int],
        prompts: Sequence[int],
        *,
        n: int = 1,
        prefix_ids: Sequence[Sequence[Sequence[int]]] = (),
    ) -> RolloutBatch:
        return self._of(gids, prompts, n=n, prefix_ids=prefix_ids)

    def ask(self, samples: Sequence[Sample], *, n: int) -> RolloutBatch:
        assert self.policy.task.asked is not None
        numbers = [self.policy.task.asked(sample) for sample in samples]
        self.named.update({sample.prompt_id: number for sample, number in zip(samples, numbers, strict=True)})
        batch = self._of([next(self._next_gid) for _ in samples], numbers, n=n)
        names = tuple(sample.prompt_id for sample in samples for _ in range(n))
        return replace(batch, kind=("recycled",) * len(batch), prompt_id=names)

    def text(self, batch: RolloutBatch, row: int) -> str:
        return self.policy.task.shown(batch.ids_NC[row][batch.mask_NC[row]].tolist())

    def until(self, batch: RolloutBatch, row: int, mark: str) -> list[int]:
        return batch.ids_NC[row, : self.policy.task.thought].tolist()

    def encode(self, text: str, *, ends: bool = False) -> list[int]:
        return list(self.policy.task.words[text])

    def ends(self, ids: Sequence[int]) -> bool:
        return len(ids) == self.most_tokens

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


@dataclass(eq=False)
class Pool:
    """What a `draw` hook is given: `mmrl.data.pool.Pool` over the prompts."""

    task: Task
    prompts: int
    own_order: Callable[[int], list[int]]
    progress: float = 0.0

    def __len__(self) -> int:
        return self.prompts

    @property
    def rows(self) -> list[Sample]:
        return [sample_of(self.task, prompt) for prompt in range(self.prompts)]

    def column(self, name: str) -> np.ndarray:
        return np.array([row.columns[name] for row in self.rows], dtype=np.float64)

    def labels(self, column: str | None = None) -> Labels:
        texts: list[Any] = [row.task if column is None else row.columns[column] for row in self.rows]
        names = tuple(dict.fromkeys(texts))
        return Labels(names, np.array([names.index(text) for text in texts]))

    def row_of(self, prompt_id: str) -> int:
        return number_of(prompt_id) % self.prompts
