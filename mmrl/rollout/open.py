"""The engine that a configuration asks for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mmrl.config.schema import RunConfig
from mmrl.models.families import FamilyProcessor
from mmrl.rollout.hf_engine import HfEngine
from mmrl.rollout.types import Engine


def open_engine(config: RunConfig, policy: Any, processor: FamilyProcessor) -> Engine:
    """`hf` runs the policy's own modules. `vllm` has random weights of its own until they are synced.

    Raises EngineError where vLLM is missing, of an unsupported version, or cannot start.
    """
    if config.rollout.engine == "hf":
        return HfEngine(policy, processor, max_batch_tokens=config.rollout.max_batch_tokens)
    from mmrl.rollout.vllm_engine import VllmEngine
    from mmrl.rollout.vllm_private import CoreOptions

    section = config.rollout.vllm
    options = CoreOptions(
        dtype=config.model.dtype,
        max_model_len=section.max_model_len or _needed_length(config, processor.folder),
        max_num_seqs=section.max_num_seqs,
        gpu_memory_utilization=section.gpu_memory_utilization,
        cpu_kv_cache_gb=section.cpu_kv_cache_gb,
        enforce_eager=section.enforce_eager,
        trust_remote_code=config.model.trust_remote_code,
    )
    return VllmEngine(processor, options)


def _needed_length(config: RunConfig, folder: Path) -> int:
    """Tokens of the longest allowed prompt with its completion, at most what the model's config.json states."""
    sections = [config.data, *(stage.data for stage in config.stages if stage.data is not None)]
    needed = max(data.max_prompt_tokens for data in sections) + config.rollout.max_new_tokens
    stated = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return min(needed, stated.get("text_config", stated).get("max_position_embeddings", needed))
