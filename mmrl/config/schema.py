"""The configuration of a run: one frozen section a class, every key with a type, a default and a line of explanation.

`RunConfig` is total: an unknown key is an error. Contradictions between keys are found by `mmrl.config.checks`,
which names both keys and the remedy; both happen before any model is loaded. The sections about data, sampling and
rewards are in `data_sections`, `rollout_sections` and `reward_sections`, what all sections share in `section`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field

# Every section can be imported from here; some are only used inside others.
from mmrl.config.cache_section import CacheSection
from mmrl.config.data_sections import (  # noqa: F401
    CardSection,
    DataSection,
    DatasetSection,
    RobotSection,
    VideoSection,
)
from mmrl.config.judge_section import WITHOUT_JUDGE, JudgeServerSection
from mmrl.config.reward_sections import GateSection, RewardPart, RewardsSection  # noqa: F401
from mmrl.config.rollout_sections import RolloutSection, ServersSection, VllmSection  # noqa: F401
from mmrl.config.section import (
    Beta,
    BudgetClass,
    Count,
    FolderName,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Probability,
    Section,
)
from mmrl.config.stage_sections import DpoSection, SampleSection, SftSection


class LoraSection(Section):
    """Low-rank adapters: small matrices beside frozen linear layers, the only thing that is trained."""

    rank: Count = Field(default=16, description="inner width of an adapter")
    alpha: PositiveFloat = Field(default=32.0, description="an adapter's output is scaled by alpha / rank")
    dropout: Probability = Field(default=0.0, description="share of an adapter's inputs dropped; sft stages only")
    targets: tuple[str, ...] = Field(
        default=("language_model",),
        description="module groups whose linear layers get adapters, or names of layers such as q_proj or lm_head",
    )
    modules_to_save: tuple[str, ...] = Field(
        default=(), description="names of modules trained whole beside the adapters, such as lm_head"
    )
    rslora: bool = Field(default=False, description="scale by alpha / sqrt(rank) instead")
    seed: int = Field(default=0, description="seed of the adapters' first values")


class ModelSection(Section):
    path: str = Field(description="model folder in transformers format, or a hub id (ORG/NAME)")
    revision: str | None = Field(
        default=None, description="branch, tag or commit of a hub id; null: main; resolved.yaml holds the commit"
    )
    trust_remote_code: bool = Field(default=False, description="run Python code that comes with the model")
    quantization: Literal["nf4", "int8"] | None = Field(
        default=None, description="load the base weights in 4 or 8 bits; needs lora and the extra mmrl[quantized]"
    )
    lora: LoraSection | None = Field(default=None, description="train adapters instead of the weights")
    chat_template: str | None = Field(
        default=None, description="a .jinja file, or one of the model's named templates; null: the model's own"
    )
    enable_thinking: bool | None = Field(
        default=None, description="given to a chat template that asks for it; null: the template's default"
    )
    dtype: Literal["float32", "bfloat16"] = Field(default="bfloat16", description="type of weights and activations")
    attention: Literal["sdpa", "eager"] = Field(default="sdpa", description="attention implementation of transformers")
    freeze: tuple[Literal["vision_tower", "projector", "language_model"], ...] = Field(
        default=(), description="module groups that are not trained"
    )
    freeze_layers: tuple[str, ...] = Field(
        default=(), description="layers that are not trained: [0-7] of the language model, [vision:0-3], [others]"
    )
    gradient_checkpointing: bool = Field(
        default=True, description="recompute activations in the backward pass: less memory, more time"
    )
    box_space: str | None = Field(
        default=None, description="space the model writes boxes and points in; null: the family's"
    )
    time_space: str | None = Field(default=None, description="space the model writes times in; null: the family's")


class ValueSection(Section):
    """A linear value head on the policy's hidden states, for advantages that need one (gae)."""

    coef: NonNegativeFloat = Field(default=0.5, description="weight of the value head's squared error in the loss")
    clip: PositiveFloat | None = Field(
        default=0.2, description="values move at most this far from those before the update; null: freely"
    )
    detach: bool = Field(default=False, description="the squared error trains the head alone, not the model under it")
    lr_ratio: PositiveFloat = Field(default=10.0, description="rate of the head as a multiple of the stage's lr")


class RowWeights(Section):
    """How much the completions of a task or dataset count."""

    advantage_scale: NonNegativeFloat = Field(default=1.0, description="multiplies their advantages")
    loss_weight: NonNegativeFloat = Field(
        default=1.0, description="multiplies all of their loss, regularisers included; denominators stay"
    )


