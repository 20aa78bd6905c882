"""What a `prefixes` hook is given: the prompts of a round before they are answered, and how likely tokens are.

Shape letters: R token sequences, C their tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from mmrl.data.prepare import Prepared
from mmrl.data.render import with_completion
from mmrl.data.sample import Sample
from mmrl.models.packing import Row, separate_rows
from mmrl.rollout.sampling import derive_seed
from mmrl.rollout.stops import is_complete
from mmrl.training import distributed
from mmrl.training.runtime import Runtime
from mmrl.training.step import logprob_pass

Ids = Sequence[int]


@dataclass(frozen=True)
class Drawn:
    """This process's prompts of a round. n: completions of each. seed: parts of the seed of the round.

    `logprobs` and `next_logprobs` are passes of the model: every process calls them as often, with nothing where it has
    nothing to ask.
    """

    run: Runtime
    prepared: tuple[Prepared, ...]
    n: tuple[int, ...]
    seed: tuple[int | str, ...]

    @property
    def prompt_ids(self) -> list[str]:
        return [prompt_id(item) for item in self.prepared]

    @property
    def most_tokens(self) -> int:
        """Longest completion; a prefix may be as long."""
        return self.run.config.rollout.max_new_tokens

    def sample(self, prompt: int) -> Sample:
        return self.prepared[prompt].sample

    def seed_of(self, prompt: int, purpose: str) -> int:
        """A seed for what a hook decides by chance about a prompt, apart from that of its completions.

        Prompts are dealt to the processes in turn; numbered so, a prompt has the seed it would have in one process.
        """
        number = distributed.rank() + prompt * distributed.world_size()
        return derive_seed(*self.seed, self.prompt_ids[prompt], number, purpose)

    def encode(self, text: str) -> tuple[int, ...]:
        """The ids of ordinary text as it stands at the beginning of a completion."""
        return tuple(self.run.processor.encode_text(text))

    def is_complete(self, ids: Ids) -> bool:
        """Whether nothing follows these tokens: they end in an end token or a stop string, or there is no room."""
        rollout = self.run.config.rollout
        return len(ids) >= rollout.max_new_tokens or is_complete(ids, rollout.stop, self.run.processor)

    def logprobs(self, prompts: Sequence[int], completions: Sequence[Ids]) -> torch.Tensor:
        """(R, C) float32: log-prob of each token of a prompt's completion under the present policy; 0 after it."""
        rows = [
            row
            for number, (prompt, ids) in enumerate(zip(prompts, completions, strict=True))
            for row in separate_rows(self.prepared[prompt].prompt, [ids], [number])
        ]
        return self._pass(rows, (len(rows), max(map(len, completions), default=0)))[0]

    def next_logprobs(self, prompts: Sequence[int], prefixes: Sequence[Ids]) -> torch.Tensor:
        """(R, V) float32: log-probs under the present policy of the token after each prefix; -inf for banned ones.

        At the sampler's temperature, without its top-k, top-p and min-p.
        """
        any_token = self.run.processor.eos_ids[0]  # only its place matters
        rows = [
            row
            for number, (prompt, ids) in enumerate(zip(prompts, prefixes, strict=True))
            for row in separate_rows(with_completion(self.prepared[prompt].prompt, ids), [[any_token]], [number])
        ]
        _, extra = self._pass(rows, (len(rows), 1), "distribution")
        return extra["distribution"][:, 0] if rows else torch.zeros(0, 0)

    def _pass(self, rows: list[Row], shape: tuple[int, int], *requests: str) -> tuple[torch.Tensor, dict]:
        settings = self.run.logprob_settings(temperature=self.run.config.rollout.temperature)
        with self.run.watch.time("logprobs"):
            return logprob_pass(self.run.trainer, rows, settings=settings, shape=shape, requests=requests)


def prompt_id(item: Prepared) -> str:
    """Names a prompt over epochs and datasets: the key of all per-prompt state."""
    return f"{item.sample.dataset}/{item.sample.sample_id}"
