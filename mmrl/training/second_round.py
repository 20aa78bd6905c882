"""What a `second_round` hook is given: more completions for the groups of a round, and for prompts that it makes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch

from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.schema import StageSection
from mmrl.data.prepare import Prepared
from mmrl.data.sample import Sample
from mmrl.errors import ConfigError, did_you_mean
from mmrl.training.rollouts import RolloutSpec, ScoredRollouts, roll_out, sampling_of
from mmrl.training.runtime import Runtime, stage_data


@dataclass(eq=False)
class SecondRound:
    """Generates with the present weights. prepared: the prompts of the round by their gid, then those that were asked.

    seed: number of the step, and of the round in it. to_batch: scored completions as rows.
    """

    run: Runtime
    section: StageSection
    prepared: list[Prepared]
    seed: tuple[int, int]
    progress: float
    to_batch: Callable[[ScoredRollouts], RolloutBatch]
    _calls: int = field(default=0, init=False)

    def __call__(
        self,
        gids: Sequence[int],
        *,
        n: int = 1,
        greedy: bool = False,
        prefix_ids: Sequence[tuple[tuple[int, ...], ...]] = (),
    ) -> RolloutBatch:
        """n more completions of each group, as a batch with these gid_N.

        prefix_ids: for each gid the forced first tokens of each of its n completions.
        """
        # The first call has the seed of a single one; a further one must not draw the same again.
        again = (self._calls,) if self._calls else ()
        self._calls += 1
        spec = RolloutSpec(
            n=(n,) * len(gids),
            sampling=sampling_of(self.run.config.rollout, greedy=greedy),
            seed=(self.run.config.seed, self.section.name, *self.seed, "second", *again),
            prefix_ids=tuple(prefix_ids),
            progress=self.progress,
        )
        batch = self.to_batch(roll_out(self.run, [self.prepared[gid] for gid in gids], spec))
        return replace(batch, gid_N=torch.tensor(gids)[batch.gid_N])

    def ask(self, samples: Sequence[Sample], *, n: int) -> RolloutBatch | None:
        """n completions of prompts that are not in the dataset, scored by their tasks: rows of the kind `recycled`.

        Each prompt is a group of its own, with the gids that follow. A prompt that cannot be used is skipped, or an
        error, as the data section says of rows; None where none is left. Raises ConfigError for a task without rewards.
        """
        for sample in samples:
            tasks = self.run.config.rewards.tasks
            if sample.task not in tasks:
                hint = did_you_mean(sample.task, tasks) or f"; known: {', '.join(tasks)}"
                fact = f"a plug-in makes prompts of the task {sample.task!r}, which 'rewards.tasks' lacks"
                raise ConfigError(f"{fact}{hint}")
        prepared = self.run.prepare(samples, stage_data(self.run.config, self.section))
        if not prepared:
            return None
        first = len(self.prepared)
        self.prepared += prepared
        batch = self(range(first, len(self.prepared)), n=n)
        return replace(batch, kind=("recycled",) * len(batch))

    def sample(self, gid: int) -> Sample:
        """The sample of a group; its answer is in the model's space."""
        return self.prepared[gid].sample

    def text(self, batch: RolloutBatch, row: int) -> str:
        """A completion as the rewards were given it."""
        ids = batch.ids_NC[row][batch.mask_NC[row]].tolist()
        return self.run.processor.decode(ids, skip_special_tokens=True)
