"""What one process of a run needs at its highest points, part by part, and whether it fits. Pure arithmetic.

A run's process is highest in one of three places: in the backward pass of the heaviest micro-batch (weights, optimizer
state, gradients, activations), in the optimizer's step (no activations, but DeepSpeed's and AdamW's temporary tensors),
or while completions are sampled (keys, values and logits in the place of gradients and activations).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mmrl.config.schema import RunConfig, StageSection
from mmrl.plan.activations import Activations, PassSettings, PassShape, activations
from mmrl.plan.batches import BatchSettings, heaviest, longest_row, tower_positions
from mmrl.plan.model import ModelFacts
from mmrl.plan.rollout import Rollout, hf_rollout, kv_bytes_per_token, vllm_sequences
from mmrl.plan.rows import PlannedRow
from mmrl.plan.states import States, StateSettings, states

GPU_CONTEXT_BYTES = 1_500_000_000
"""CUDA context, libraries' workspaces and NCCL's buffers on a GPU: a usual figure, not measured here."""
PROCESS_BYTES = 700_000_000
"""A process on a CPU with its libraries imported: 0.55 to 0.7 GB measured."""
_ALIGNED = 1.02
"""Allocators round up: the caching allocator of GPUs to 512 bytes and 2 MB blocks, malloc to pages."""
_MOST_TOKENS = 2**22


@dataclass(frozen=True, slots=True)
class Machine:
    """processes: of the run. process_bytes: memory that each has. on_gpu: it is a GPU's."""

    processes: int
    process_bytes: int
    on_gpu: bool
    name: str

    @property
    def base_bytes(self) -> int:
        """What a process takes before it has a tensor."""
        return GPU_CONTEXT_BYTES if self.on_gpu else PROCESS_BYTES


@dataclass(frozen=True, slots=True)
class RankMemory:
    """Bytes of one process. activations: of the heaviest micro-batch, None where they are not predicted. rollout: of
    sampling in this process's own modules, None where something else samples. vllm_bytes: of vLLM beside the trainer.
    gathered: whole weights while sampling under ZeRO-3. accumulates: gradients of earlier micro-batches lie beside the
    activations of later ones. tower_gradients: those of vision tower and projector.
    """

    states: States
    activations: Activations | None
    rollout: Rollout | None
    vllm_bytes: int
    gathered: int
    base: int
    accumulates: bool = True
    tower_gradients: int = 0

    @property
    def training(self) -> int:
        return self._with_base(self.states.resting + self.backward)

    @property
    def backward(self) -> int:
        """Gradients and activations at the highest point. In a step's only micro-batch gradients come as activations
        go: none at first, those of the language model when the tower's turn comes, all of them at the end.
        """
        gradients, acts = self.states.gradients + self.states.buckets, self.activations
        if acts is None:
            return gradients
        if self.accumulates:
            return max(gradients + acts.peak, acts.forward)
        text = max(0, gradients - self.tower_gradients)
        return max(self.states.buckets + acts.peak, text + acts.tower, gradients + acts.last, acts.forward)

    @property
    def step(self) -> int:
        return self._with_base(self.states.resting + self.states.step)

    @property
    def sampling(self) -> int:
        """Of hf_engine also the prefill; vLLM has its share, and the trainer's states stay beside it."""
        if self.rollout is None:
            return self._with_base(self.states.resting) + self.vllm_bytes
        return self._with_base(self.states.resting + self.gathered + self.rollout.total)

    @property
    def peak(self) -> int:
        return max(self.training, self.step, self.sampling)

    @property
    def highest(self) -> str:
        return max(("backward", self.training), ("step", self.step), ("sampling", self.sampling), key=lambda p: p[1])[0]

    def _with_base(self, found: int) -> int:
        return int(found * _ALIGNED) + self.base


