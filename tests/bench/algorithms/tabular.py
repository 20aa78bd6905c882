"""A policy that is a table, and the tasks that it learns.

Every prompt has a softmax over the vocabulary for each place and token before it, so that the share of right answers is
a sum over all completions: no sampling error enters what is measured.

Shape letters: P prompts, N completions, C completion tokens, V vocabulary, S all completions there are.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from mmrl.algorithms.requests import argument
from mmrl.config.section import Combine
from mmrl.data.sample import Sample

Tensor = torch.Tensor


@dataclass(frozen=True)
class Rows:
    """Completions: the prompt of each, its tokens, which of them there are, and the step they were sampled in."""

    prompt_N: Tensor
    ids_NC: Tensor
    mask_NC: Tensor
    step: int = 0


def letters(ids: Sequence[int]) -> str:
    """Tokens as text."""
    return "".join("abcdefgh"[token] for token in ids)


@dataclass(frozen=True)
class Task:
    """start: logits (P, C, V, V) by prompt, place, token before, token. truth: what an answer is worth, (N,).

    verdict: the reward that is seen of it, by default the truth. parts: further reward parts, of weight 0. columns:
    what rewards return beside their value, (N,) or (N, C). end: the token after which nothing follows.
    own, common: whether prompts have logits of their own that are trained, and ones that all share.
    hints: other views of a prompt, each with what it adds to the logit of token 0; blur multiplies their logits.
    questions: only so many first prompts are drawn and measured, the others are asked by methods; None: all.
    of_prompt: a prompt's columns in the dataset. task_of: its task. clip: its medium, whose black frames are a view.
    shown: tokens as text. words: texts as tokens. thought: tokens before the mark of an answer. asked: the prompt that
    a method's own sample is.
    """

    start: Callable[[torch.Generator], Tensor]
    truth: Callable[[Rows], Tensor]
    verdict: Callable[[Rows, Tensor, torch.Generator], Tensor] = lambda rows, true_N, generator: true_N
    parts: Callable[[Rows, Tensor, torch.Generator], Mapping[str, Tensor]] = lambda rows, true_N, generator: {}
    columns: Callable[[Rows, Tensor, torch.Generator], Mapping[str, Tensor]] = lambda rows, true_N, generator: {}
    end: int | None = None
    own: bool = True
    common: bool = False
    hints: Sequence[float] = ()
    blur: float = 1.0
    questions: int | None = None
    of_prompt: Callable[[int], Mapping[str, Any]] = lambda prompt: {}
    task_of: Callable[[int], str] = lambda prompt: "t"
    clip: Callable[[int], Any] | None = None
    shown: Callable[[Sequence[int]], str] = letters
    words: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    thought: int = 0
    asked: Callable[[Sample], int] | None = None


@dataclass(frozen=True)
class Arm:
    """How a task is trained. settings: of `algorithm:`. lr: per prompt and token of a step.

    unit: every step has the length lr * sqrt(prompts * tokens), whatever the size of the advantages; else it is lr
    times the gradient. prompts: per step; None: all. rollouts: the run ends once as many were sampled; None: after
    `steps`. tokens: the same, but after `steps` at the latest. lag: steps by which the sampler's weights are older.
    reward: the part that is the reward. combine: the parts but the verdict make the reward so (`rewards.combine`).
    rated: before training every prompt is answered so often, and those with no right answer or only such are left out.
    shares: of the draws by parts of equal size.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    group: int = 8
    lr: float = 1.0
    unit: bool = False
    steps: int = 40
    prompts: int | None = None
    rollouts: int | None = None
    tokens: int | None = None
    lag: int = 0
    reward: str = "reward"
    combine: Combine | None = None
    rated: int = 0
    shares: tuple[float, ...] = ()


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
        trained = ((self.task.own, self.own), (True, self.value), (self.task.common, self.common))
        return [tensor for is_trained, tensor in trained if is_trained]

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
        logits = self.own + self.common
        if not self.task.hints:
            return logits.log_softmax(-1)[prompt % len(self.own), place, before]
        logits_NCV, view_N = logits[prompt % len(self.own), place, before], prompt[:, 0] // len(self.own)
        hint_N1V = torch.zeros(len(prompt), 1, logits_NCV.shape[-1])
        hint_N1V[..., 0] = torch.tensor([0.0, *self.task.hints])[view_N][:, None]
        blur_N11 = torch.where(view_N > 0, self.task.blur, 1.0)[:, None, None]
        return (blur_N11 * logits_NCV + hint_N1V).log_softmax(-1)

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
        elif name.startswith("hidden:"):
            return logits_NCV.detach() * rows.mask_NC[..., None]
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
        if self.worth_N is None:
            self.worth_N = self.task.truth(rows)
        questions = self.task.questions or len(self.own)
        chance_N = torch.where(rows.prompt_N < questions, self.logprobs(rows).sum(1).exp() / questions, 0.0)
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
