"""Where the completions of a stage come from: prompts are drawn and answered, for the first round of a step perhaps
during the step before.

With `rollout.steps_ahead` a thread samples step t + 1 while step t trains. The engine has the weights from before step
t by then, so these completions are one version older than the policy that learns from them. The thread runs
`Engine.generate` and hands finished groups to the workers that score; prompts are drawn, weights sent and scores
collected by the main one, which alone calls anything collective.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from typing import Any

import torch

from mmrl.algorithms.algorithm import Algorithm
from mmrl.config.schema import StageSection
from mmrl.data.loader import Loader
from mmrl.data.prepare import Prepared
from mmrl.data.rendered import with_pixels
from mmrl.rollout.sampling import derive_seed
from mmrl.rollout.types import Request
from mmrl.training import distributed
from mmrl.training.drawn import Drawn, prompt_id
from mmrl.training.prompts import next_prompts, rank_share
from mmrl.training.rollouts import (
    Rollouts,
    RolloutSpec,
    ScoredRollouts,
    generated,
    requests_for,
    sampling_of,
    scored,
)
from mmrl.training.runtime import Runtime
from mmrl.training.schedule import checkpoint_due, validation_due
from mmrl.training.second_round import redrawn


@dataclass(frozen=True)
class Round:
    """This rank's prompts of a round, what is asked for them, and their completions where these were sampled ahead."""

    prepared: tuple[Prepared, ...]
    seed: tuple[int, int]
    requests: tuple[Request, ...]
    rollouts: Rollouts | None = None


@dataclass(frozen=True)
class _Ahead:
    """A round that is being sampled.

    loader_state: before its prompts were drawn. awake: keeps the engine from sleeping until it is closed.
    """

    round: Round
    rollouts: Future[Rollouts]
    loader_state: dict[str, Any]
    awake: ExitStack


class RolloutSource:
    """Draws the prompts of a stage and has them answered."""

    def __init__(self, run: Runtime, section: StageSection, loader: Loader, algorithm: Algorithm) -> None:
        self.run, self.section, self.loader, self.algorithm = run, section, loader, algorithm
        self._ahead: _Ahead | None = None
        if algorithm.draw is not None:
            loader.draw_by(algorithm.draw)

    def next_round(self, groups: int, *, seed: tuple[int, int]) -> Round:
        """The prompts of a round, at most `groups` for this rank. seed: number of the step, and of the round in it.

        A round that was begun ahead is waited for; what its engine raised is raised here, on all ranks.
        """
        if self._ahead is None:
            return self._draw(groups, seed=seed)
        assert self._ahead.round.seed == seed, "what was sampled ahead is the next round"
        with self.run.watch.time("wait"):
            return distributed.together(self._finished)

    def sample(self, drawn: Round) -> ScoredRollouts:
        """The scored completions of a round. Its engine must be sampling, unless they are there already."""
        progress = self.progress(drawn.seed[0])
        rollouts = drawn.rollouts or generated(self.run, drawn.prepared, drawn.requests, progress=progress)
        return scored(self.run, rollouts)

    def sampling(self, drawn: Round) -> AbstractContextManager[Any]:
        """Within the block this round, and second rounds of it, may be sampled."""
        if drawn.rollouts is not None and not self.algorithm.has_second_rounds:
            return ExitStack()
        return self.run.sampling()

    def begin(self, number: int) -> None:
        """Sample the first round of step `number` from now on, with the present weights, if there is to be one."""
        if not self._goes_on(number):
            return
        loader_state = self.loader.state_dict()
        drawn = self._draw(rank_share(self.section.prompts_per_step), seed=(number, 0))
        awake = ExitStack()
        awake.enter_context(self.run.sampling())
        progress = self.progress(number)
        rollouts = self.run.background.submit(generated, self.run, drawn.prepared, drawn.requests, progress=progress)
        self._ahead = _Ahead(drawn, rollouts, loader_state, awake)

    def loader_state(self) -> dict[str, Any]:
        """The loader's state for a checkpoint. Prompts that are being answered ahead are drawn again after a resume."""
        return self.loader.state_dict() if self._ahead is None else self._ahead.loader_state

    def progress(self, number: int) -> float:
        """The share of the stage's steps that are done when step `number` begins."""
        return number / self.section.steps

    def _goes_on(self, number: int) -> bool:
        """Whether step `number` may be sampled during the one before it: nothing is under way at checkpoints, and the
        engine is free for validations.
        """
        config, section = self.run.config, self.section
        pauses = validation_due(config, section, done=number) or checkpoint_due(config, section, done=number)
        return config.rollout.steps_ahead > 0 and not pauses

    def _draw(self, groups: int, *, seed: tuple[int, int]) -> Round:
        progress = self.progress(seed[0])
        self.loader.at(progress)
        prepared = self._choose(next_prompts(self.run, self.section, self.loader, count=groups), seed=seed)
        if self.algorithm.frames is not None:
            prepared = distributed.together(lambda: [self._redrawn(item, progress) for item in prepared])
        return Round(tuple(prepared), seed, tuple(self._requests(prepared, seed=seed)))

    def _requests(self, prepared: Sequence[Prepared], *, seed: tuple[int, int]) -> list[Request]:
        """What is asked of the engine for the prompts of a round. Called by all processes together."""
        rollout, names = self.run.config.rollout, [prompt_id(item) for item in prepared]
        n = distributed.together(lambda: tuple(self.algorithm.budget(names, rollout.group_size).tolist()))
        drawn = Drawn(self.run, tuple(prepared), n, seed=(self.run.config.seed, self.section.name, *seed))
        spec = RolloutSpec(
            n=n,
            sampling=sampling_of(rollout),
            seed=drawn.seed,
            prefix_ids=self.algorithm.prefixes(drawn),
            reports=self.algorithm.reports,
        )
        return requests_for(prepared, spec)

    def _redrawn(self, item: Prepared, progress: float) -> Prepared:
        """The prompt with the pixels that the hook gives its media: sampled and trained on so."""
        assert self.algorithm.frames is not None
        media = []
        for entry in item.prompt.media:
            pixels = with_pixels(entry)
            frames_F3HW = self.algorithm.frames(item.sample, pixels, progress)
            media.append(entry if frames_F3HW is None else redrawn(pixels, frames_F3HW))
        return replace(item, prompt=replace(item.prompt, media=tuple(media)))

    def _choose(self, prepared: Sequence[Prepared], *, seed: tuple[int, int]) -> list[Prepared]:
        generator = torch.Generator().manual_seed(derive_seed(self.run.config.seed, self.section.name, *seed))
        return [prepared[i] for i in self.algorithm.sampler([prompt_id(p) for p in prepared], generator).tolist()]

    def _finished(self) -> Round:
        assert self._ahead is not None
        ahead, self._ahead = self._ahead, None
        rollouts = ahead.rollouts.result()
        ahead.awake.close()
        return replace(ahead.round, rollouts=rollouts)