def rank_memory(
    config: RunConfig, facts: ModelFacts, rows: Sequence[PlannedRow], machine: Machine, *, stage: int | None = None
) -> RankMemory | None:
    """One process of the run; None where numbers of weights are not known. stage: another ZeRO stage."""
    if facts.counts is None:
        return None
    found = states(facts.counts, _state_settings(config, facts, machine, stage))
    steps = [_heaviest(config, facts, rows, machine, stage) for stage in trained_stages(config)]
    micro_batches = [micro for step in steps for micro in step]
    settings = pass_settings(config, facts)
    planned = [one for one in (activations(facts.shape, micro, settings) for micro in micro_batches) if one is not None]
    highest = max(planned, key=lambda one: max(one.peak, one.forward), default=None)
    tower = sum(facts.groups.get(name, (0, 0))[1] for name in ("vision_tower", "projector"))
    rollout = rollout_of(config, facts, rows, machine)
    beside = config.rollout.engine == "vllm"
    in_stage_3 = (config.train.zero_stage if stage is None else stage) == 3
    return RankMemory(
        states=found,
        activations=highest,
        rollout=rollout,
        vllm_bytes=_vllm_bytes(config, machine) if beside else 0,
        gathered=facts.counts.total * value_bytes(config) if in_stage_3 and rollout is not None else 0,
        base=machine.base_bytes,
        accumulates=any(len(step) > 1 for step in steps),
        tower_gradients=tower * value_bytes(config),
    )


def value_bytes(config: RunConfig) -> int:
    return 4 if config.model.dtype == "float32" else 2


def needs_reference(config: RunConfig) -> bool:
    """Whether some stage compares with the policy it began with, which is then kept."""
    from mmrl.algorithms.algorithm import build_algorithm

    if any(stage.kind == "dpo" and not stage.dpo.reference_free for stage in config.stages):
        return True
    if not any(stage.kind == "grpo" for stage in config.stages):
        return False
    algorithm = build_algorithm(config.algorithm, max_new_tokens=config.rollout.max_new_tokens)
    return "ref" in algorithm.needs | algorithm.needs_early


def trained_stages(config: RunConfig) -> list[StageSection]:
    return [stage for stage in config.stages if stage.kind != "sample"]


