"""From prepared prompts to scored completions: the part that training and validation share.

Each group goes to the rewards' workers when the engine is done with it, so they score while it generates the others.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from mmrl.config.schema import RolloutSection
from mmrl.data.prepare import Prepared
from mmrl.rollout.sampling import derive_seed
from mmrl.rollout.types import Group, Request, Sampling
from mmrl.scoring.ongoing import Scoring
from mmrl.scoring.scores import Scores
from mmrl.training import distributed
from mmrl.training.runtime import Runtime


@dataclass(frozen=True)
class Rollouts:
    """Prompts with their completions, in the order of the prompts, whose scores may still be under way."""

    prepared: tuple[Prepared, ...]
    groups: tuple[Group, ...]
    scoring: Scoring


@dataclass(frozen=True)
class ScoredRollouts:
    """Prompts with their completions and scores, in the order of the prompts.

    scores.rewards[p][g] belongs to groups[p].completions[g] of prepared[p].
    """

    prepared: tuple[Prepared, ...]
    groups: tuple[Group, ...]
    scores: Scores

    @property
    def num_tokens(self) -> int:
        return sum(len(c.ids) for g in self.groups for c in g.completions)


@dataclass(frozen=True)
class RolloutSpec:
    """How completions are drawn.

    n: completions of each prompt. seed: parts that, with the sample's id, make each request's seed.
    prefix_ids: for each prompt the forced first tokens of each completion; empty: none forced.
    reports: what else completions say of each token: `entropy`, `alternatives:A` (mmrl.algorithms.hooks).
    progress: share of the stage's steps that are done, for rewards that change with it; 1 in validation.
    """

    n: tuple[int, ...]
    sampling: Sampling
    seed: tuple[int | str, ...]
    prefix_ids: tuple[tuple[tuple[int, ...], ...], ...] = ()
    reports: frozenset[str] = frozenset()
    progress: float = 1.0


def sampling_of(section: RolloutSection, *, greedy: bool = False) -> Sampling:
    """The sampler's settings as the configuration gives them."""
    return Sampling(
        temperature=section.temperature,
        top_p=section.top_p,
        top_k=section.top_k,
        min_p=section.min_p,
        max_new_tokens=section.max_new_tokens,
        stop=section.stop,
        greedy=greedy,
    )


def roll_out(run: Runtime, prepared: Sequence[Prepared], spec: RolloutSpec) -> ScoredRollouts:
    """Generate completions of every prompt and score them."""
    return scored(run, generated(run, prepared, requests_for(prepared, spec), progress=spec.progress))


def requests_for(prepared: Sequence[Prepared], spec: RolloutSpec) -> list[Request]:
    """What is asked of the engine for prompts, in their order.

    Prompts are dealt to the processes in turn; numbered so, a prompt has the seed it would have in one process.
    """
    numbers = range(distributed.rank(), len(prepared) * distributed.world_size(), distributed.world_size())
    return [
        Request(
            request_id=str(index),
            prompt=item.prompt,
            n=spec.n[index],
            sampling=spec.sampling,
            seed=derive_seed(*spec.seed, item.sample.dataset, item.sample.sample_id, numbers[index]),
            prefix_ids=spec.prefix_ids[index] if spec.prefix_ids else (),
            want_entropy="entropy" in spec.reports,
            top_alternatives=alternatives_of(spec.reports),
        )
        for index, item in enumerate(prepared)
    ]


def alternatives_of(reports: Collection[str]) -> int:
    """How many alternatives of each token are reported: the most that a plug-in asks for; 0: none."""
    return max((int(name.partition(":")[2]) for name in reports if name.startswith("alternatives:")), default=0)


def generated(
    run: Runtime, prepared: Sequence[Prepared], requests: Sequence[Request], *, progress: float = 1.0
) -> Rollouts:
    """Answer prompts by their requests, and have each group scored from when it is finished, as at that progress.

    Nothing here is collective or waits for a reward: it may run in a thread beside training.
    """
    expected = [(item.sample, request.n) for item, request in zip(prepared, requests, strict=True)]
    scoring, groups = run.router.start(expected, progress=progress), {}
    with run.watch.time("rollout"):
        for group in run.rollout.generate(requests):
            number = int(group.request.request_id)
            scoring.add({number: [completion.text for completion in group.completions]})
            groups[number] = group
    return Rollouts(tuple(prepared), tuple(groups[number] for number in sorted(groups)), scoring)


def scored(run: Runtime, rollouts: Rollouts) -> ScoredRollouts:
    """Completions with their scores, waited for; events of rewards are noted for the console."""
    with run.watch.time("score"):
        scores = rollouts.scoring.finish()
    run.reward_events = {**scores.messages, **run.reward_events}
    return ScoredRollouts(rollouts.prepared, rollouts.groups, scores)


def rollout_rows(rolled: ScoredRollouts, *, limit: int) -> list[dict]:
    """The first completion of up to `limit` prompts as JSON rows: what was asked, said and scored."""
    rows = []
    for index, (item, group) in enumerate(zip(rolled.prepared[:limit], rolled.groups, strict=False)):
        completion = group.completions[0]
        rows.append(
            {
                "sample_id": item.sample.sample_id,
                "dataset": item.sample.dataset,
                "task": item.sample.task,
                "completion": completion.text,
                "answer": item.sample.answer,
                "finish_reason": completion.finish_reason,
                "policy_version": completion.policy_version,
                "reward": rolled.scores.rewards[index][0],
                "reward_breakdown": rolled.scores.breakdown_of(index, 0),
            }
        )
    return rows
