"""Bytes of sampling: keys and values, logits. Pure arithmetic.

A token's keys and values are 2 x layers x K x s bytes: K = key-value heads x head width (grouped-query attention keeps
fewer of them than there are heads), s bytes a value.

Qwen2.5-VL-3B, 36 layers, 2 key-value heads of 128, bfloat16: 36,864 bytes a token; 64 sequences of 2,048 tokens 4.8 GB.
"""

from __future__ import annotations

from dataclasses import dataclass

from mmrl.plan.shapes import TextShape

_LOGIT_COPIES = 4
"""float32 tensors of (sequences, vocabulary) in hf_engine's sampling: scaled, masked, log-probs, sums to draw by."""


def kv_bytes_per_token(text: TextShape, value_bytes: int) -> int:
    return 2 * text.layers * text.layer.keyvalue * value_bytes


@dataclass(frozen=True, slots=True)
class Rollout:
    """What decoding needs. sequences: decoded together. tokens: of the longest prompt and completion. cache, logits:
    bytes at the end of the longest completions.
    """

    sequences: int
    tokens: int
    cache: int
    logits: int

    @property
    def total(self) -> int:
        return self.cache + self.logits


def hf_rollout(text: TextShape, *, value_bytes: int, longest: int, sequences: int, max_batch_tokens: int) -> Rollout:
    """hf_engine: as many sequences of the longest length as fit into rollout.max_batch_tokens, at most those of a step.

    A step's new keys are put behind the old ones layer by layer, so those of one layer exist twice for a moment.

    128 sequences asked for, 512 tokens each, at most 32,768 tokens together: 64 sequences.
    """
    together = max(1, min(sequences, max_batch_tokens // max(1, longest)))
    cache = kv_bytes_per_token(text, value_bytes) * together * longest
    logits = together * text.vocabulary * (4 * _LOGIT_COPIES + value_bytes)
    return Rollout(together, longest, cache + cache // (2 * text.layers), logits)


def vllm_sequences(text: TextShape, *, value_bytes: int, longest: int, pool: int) -> int:
    """Sequences of the longest length whose keys and values fit into a pool of bytes."""
    return max(0, pool // max(1, kv_bytes_per_token(text, value_bytes) * longest))
