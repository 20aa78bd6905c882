"""DualMindVLM: half of a group thinks long or short as its prompt asks for, the other half as it likes.

    label    by the column `base_length`, the mean length of the base model's answers in tokens:
             below `short` "short", above `long` "long", between them none
    forced   the first `share` of a group's completions begin with the label's words; without a label none do
    dropped  with `only_labelled` the groups of prompts without a label; else they are trained on as they are

The words are part of the completion: they are trained on, and the format part of the reward may ask for them.
TON's free choice between a thought and none is plain GRPO after training on rows of which half have an empty thought.

short 100, long 200, share .5, 8 answers, accuracy 1 and format 1. Source: DualMindVLM, abstract; the words are this
project's. Lengths 80: short; 150: none; 260: long. 8 answers: 4 forced, 4 free.

Shape letters: N completions, P prompts.
"""

from collections.abc import Sequence
from typing import Any

import torch

from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.section import NonNegativeFloat, Probability
from mmrl.errors import DataError
from mmrl.training.distributed import sum_over_ranks

NEUTRAL: dict[str, Any] = {"share": 0.0}
MODES = ("short", "long", "none")


class Plugin:
    """column: of the lengths; prompts without it have no label. short_words, long_words: first words of each mode."""

    def __init__(
        self,
        *,
        share: Probability = 0.5,
        short: NonNegativeFloat = 100.0,
        long: NonNegativeFloat = 200.0,
        column: str = "base_length",
        short_words: str = "Short thinking: ",
        long_words: str = "Long thinking: ",
        only_labelled: bool = False,
    ) -> None:
        self._share, self._short, self._long, self._column = share, short, long, column
        self._words = {"short": short_words, "long": long_words}
        self._only_labelled = only_labelled
        self._unlabelled: set[str] = set()
        self._counts: dict[str, int] = dict.fromkeys(MODES, 0)

    def prefixes(self, drawn: Any, n_P: Sequence[int]) -> list[list[tuple[int, ...]]]:
        labels = [self._label(drawn.sample(prompt)) for prompt in range(len(n_P))]
        names = drawn.prompt_ids
        self._unlabelled = {name for name, label in zip(names, labels, strict=True) if label is None}
        for label in labels:
            self._counts[label or "none"] += 1
        words = {label: drawn.encode(text)[: drawn.most_tokens] for label, text in self._words.items()}
        found = []
        for n, label in zip(n_P, labels, strict=True):
            forced = 0 if label is None else int(self._share * n)
            found.append([words[label]] * forced + [()] * (n - forced) if label else [()] * n)
        return found

    def keep(self, batch: RolloutBatch, rewards_N: torch.Tensor) -> torch.Tensor:
        is_labelled = [not self._only_labelled or name not in self._unlabelled for name in batch.prompt_id]
        return torch.tensor(is_labelled, dtype=torch.bool)

    def on_step_end(self, batch: RolloutBatch, rewards_N: torch.Tensor, metrics: dict[str, float]) -> None:
        for label, count in zip(MODES, sum_over_ranks([float(self._counts[mode]) for mode in MODES]), strict=True):
            metrics[f"thinking_modes/{label}"] = count
        self._counts = dict.fromkeys(MODES, 0)

    def _label(self, sample: Any) -> str | None:
        length = sample.columns.get(self._column)
        if length is None:
            return None
        if isinstance(length, bool) or not isinstance(length, int | float):
            raise DataError(f"{sample.where}: the column {self._column!r} must be a number of tokens, not {length!r}")
        return "short" if length < self._short else "long" if length > self._long else None
