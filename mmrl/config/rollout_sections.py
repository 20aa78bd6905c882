"""The sections about sampling: the engine, vLLM beside the trainer, and rollout servers."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mmrl.config.section import (
    Count,
    NonEmptyText,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Probability,
    Section,
)


class VllmSection(Section):
    """vLLM in the trainer's process, on the trainer's device. Its number type is model.dtype."""

    max_model_len: PositiveInt | None = Field(
        default=None,
        description="tokens of the longest prompt with its completion; null: data.max_prompt_tokens + max_new_tokens, "
        "or what the model states, if less",
    )
    max_num_seqs: PositiveInt = Field(default=256, description="completions decoded together")
    gpu_memory_utilization: Probability = Field(
        default=0.4, description="share of the GPU's memory for vLLM's weights, keys and values; the rest trains"
    )
    cpu_kv_cache_gb: PositiveInt = Field(default=1, description="memory for keys and values where there is no GPU")
    cpu_packing: bool = Field(
        default=False,
        description="where there is no GPU: matrices in oneDNN's packed form, as vLLM has them by itself: sampling is "
        "some 10 % faster, new weights come several times slower",
    )
    enforce_eager: bool = Field(default=False, description="no CUDA graphs: slower steps, less memory, a faster start")
    tensor_parallel_size: Literal[1] = Field(default=1, description="processes that share one engine; for now 1")


class ServersSection(Section):
    """Rollout servers (`mmrl serve-rollouts`), which the engine vllm_server asks. Their vLLM is set in rollout.vllm."""

    urls: tuple[str, ...] = Field(default=(), description="addresses, such as http://127.0.0.1:8765")
    token_file: str = Field(
        default=".mmrl_rollout_token",
        description="file with the token that every request carries; a server writes it where it is missing; the "
        "variable MMRL_ROLLOUT_TOKEN goes before it",
    )
    timeout_s: PositiveFloat = Field(
        default=1800.0, description="longest time for the completions of one prompt, or for a part of the weights"
    )
    health_interval_s: PositiveFloat = Field(
        default=5.0,
        description="seconds between looks at all servers; one silent for 6 of them (at least 10 s) is lost",
    )
    start_timeout_s: PositiveFloat = Field(
        default=300.0, description="how long a run waits for all servers when it starts"
    )
    retries: NonNegativeInt = Field(
        default=2, description="how often a request that was lost is sent to another server"
    )
    weights: Literal["auto", "shared_memory", "upload", "nccl"] = Field(
        default="auto",
        description="way of new weights; auto: nccl between GPUs, else shared memory on this machine, upload to others",
    )
    max_request_mb: PositiveInt = Field(default=1024, description="largest request, with its media, a server takes")


class RolloutSection(Section):
    engine: Literal["hf", "vllm", "vllm_server"] = Field(
        default="hf",
        description="what generates; hf: the own decode loop, vllm and vllm_server (in processes of its own): see "
        "rollout.md",
    )
    vllm: VllmSection = Field(default_factory=VllmSection, description="settings of the engine vllm and of servers")
    servers: ServersSection = Field(default_factory=ServersSection, description="settings of the engine vllm_server")
    group_size: Count = Field(default=8, description="completions per prompt")
    temperature: PositiveFloat = Field(default=1.0, description="divides the logits")
    top_p: Probability = Field(default=1.0, description="keep the most likely tokens up to this probability; 1: off")
    top_k: NonNegativeInt = Field(default=0, description="keep this many most likely tokens; 0: off")
    min_p: Probability = Field(
        default=0.0, description="keep tokens with this share of the highest probability; 0: off"
    )
    max_new_tokens: Count = Field(default=512, description="longest completion")
    stop: tuple[NonEmptyText, ...] = Field(default=(), description="texts that end a completion; they stay in it")
    max_batch_tokens: PositiveInt = Field(
        default=32768, description="tokens of prompts (once per group) and completions decoded together"
    )
    steps_ahead: Literal[0, 1] = Field(
        default=0, description="1: sample the next step's completions while this one trains, see rollout.md"
    )
    max_logprob_gap: NonNegativeFloat | None = Field(
        default=None,
        description="most that the log-probs of sampler and trainer may differ on a completion token; null: any; the "
        "largest difference of a step is `policy/rollout_gap_max`",
    )
    on_logprob_gap: Literal["warn", "error"] = Field(
        default="warn",
        description="a larger difference: name the worst sample once a stage, or stop before the next checkpoint",
    )