class AlgorithmSection(Section):
    advantage: str = Field(
        default="grpo",
        description="grpo, dr_grpo, rloo, pass_at_k, gpg, reinforce_pp, reinforce_pp_baseline, gae or "
        "./file.py:function",
    )
    advantage_options: dict[str, Any] = Field(
        default_factory=dict, description="keyword arguments of the advantage, see algorithms.md"
    )
    policy_loss: str = Field(
        default="ppo_clip",
        description="ppo_clip, cispo, sapo, gpg, gspo, gmpo, vespo or ./file.py:function",
    )
    policy_loss_options: dict[str, Any] = Field(
        default_factory=dict, description="keyword arguments of the policy loss, see algorithms.md"
    )
    aggregation: Literal[
        "token-mean",
        "seq-mean-token-mean",
        "seq-mean-token-sum",
        "seq-mean-token-sum-norm",
        "seq-sum-token-sum-norm",
        "rank-token-mean",
    ] = Field(default="token-mean", description="from token losses to one number, see algorithms.md")
    aggregation_length: PositiveInt | None = Field(
        default=None, description="L of the two -norm modes; null: max_new_tokens"
    )
    std_eps: NonNegativeFloat = Field(default=1e-6, description="added to the group's standard deviation (grpo)")
    clip_low: Probability = Field(default=0.2, description="the ratio is clipped below 1 - clip_low")
    clip_high: NonNegativeFloat = Field(default=0.28, description="the ratio is clipped above 1 + clip_high")
    dual_clip: PositiveFloat | None = Field(
        default=3.0, description="bound on the loss where the advantage is negative; null: none"
    )
    ref_kl_coef: NonNegativeFloat = Field(
        default=0.0, description="weight of the divergence from the stage's first policy; 0: no reference"
    )
    ref_kl_estimator: Literal["k1", "k2", "k3", "abs", "k1+", "k3+"] = Field(
        default="k3", description="estimator of that divergence in the loss; `+`: with the gradient of k2"
    )
    ref_kl_in: Literal["loss", "reward"] = Field(
        default="loss", description="reward: k1 is taken off the rewards of tokens instead"
    )
    ref_kl_importance: bool = Field(
        default=False, description="multiply the divergence in the loss by the ratio of policy and old"
    )
    ref_kl_target: PositiveFloat | None = Field(
        default=None, description="divergence at which ref_kl_coef is steered; null: the coefficient is constant"
    )
    ref_kl_horizon: PositiveInt = Field(
        default=10000, description="completions in which the steered coefficient follows"
    )
    entropy_coef: float = Field(default=0.0, description="weight of the policy's entropy, which the loss then raises")
    old_logprobs: Literal["auto", "trainer", "sampler"] = Field(
        default="auto",
        description="whose log-probs the ratio compares with; sampler: those of the rollout, without another pass; "
        "auto: those where they are the trainer's too (engine hf, float32, nothing ahead), else the trainer's",
    )
    value: ValueSection = Field(default_factory=ValueSection, description="value head (advantage gae)")
    rollout_correction: Literal["none", "truncate", "mask"] = Field(
        default="none",
        description="importance weights where the sampler's distribution is not the trainer's: bounded, or 0 out of "
        "bounds",
    )
    rollout_correction_level: Literal["token", "sequence", "geometric"] = Field(
        default="token", description="ratio of each token, of the completion, or its geometric mean (mask only)"
    )
    rollout_correction_cap: PositiveFloat = Field(default=2.0, description="highest importance weight")
    rollout_correction_low: NonNegativeFloat = Field(default=0.0, description="lowest importance weight")
    rollout_rejection: Literal[
        "none",
        "token_k1",
        "token_k2",
        "token_k3",
        "seq_sum_k1",
        "seq_sum_k2",
        "seq_sum_k3",
        "seq_mean_k1",
        "seq_mean_k2",
        "seq_mean_k3",
        "seq_max_k2",
        "seq_max_k3",
    ] = Field(
        default="none", description="tokens or completions whose ratio of trainer and sampler is out of bounds: 0"
    )
    rollout_rejection_low: NonNegativeFloat = Field(default=0.0, description="lowest value that is kept")
    rollout_rejection_high: PositiveFloat = Field(default=2.0, description="highest value that is kept")
    off_policy_delta: NonNegativeFloat | None = Field(
        default=None,
        description="no policy loss on completions of negative advantage that lost more than this per token; null: all",
    )
    by_task: dict[str, RowWeights] = Field(default_factory=dict, description="weights of a task's completions")
    by_dataset: dict[str, RowWeights] = Field(
        default_factory=dict, description="weights of a dataset's completions, times those of the task"
    )
    updates_per_batch: PositiveInt = Field(default=1, description="optimizer steps on the groups of one rollout batch")
    epochs_per_batch: PositiveInt = Field(default=1, description="passes over one rollout batch")
    dynamic_sampling: bool = Field(default=False, description="replace zero-std groups until the batch is full")
    max_generation_rounds: PositiveInt = Field(default=10, description="dynamic_sampling: rounds before the run stops")
    overlong_buffer: NonNegativeInt = Field(
        default=0, description="last tokens before max_new_tokens with a growing penalty"
    )
    overlong_factor: NonNegativeFloat = Field(
        default=1.0, description="penalty at max_new_tokens; it grows from 0 over the buffer"
    )
    mask_truncated: bool = Field(
        default=False, description="truncated completions: no loss, still in the group's statistics"
    )
    plugins: tuple[str, ...] = Field(default=(), description="files with hooks, in order")
    plugin_options: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="keyword arguments of plug-ins, by the plug-in's name"
    )