def batch_settings(config: RunConfig, facts: ModelFacts, machine: Machine, stage: StageSection) -> BatchSettings:
    """Demonstrations and pairs of replies, whose lengths are not looked at, count as max_new_tokens each."""
    train = config.train
    completions = {"sft": 1, "dpo": 2}.get(stage.kind, config.rollout.group_size)
    prompts = -(-stage.prompts_per_step // machine.processes)
    if stage.kind == "grpo":
        prompts = -(-prompts // config.algorithm.updates_per_batch)
    shares = train.shared_prefix and facts.family is not None and facts.family.shares_prefix
    return BatchSettings(
        completions=completions,
        length=config.rollout.max_new_tokens,
        prompts=prompts,
        micro_batch_tokens=train.micro_batch_tokens,
        shared=shares,
        padded=not train.padding_free or train.attention == "sdpa",
        runs_tower=not has_features(config, facts),
    )


def has_features(config: RunConfig, facts: ModelFacts) -> bool:
    """Whether media come as features from the cache, so that tower and projector do not run."""
    return config.cache.level != "pixels" and facts.tower == "idle" and facts.projector == "idle"


def pass_settings(config: RunConfig, facts: ModelFacts) -> PassSettings:
    return PassSettings(
        value_bytes=value_bytes(config),
        checkpointing=config.model.gradient_checkpointing,
        chunk=config.train.logprob_chunk,
        text=facts.text,
        tower=facts.tower,
        projector=facts.projector,
        head_trained=facts.head_trained,
        text_layers=facts.text_layers,
        rank=0 if config.model.lora is None else config.model.lora.rank,
    )


def rollout_of(config: RunConfig, facts: ModelFacts, rows: Sequence[PlannedRow], machine: Machine) -> Rollout | None:
    """Of hf_engine, which samples in the trainer's process; None for the others and where nothing is sampled."""
    sampled = [stage for stage in config.stages if stage.kind in ("grpo", "sample")]
    if config.rollout.engine != "hf" or facts.shape.text is None or not sampled or not rows:
        return None
    count = max(-(-stage.prompts_per_step // machine.processes) for stage in sampled)
    chosen = sorted(rows, key=lambda row: -row.prompt_tokens)[:count]
    section, longest = config.rollout, chosen[0].prompt_tokens
    lengths = [row.prompt_tokens for row in chosen] + [longest] * (count - len(chosen))
    if longest + section.max_new_tokens > section.max_batch_tokens:  # which is a problem of its own
        return None
    rollout = hf_rollout(
        facts.shape.text,
        value_bytes=value_bytes(config),
        prompts=lengths,
        group=section.group_size,
        new_tokens=section.max_new_tokens,
        max_batch_tokens=section.max_batch_tokens,
    )
    together = min(rollout.prompts, len(lengths))
    media: dict[str, tuple[int, int]] = {}
    if facts.shape.vision is not None and not has_features(config, facts):
        for row in chosen[:together]:
            media.update(tower_positions(row, facts.shape.vision))
    prefill = PassShape(
        tokens=together * longest,
        loss_tokens=0,
        positions=sum(positions for positions, _ in media.values()),
        media_tokens=sum(tokens for _, tokens in media.values()),
    )
    passed = activations(facts.shape, prefill, pass_settings(config, facts))
    return replace(rollout, prefill=0 if passed is None else passed.forward)


def vllm_room(config: RunConfig, facts: ModelFacts, machine: Machine, longest: int) -> tuple[int, int] | None:
    """(bytes vLLM has for keys and values, sequences of that length that fit); None where it is not asked for."""
    if config.rollout.engine == "hf" or facts.shape.text is None or facts.counts is None:
        return None
    section, s = config.rollout.vllm, value_bytes(config)
    pool = section.cpu_kv_cache_gb * 2**30
    if machine.on_gpu:
        pool = max(0, int(section.gpu_memory_utilization * machine.process_bytes) - facts.counts.total * s)
    return pool, vllm_sequences(facts.shape.text, value_bytes=s, longest=longest, pool=pool)


def kv_need(facts: ModelFacts, config: RunConfig, *, tokens: int, sequences: int) -> int:
    """Bytes of keys and values of so many sequences of so many tokens."""
    return (
        0
        if facts.shape.text is None
        else kv_bytes_per_token(facts.shape.text, value_bytes(config)) * tokens * sequences
    )


def fitting_micro_batch(
    config: RunConfig, facts: ModelFacts, rows: Sequence[PlannedRow], machine: Machine
) -> int | None:
    """The largest train.micro_batch_tokens with which the process fits, a multiple of 256 (or just the longest row);
    None where not even one row does, or nothing is predicted.
    """
    stages = trained_stages(config)
    if not stages or not rows or facts.shape.text is None:
        return None
    least = longest_row(rows, batch_settings(config, facts, machine, stages[0]))
    if not _fits(config, facts, rows, machine, least):
        return None
    low, high = least, _MOST_TOKENS
    while high - low >= 256:
        middle = (low + high) // 2
        low, high = (middle, high) if _fits(config, facts, rows, machine, middle) else (low, middle)
    return max(least, low // 256 * 256)


def _fits(config: RunConfig, facts: ModelFacts, rows: Sequence[PlannedRow], machine: Machine, tokens: int) -> bool:
    train = config.train.model_copy(update={"micro_batch_tokens": tokens})
    found = rank_memory(config.model_copy(update={"train": train}), facts, rows, machine)
    return found is not None and max(found.training, found.step) <= machine.process_bytes


def _heaviest(
    config: RunConfig, facts: ModelFacts, rows: Sequence[PlannedRow], machine: Machine, stage: StageSection
) -> list[PassShape]:
    return heaviest(rows, facts.shape.vision, batch_settings(config, facts, machine, stage))


def _vllm_bytes(config: RunConfig, machine: Machine) -> int:
    section = config.rollout.vllm
    return (
        int(section.gpu_memory_utilization * machine.process_bytes)
        if machine.on_gpu
        else section.cpu_kv_cache_gb * 2**30
    )


def _state_settings(config: RunConfig, facts: ModelFacts, machine: Machine, stage: int | None) -> StateSettings:
    train = config.train
    return StateSettings(
        value_bytes=value_bytes(config),
        stage=train.zero_stage if stage is None else stage,  # type: ignore[arg-type]
        processes=machine.processes,
        optimizer=train.optimizer,
        offload=train.offload,
        on_gpu=machine.on_gpu,
        reference=facts.reference,
        adapters=config.model.lora is not None,
        ema=train.ema_decay is not None,
    )
