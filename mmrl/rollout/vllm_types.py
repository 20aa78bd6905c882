"""What goes into `vllm_private.VllmCore` and comes out of it; nothing here touches vLLM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

MAX_ALTERNATIVES = 64
TransferCall = Literal["init_weight_transfer_engine", "start_weight_update", "update_weights", "finish_weight_update"]


@dataclass(frozen=True, slots=True)
class CoreOptions:
    """How vLLM is started. What is not explained here is described at `rollout.vllm` of the configuration.

    dtype: `float32` or `bfloat16`. max_model_len: tokens of the longest prompt with its completion. weight_transfer:
    the backend of vLLM's own weight transfer; None: weights come by `load_weights` only.
    """

    dtype: str
    max_model_len: int
    max_num_seqs: int = 256
    gpu_memory_utilization: float = 0.4
    cpu_kv_cache_gb: int = 1
    cpu_packing: bool = False
    enforce_eager: bool = False
    trust_remote_code: bool = False
    weight_transfer: str | None = None


@dataclass(frozen=True, slots=True)
class TransferStep:
    """One call of vLLM's weight transfer, with its arguments."""

    call: TransferCall
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class CoreSampling:
    """One completion, in vLLM's terms: temperature 0 is greedy. score_id: also report the log-prob of this token."""

    temperature: float
    max_tokens: int
    seed: int | None = None
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    stop: tuple[str, ...] = ()
    end_ids: tuple[int, ...] = ()
    alternatives: int = 0
    score_id: int | None = None


@dataclass(frozen=True, slots=True)
class CoreOutput:
    """A finished completion. score: the log-prob of `score_id` at its first token. num_cached: prompt tokens reused.

    problem: why vLLM gave it up, where `finish_reason` is neither `stop` nor `length`; else empty.
    """

    name: str
    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish_reason: str
    alternatives: tuple[tuple[tuple[int, float], ...], ...]
    score: float | None
    num_cached: int
    problem: str = ""