class EarlyStopSection(Section):
    """End a stage when a held-out score stops rising."""

    score: str = Field(default="val/mean", description="score of the validations that is watched; higher is better")
    patience: PositiveInt = Field(default=3, description="validations in a row without a better score that end it")
    min_delta: NonNegativeFloat = Field(default=0.0, description="a score is better if it is this much above the best")


class StageSection(Section):
    """One stage: training from rewards (`grpo`), demonstrations (`sft`) or pairs of replies (`dpo`), or sampling."""

    name: FolderName = Field(description="name in logs and checkpoints: letters, digits, `.`, `_` and `-`")
    kind: Literal["sft", "grpo", "dpo", "sample"] = Field(
        description="how the stage learns; sample: not at all, it writes rows for a later one"
    )
    steps: PositiveInt = Field(description="batches of prompts")
    prompts_per_step: Count = Field(description="prompts of a step, over all processes")
    lr: PositiveFloat = Field(default=1e-6, allow_inf_nan=False, description="learning rate after warm-up")
    lr_schedule: Literal["constant", "linear", "cosine"] = Field(
        default="constant", description="course of the rate after warm-up"
    )
    min_lr_ratio: Probability = Field(default=0.0, description="the schedule ends at this share of lr")
    warmup_steps: NonNegativeInt = Field(default=0, description="steps over which the rate rises to lr")
    weight_decay: NonNegativeFloat = Field(default=0.0, description="AdamW weight decay")
    early_stop: EarlyStopSection | None = Field(
        default=None, description="end before `steps` when a held-out score stops rising; null: never"
    )
    tasks: tuple[str, ...] = Field(default=(), description="only rows of these tasks; empty: all")
    data: DataSection | None = Field(default=None, description="data of this stage; null: the run's")
    rows_from: str | None = Field(
        default=None, description="name of an earlier sample stage, whose rows this one takes; null: those of the data"
    )
    sft: SftSection = Field(default_factory=lambda: SftSection.model_validate({}), description="of an sft stage")
    dpo: DpoSection = Field(default_factory=lambda: DpoSection.model_validate({}), description="of a dpo stage")
    sample: SampleSection = Field(
        default_factory=lambda: SampleSection.model_validate({}), description="of a sample stage"
    )


class TrainSection(Section):
    optimizer: Literal["adamw", "adamw8bit", "muon"] = Field(
        default="adamw",
        description="adamw8bit keeps its moments in 8 bits (extra mmrl[quantized]); muon steps the matrices of the "
        "layers by orthogonalised momentum and everything else by AdamW",
    )
    betas: tuple[Beta, Beta] = Field(default=(0.9, 0.999), description="AdamW betas")
    muon_momentum: Beta = Field(default=0.95, description="muon: momentum of the matrices")
    muon_lr_ratio: PositiveFloat = Field(
        default=1.0, description="muon: rate of the matrices as a multiple of the stage's lr"
    )
    eps: PositiveFloat = Field(default=1e-8, description="AdamW epsilon, added to the root of the second moment")
    ema_decay: Beta | None = Field(
        default=None, description="keep an average of the weights and validate and export it; null: none, 0.99 is usual"
    )
    max_grad_norm: PositiveFloat = Field(default=1.0, description="gradients are clipped to this norm")
    micro_batch_tokens: PositiveInt = Field(
        default=16384, description="tokens of one micro-batch, padding (rows x longest row) where there is any included"
    )
    attention: Literal["auto", "parts", "flex", "sdpa"] = Field(
        default="auto",
        description="of packed rows; parts: pairs that see each other, on CPUs; flex: FlexAttention's blocks, on GPUs; "
        "sdpa: a mask of tokens x tokens; auto: parts or flex",
    )
    padding_free: bool = Field(
        default=True, description="rows of a micro-batch behind each other without padding, unless attention is sdpa"
    )
    shared_prefix: bool = Field(default=True, description="one row per group where the family can; else separate rows")
    logprob_chunk: PositiveInt = Field(default=256, description="positions whose full-vocabulary logits exist at once")
    zero_stage: Literal[0, 1, 2, 3] = Field(
        default=0,
        description="DeepSpeed ZeRO: what processes share out; 1: optimizer state, 2: gradients too, 3: weights too",
    )
    offload: Literal["optimizer", "parameters"] | None = Field(
        default=None,
        description="what lies in host memory; optimizer: its state and step; parameters: weights too (zero_stage 3)",
    )


