"""The engine that a configuration asks for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmrl.config.schema import RunConfig
from mmrl.models.families import FamilyProcessor
from mmrl.rollout.hf_engine import HfEngine
from mmrl.rollout.types import Engine

if TYPE_CHECKING:
    from mmrl.rollout.vllm_types import CoreOptions


def open_engine(config: RunConfig, policy: Any, processor: FamilyProcessor) -> Engine:
    """`hf` runs the policy's own modules. `vllm` and `vllm_server` have random weights until they are synced.

    Raises EngineError where vLLM is missing, of an unsupported version, or cannot start, and where no server answers.
    """
    if config.rollout.engine == "hf":
        return HfEngine(policy, processor, max_batch_tokens=config.rollout.max_batch_tokens)
    if config.rollout.engine == "vllm_server":
        return _open_client(config, processor)
    from mmrl.rollout.vllm_engine import VllmEngine

    return VllmEngine(processor, core_options(config, processor.folder))


def core_options(config: RunConfig, folder: Path, *, weight_transfer: str | None = None) -> CoreOptions:
    """How vLLM is started for a run, in the trainer's process or in a server's."""
    from mmrl.rollout.vllm_types import CoreOptions

    section = config.rollout.vllm
    return CoreOptions(
        dtype=config.model.dtype,
        max_model_len=section.max_model_len or _needed_length(config, folder),
        max_num_seqs=section.max_num_seqs,
        gpu_memory_utilization=section.gpu_memory_utilization,
        cpu_kv_cache_gb=section.cpu_kv_cache_gb,
        cpu_packing=section.cpu_packing,
        enforce_eager=section.enforce_eager,
        trust_remote_code=config.model.trust_remote_code,
        weight_transfer=weight_transfer,
    )


def _open_client(config: RunConfig, processor: FamilyProcessor) -> Engine:
    from mmrl.rollout.server.client import ClientOptions, Processes, ServerEngine
    from mmrl.rollout.server.http import Patience, ServerHttp
    from mmrl.rollout.server.token import read_token
    from mmrl.rollout.weight_names import expected_weights
    from mmrl.training import distributed

    section, model = config.rollout.servers, config.model
    token = distributed.together(lambda: read_token(Path(section.token_file)))
    patience = Patience(section.timeout_s, silence_s=max(10.0, 6 * section.health_interval_s))
    options = ClientOptions(
        urls=section.urls,
        health_interval_s=section.health_interval_s,
        start_timeout_s=section.start_timeout_s,
        timeout_s=section.timeout_s,
        retries=section.retries,
        weights=section.weights,
    )
    expected = expected_weights(processor.folder, trust_remote_code=model.trust_remote_code)
    processes = Processes(
        is_main=distributed.is_main(),
        count=distributed.world_size(),
        together=distributed.together,
        shared=lambda value: distributed.gather_objects(value)[0],
    )
    return ServerEngine(
        processor,
        ServerHttp(token, patience),
        options,
        expected=expected,
        dtype=model.dtype,
        processes=processes,
    )


def _needed_length(config: RunConfig, folder: Path) -> int:
    """Tokens of the longest allowed prompt with its completion, at most what the model takes."""
    sections = [config.data, *(stage.data for stage in config.stages if stage.data is not None)]
    return within_model(folder, max(data.max_prompt_tokens for data in sections) + config.rollout.max_new_tokens)


def within_model(folder: Path, length: int) -> int:
    """A length in tokens, at most what the model's config.json states."""
    stated = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return min(length, stated.get("text_config", stated).get("max_position_embeddings", length))
