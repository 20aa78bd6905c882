"""Bytes of sampling: keys and values, logits. Pure arithmetic.

A token's keys and values are 2 x layers x K x s bytes: K = key-value heads x head width (grouped-query attention keeps
fewer of them than there are heads), s bytes a value.

Qwen2.5-VL-3B, 36 layers, 2 key-value heads of 128, bfloat16: 36,864 bytes a token; 64 sequences of 2,048 tokens 4.8 GB.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from mmrl.plan.shapes import TextShape
from mmrl.rollout.hf_slots import Schedule
from mmrl.rollout.types import Request, Sampling

_LOGIT_COPIES = 4
"""float32 tensors of (sequences, vocabulary) in hf_engine's sampling: scaled, masked, log-probs, sums to draw by."""


def kv_bytes_per_token(text: TextShape, value_bytes: int) -> int:
    return 2 * text.layers * text.layer.keyvalue * value_bytes


@dataclass(frozen=True, slots=True)
class Rollout:
    """What hf_engine needs. prompts, sequences: held at once; a group's prompt is held once. tokens: that room is held
    for. cache: keys and values. logits: of all sequences. prefill: activations while the prompts run together.
    """

    prompts: int
    sequences: int
    tokens: int
    cache: int
    logits: int
    prefill: int = 0

    @property
    def total(self) -> int:
        """The prompts have run before there are logits."""
        return self.cache + max(self.logits, self.prefill)


def hf_rollout(
    text: TextShape, *, value_bytes: int, prompts: Sequence[int], group: int, new_tokens: int, max_batch_tokens: int
) -> Rollout:
    """hf_engine with prompts of these lengths and `group` completions of each, by its own schedule (hf_slots).

    Two prompts of 300 and 200 tokens, groups of 4, 100 new tokens, room for all: 2 x 300 + 8 x 100 = 1,400 tokens.
    """
    sampling = Sampling(max_new_tokens=new_tokens)
    requests: Any = [Request("", cast(Any, _Length(range(length))), group, sampling) for length in prompts]
    schedule = Schedule(requests, max_batch_tokens=max_batch_tokens)
    schedule.refill()
    shape = schedule.shape
    cache = kv_bytes_per_token(text, value_bytes) * shape.tokens
    logits = shape.rows * text.vocabulary * (4 * _LOGIT_COPIES + value_bytes)
    return Rollout(shape.prompts, shape.rows, shape.tokens, cache, logits)


class _Length(NamedTuple):
    """As much of a rendered prompt as the schedule looks at."""

    prompt_ids_T: range


def vllm_sequences(text: TextShape, *, value_bytes: int, longest: int, pool: int) -> int:
    """Sequences of the longest length whose keys and values fit into a pool of bytes."""
    return max(0, pool // max(1, kv_bytes_per_token(text, value_bytes) * longest))
