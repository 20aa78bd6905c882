"""What a `second_round` hook is given: more completions for the groups of a round, and for prompts that it makes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch

from mmrl.algorithms.made_prompts import extended
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.schema import StageSection
from mmrl.data.prepare import Prepared
from mmrl.data.render import render
from mmrl.data.rendered import MediaEntry, with_pixels
from mmrl.data.sample import Sample
from mmrl.errors import ConfigError, did_you_mean
from mmrl.training.columns import token_ends
from mmrl.training.drawn import prompt_id
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
        return self._sampled(gids, [self.prepared[gid] for gid in gids], n=n, greedy=greedy, prefix_ids=prefix_ids)

    def others(
        self,
        gids: Sequence[int],
        prompts: Sequence[Prepared],
        *,
        n: int = 1,
        prefix_ids: Sequence[tuple[tuple[int, ...], ...]] = (),
    ) -> RolloutBatch:
        """n completions of each of these prompts, made by `changed`, as rows of the groups gids.

        They are trained on with the prompt they were sampled for, if they are; a row's prompt_id says which.
        """
        known = {prompt_id(item) for item in self.prepared}
        self.prepared += [item for item in prompts if prompt_id(item) not in known]
        return self._sampled(gids, prompts, n=n, greedy=False, prefix_ids=prefix_ids)

    def changed(
        self, gid: int, name: str, *, text: str = "", frames: Callable[[MediaEntry], torch.Tensor] | None = None
    ) -> Prepared | None:
        """A group's prompt with words after its last message and other pixels in its media; None where it is too long.

        name: ends its sample id; one name is one prompt. frames: from a medium to its new frames, uint8 of the same
        shape.
        """
        item = self.prepared[gid]
        sample = extended(item.sample, name, text)
        media = item.prompt.media
        if frames is not None:
            media = [redrawn(entry, frames(entry)) for entry in map(with_pixels, media)]
        prompt = render(sample, media, self.run.processor)
        limit = stage_data(self.run.config, self.section).max_prompt_tokens
        return Prepared(sample, prompt, item.halvings) if len(prompt.prompt_ids_T) <= limit else None

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

    def _sampled(
        self,
        gids: Sequence[int],
        prompts: Sequence[Prepared],
        *,
        n: int,
        greedy: bool,
        prefix_ids: Sequence[tuple[tuple[int, ...], ...]],
    ) -> RolloutBatch:
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
        batch = self.to_batch(roll_out(self.run, prompts, spec))
        return replace(batch, gid_N=torch.tensor(gids)[batch.gid_N])

    def text(self, batch: RolloutBatch, row: int) -> str:
        """A completion as the rewards were given it."""
        return self._decode(batch.ids_NC[row][batch.mask_NC[row]].tolist())

    def until(self, batch: RolloutBatch, row: int, mark: str) -> list[int] | None:
        """The ids of a completion up to and with the last `mark` of its text; None without one.

        Tokens that cross the mark's borders are replaced by those of the text.
        """
        ids = batch.ids_NC[row][batch.mask_NC[row]].tolist()
        text = self._decode(ids)
        at = text.rfind(mark)
        if at < 0:
            return None
        ends = token_ends(ids, self._decode)
        kept = sum(end <= at for end in ends)
        return ids[:kept] + self.encode(text[ends[kept - 1] if kept else 0 : at + len(mark)])

    def encode(self, text: str, *, ends: bool = False) -> list[int]:
        """The ids of ordinary text. ends: with the end token behind it."""
        return [*self.run.processor.encode_text(text), *(self.run.processor.eos_ids[:1] if ends else ())]

    def ends(self, ids: Sequence[int]) -> bool:
        """Whether the last of these tokens is an end token."""
        return bool(ids) and ids[-1] in self.run.processor.eos_ids

    @property
    def most_tokens(self) -> int:
        """Longest completion; a prefix may be as long."""
        return self.run.config.rollout.max_new_tokens

    def _decode(self, ids: Sequence[int]) -> str:
        return self.run.processor.decode(ids, skip_special_tokens=True)


def redrawn(entry: MediaEntry, frames_F3HW: torch.Tensor) -> MediaEntry:
    """The medium with other pixels, and a key that is theirs."""
    assert frames_F3HW.shape == entry.frames_F3HW.shape and frames_F3HW.dtype == torch.uint8
    pixels = hashlib.blake2b(frames_F3HW.contiguous().numpy().tobytes(), digest_size=16).hexdigest()
    return replace(entry, frames_F3HW=frames_F3HW, key=f"{entry.key}~{pixels}", features=None, reopen=None)
