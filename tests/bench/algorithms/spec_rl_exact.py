"""Whether completions made from drafts have the present policy's distribution, by Pearson's chi-square test."""

from __future__ import annotations

from collections import Counter

import torch
from bench.algorithms.claim import plugin
from bench.algorithms.rounds import Drawn
from bench.algorithms.tabular import Policy, Rows, Task, Tensor, every, sample
from bench.algorithms.tasks import target

from mmrl.algorithms.algorithm import build_algorithm
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.schema import AlgorithmSection

DRAFTS = 40_000
QUANTILE_95 = {1: 3.841, 63: 82.529}  # of chi-square, by degrees of freedom


def made(before: Tensor, now: Tensor, *, official: bool = False, seed: int = 0) -> Tensor:
    """How often each completion of one prompt comes, (S,): drafts by the table `before`, then `now`; lenience 1."""
    task = Task(lambda generator: now, target)
    old, policy = Policy(before[None], task=task), Policy(now[None], task=task)
    settings = plugin("spec_rl", lenience=1.0, official=official)
    algorithm = build_algorithm(AlgorithmSection(**settings), max_new_tokens=len(now))
    generator = torch.Generator().manual_seed(seed)
    drafts = sample(old, torch.zeros(DRAFTS, dtype=torch.int64), generator, step=0)
    algorithm.on_step_end(_visited(old, drafts), torch.zeros(DRAFTS), {})
    [prefixes] = algorithm.prefixes(Drawn(policy, ["d/0"], (DRAFTS,), seed))
    rows = sample(policy, drafts.prompt_N, generator, step=1, forced=prefixes)
    seen = Counter(map(tuple, rows.ids_NC.tolist()))
    return torch.tensor([seen[tuple(ids)] for ids in every((1, *now.shape)).ids_NC.tolist()], dtype=torch.float64)


def _visited(policy: Policy, rows: Rows) -> RolloutBatch:
    with torch.no_grad():
        logprobs_NC, top = policy.logprobs(rows), policy.request("top:8", rows)
    size = len(rows.prompt_N)
    return RolloutBatch(
        prompt_id=("d/0",) * size,
        gid_N=rows.prompt_N,
        ids_NC=rows.ids_NC,
        mask_NC=rows.mask_NC,
        rollout_NC=logprobs_NC,
        rewards_NK=torch.zeros(size, 1),
        reward_names=("reward",),
        weights_NK=torch.ones(1),
        truncated_N=torch.zeros(size, dtype=torch.bool),
        old_NC=logprobs_NC,
        meta={"top:8": top},
    )


@torch.no_grad()
def chi_square(count_S: Tensor, table: Tensor) -> float:
    """Of the counts against the distribution of the table."""
    policy = Policy(table[None], task=Task(lambda generator: table, target))
    expected_S = policy.logprobs(every((1, *table.shape))).sum(1).exp().double() * count_S.sum()
    return ((count_S - expected_S) ** 2 / expected_S).sum().item()


def tables(places: int, vocab: int, seed: int) -> Tensor:
    return torch.randn(places, vocab, vocab, generator=torch.Generator().manual_seed(seed))


def rows() -> list[str]:
    """Of a markdown table, the two tokens of rl.md's numbers and completions of three tokens."""
    half, skewed = torch.zeros(1, 2, 2), torch.tensor([0.7, 0.3]).log().expand(1, 2, 2)
    found = []
    for form, official, predicted in (
        ("lenience 1", False, "0.70, 0.30"),
        ("lenience 1, `official`", True, "0.64, 0.36"),
    ):
        count_S = made(half, skewed, official=official)
        shares = ", ".join(f"{share:.4f}" for share in (count_S / DRAFTS).tolist())
        value = chi_square(count_S, skewed)
        found.append(f"| {form} | q (.5, .5), p (.7, .3) | {predicted} | {shares} | {_verdict(value, 1)} |")
    before, now = tables(3, 4, 1), tables(3, 4, 2)
    for form, official, predicted in (("lenience 1", False, "p"), ("lenience 1, `official`", True, "not p")):
        value = chi_square(made(before, now, official=official), now)
        found.append(f"| {form} | two random tables, 3 tokens of 4 | {predicted} | | {_verdict(value, 63)} |")
    return found


def _verdict(value: float, freedom: int) -> str:
    bound = QUANTILE_95[freedom]
    return f"{value:.1f} ({freedom} degrees of freedom; {'below' if value < bound else 'above'} the 95 % bound {bound})"