class ValidationSection(Section):
    before_first: bool = Field(default=True, description="validate before the first step")
    every: NonNegativeInt = Field(default=0, description="steps between validations; 0: only at the ends")
    n: Count = Field(default=1, description="1: greedy; more: that many samples, mean score")
    batch_size: Count = Field(default=64, description="prompts answered together")
    generations: NonNegativeInt = Field(default=8, description="generations shown in the log per validation")


class EvaluateSection(Section):
    """Benchmarks that are run while training (docs/evaluate.md)."""

    tasks: tuple[str, ...] = Field(default=(), description="shipped benchmarks by name, task files by path")
    root: str | None = Field(default=None, description="folder that the task files' paths start from")
    before_first: bool = Field(default=True, description="run them before the first step")
    every: NonNegativeInt = Field(default=0, description="steps between; 0: only at the ends of stages")
    limit: PositiveInt | None = Field(default=None, description="only the first rows of each; null: all")
    batch_size: Count = Field(default=64, description="questions answered together")
    judge: JudgeServerSection | None = Field(
        default=None, description="where the judge answers that task files name (docs/evaluate.md)"
    )
    no_judge: bool = Field(
        default=False, description="score by rule where a task file names a judge; called score_without_judge"
    )

    @property
    def names(self) -> tuple[str, ...]:
        """Of the benchmarks, as scores name them: `eval/<name>/score`."""
        return tuple(Path(task).stem if task.endswith((".yaml", ".yml")) else task for task in self.tasks)

    @property
    def scores(self) -> tuple[str, ...]:
        kinds = ("score", WITHOUT_JUDGE) if self.no_judge else ("score",)
        return tuple(f"eval/{name}/{kind}" for name in self.names for kind in kinds)


class CheckpointSection(Section):
    every: NonNegativeInt = Field(default=0, description="steps between checkpoints; 0: at stage ends only")
    keep_last: PositiveInt = Field(default=2, description="newest checkpoints kept, beside the best")
    best: str | None = Field(default="val/mean", description="score whose best checkpoint is kept; null: none")


class LogSection(Section):
    trackers: tuple[Literal["tensorboard", "wandb", "trackio", "mlflow"], ...] = Field(
        default=("tensorboard",), description="where metrics and held-out generations go beside metrics.jsonl"
    )
    project: str = Field(default="mmrl", description="project (MLflow: experiment) of wandb, trackio and mlflow")
    rollouts_per_step: NonNegativeInt = Field(default=4, description="completions written to rollouts.jsonl a step")
    console: bool = Field(default=True, description="print progress")


class RunConfig(Section):
    """Everything a run needs, read from YAML; resolved.yaml in the run folder repeats it whole."""

    name: FolderName = Field(default="run", description="name of the run folder: letters, digits, `.`, `_` and `-`")
    out_dir: str = Field(default="runs", description="where run folders lie, relative to the current directory")
    seed: int = Field(default=0, description="seed of data order, sampling and shuffles")
    model: ModelSection = Field(description="what is trained")
    budgets: dict[str, BudgetClass] = Field(
        default_factory=lambda: {
            "image": BudgetClass.model_validate({}),
            "video": BudgetClass.model_validate({"max_pixels": 768 * 28 * 28}),
        },
        description="budget class by name: image, video and any other modality",
    )
    data: DataSection = Field(default_factory=DataSection, description="datasets, templates and policies for bad rows")
    cache: CacheSection = Field(default_factory=CacheSection, description="stored pixels of media")
    rollout: RolloutSection = Field(default_factory=RolloutSection, description="how completions are sampled")
    rewards: RewardsSection = Field(default_factory=RewardsSection, description="what a completion is worth, by task")
    algorithm: AlgorithmSection = Field(default_factory=AlgorithmSection, description="from rewards to the loss")
    stages: tuple[StageSection, ...] = Field(default=(), description="kinds of training, one after the other")
    train: TrainSection = Field(default_factory=TrainSection, description="optimizer, batching and memory")
    validation: ValidationSection = Field(default_factory=ValidationSection, description="held-out scores")
    evaluate: EvaluateSection = Field(default_factory=EvaluateSection, description="benchmarks while training")
    checkpoint: CheckpointSection = Field(default_factory=CheckpointSection, description="what is saved")
    log: LogSection = Field(default_factory=LogSection, description="what is written and shown")
