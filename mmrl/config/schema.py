"""The configuration of a run: one frozen section a class, every key with a type, a default and a line of explanation.

`RunConfig` is total: an unknown key is an error. Contradictions between keys are found by `mmrl.config.checks`,
which names both keys and the remedy; both happen before any model is loaded.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

Probability = Annotated[float, Field(ge=0.0, le=1.0)]
PositiveInt = Annotated[int, Field(gt=0)]
NonNegativeInt = Annotated[int, Field(ge=0)]
PositiveFloat = Annotated[float, Field(gt=0.0)]
NonNegativeFloat = Annotated[float, Field(ge=0.0)]


class Section(BaseModel):
    """Base of all sections: frozen, no unknown keys, no silent conversion of types."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=False,
        validate_default=True,
        ser_json_inf_nan="constants",  # resolved.yaml must not turn an infinite option into null
    )


class BudgetClass(Section):
    """How many pixels and frames one medium may cost. Areas in pixels (width x height) of one frame."""

    min_pixels: PositiveInt = 56 * 56
    max_pixels: PositiveInt = 1280 * 28 * 28
    total_pixels: PositiveInt | None = Field(
        default=None, description="cap over all frames of a clip; None: family default"
    )
    max_frames: PositiveInt = 64
    min_frames: PositiveInt = Field(default=4, description="a clip shorter than this uses every frame it has")
    sample_fps: PositiveFloat = Field(default=2.0, description="frames taken per second of a clip")


class ModelSection(Section):
    path: str = Field(description="model folder in transformers format")
    dtype: Literal["float32", "bfloat16"] = "bfloat16"
    attention: Literal["sdpa", "eager"] = "sdpa"
    freeze: tuple[Literal["vision_tower", "projector", "language_model"], ...] = ()
    gradient_checkpointing: bool = True
    box_space: str | None = Field(
        default=None, description="space the model writes boxes and points in; None: the family's"
    )
    time_space: str | None = Field(default=None, description="space the model writes times in; None: the family's")


class VideoSection(Section):
    reader: Literal["decord", "pyav", "opencv", "qwen_vl_utils"] = "pyav"
    deadline_s: PositiveFloat = Field(
        default=120.0, description="a decoder that takes longer is killed; the clip fails"
    )
    broken_tail: Literal["use_decoded", "error"] = Field(
        default="error", description="a clip whose end does not decode: sample from what decodes, or fail"
    )


class CardSection(Section):
    """How the columns of a file become a Sample. A preset fills it; single keys may override the preset."""

    preset: str | None = None
    columns: dict[str, str] = Field(
        default_factory=dict,
        description="sample field -> column: prompt, answer, images, videos, task, id, system, modality, demonstration",
    )
    optional: tuple[str, ...] = Field(
        default=("images", "videos", "task", "id", "system", "modality", "demonstration"),
        description="sample fields whose column a row may lack; the others must be in every row",
    )
    placeholders: Literal["inline", "leading"] = Field(
        default="inline",
        description="inline: the user's text says where each medium goes; leading: all media come first",
    )
    image_placeholder: str | None = Field(
        default="<image>", description="text that stands for an image; None: no such text"
    )
    video_placeholder: str | None = Field(
        default="<video>", description="text that stands for a clip; None: no such text"
    )
    geometry_placeholder: str | None = Field(
        default=None, description="text that stands for a box, point or time in a prompt"
    )
    geometry_column: str | None = Field(
        default=None, description="column with the numbers behind the geometry placeholders"
    )
    geometry_kind: Literal["box", "point", "time"] = "box"
    answer_space: str | None = Field(default=None, description="original_px, model_px, 0..N or seconds")
    task: str | None = Field(default=None, description="task of every row, where no column says it")
    modality: str | None = Field(
        default=None, description="budget class of every row; None: image or video by its media"
    )

    @model_serializer(mode="wrap")
    def _keys_beside_a_preset(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Beside a preset only the keys that were set are written: a written default would override the preset."""
        values = handler(self)
        return values if self.preset is None else {k: v for k, v in values.items() if k in self.model_fields_set}


class DatasetSection(Section):
    path: str = Field(description="file or folder (JSONL, JSON, Parquet, Hugging Face dataset folder)")
    name: str | None = Field(default=None, description="name in metrics; None: the file's stem")
    card: str | CardSection = Field(default_factory=lambda: CardSection.model_validate({}), description="card or path")
    split: str | None = Field(default=None, description="split of a Hugging Face dataset dictionary")
    root: str | None = Field(
        default=None, description="folder relative media paths start from; None: the data file's folder"
    )
    weight: PositiveFloat = 1.0
    budgets: dict[str, BudgetClass] = Field(default_factory=dict, description="overrides of the run's budgets")
    system_prompt: str | None = None
    user_template: str | None = Field(default=None, description="text with {prompt}; applied to the user's text parts")
    task_templates: dict[str, str] = Field(default_factory=dict, description="user_template per task")
    max_samples: PositiveInt | None = None


class DataSection(Section):
    train: tuple[DatasetSection, ...] = ()
    val: tuple[DatasetSection, ...] = ()
    mixture: Literal["concat", "weights", "shares"] = Field(
        default="concat",
        description="concat: each row once an epoch; weights: drawn by weight; shares: fixed part of each batch",
    )
    shuffle: bool = True
    system_prompt: str | None = None
    user_template: str | None = None
    task_templates: dict[str, str] = Field(default_factory=dict)
    max_prompt_tokens: PositiveInt = 8192
    too_long: Literal["error", "skip", "shrink"] = "error"
    bad_row: Literal["error", "skip"] = "error"
    bad_media: Literal["error", "skip"] = "error"
    max_skipped_fraction: Probability = 0.05
    video: VideoSection = Field(default_factory=VideoSection)
    decode_workers: NonNegativeInt = Field(default=0, description="decoder processes; 0: one per core")


class CacheSection(Section):
    dir: str = ".mmrl_cache"
    on_miss: Literal["build", "error"] = "build"
    verify: Literal["first", "always", "never"] = "first"


class RolloutSection(Section):
    engine: Literal["hf"] = "hf"
    group_size: PositiveInt = 8
    temperature: PositiveFloat = 1.0
    top_p: Probability = 1.0
    top_k: NonNegativeInt = 0
    min_p: Probability = 0.0
    max_new_tokens: PositiveInt = 512
    stop: tuple[str, ...] = ()
    max_batch_tokens: PositiveInt = Field(default=32768, description="prompt + completion tokens decoded together")


class RewardPart(Section):
    reward: str = Field(description="shipped name, ./file.py:function or package.module:function")
    name: str | None = Field(default=None, description="name in metrics; None: the reward's")
    weight: float = 1.0
    is_format: bool = Field(default=False, description="counts for training, not for the held-out task score")
    options: dict[str, Any] = Field(default_factory=dict)


class RewardsSection(Section):
    tasks: dict[str, tuple[RewardPart, ...]] = Field(default_factory=dict, description="parts of the reward per task")
    timeout_s: PositiveFloat = 10.0
    workers: NonNegativeInt = Field(
        default=1, description="scoring processes; 0: in this process, without a time limit"
    )
    on_error: Literal["unscored", "error"] = Field(
        default="unscored",
        description="a reward that raises, times out or is NaN: leave the row out of its group, or stop",
    )


class AlgorithmSection(Section):
    advantage: str = "grpo"
    policy_loss: str = "ppo_clip"
    aggregation: Literal[
        "token-mean",
        "seq-mean-token-mean",
        "seq-mean-token-sum",
        "seq-mean-token-sum-norm",
        "seq-sum-token-sum-norm",
    ] = "token-mean"
    aggregation_length: PositiveInt | None = Field(
        default=None, description="L of the two -norm modes; None: max_new_tokens"
    )
    std_eps: NonNegativeFloat = 1e-6
    clip_low: Probability = 0.2
    clip_high: NonNegativeFloat = 0.28
    dual_clip: PositiveFloat | None = 3.0
    ref_kl_coef: NonNegativeFloat = 0.0
    ref_kl_estimator: Literal["k1", "k2", "k3"] = "k3"
    updates_per_batch: PositiveInt = Field(default=1, description="optimizer steps on the groups of one rollout batch")
    epochs_per_batch: PositiveInt = Field(default=1, description="passes over one rollout batch")
    dynamic_sampling: bool = Field(default=False, description="replace zero-std groups until the batch is full")
    max_generation_rounds: PositiveInt = 10
    overlong_buffer: NonNegativeInt = Field(
        default=0, description="last tokens before max_new_tokens with a growing penalty"
    )
    overlong_factor: NonNegativeFloat = 1.0
    mask_truncated: bool = Field(
        default=False, description="truncated completions: no loss, still in the group's statistics"
    )
    plugins: tuple[str, ...] = ()


class StageSection(Section):
    """One stage of training. `grpo` learns from rewards; `sft` imitates the dataset's demonstrations."""

    name: str
    kind: Literal["sft", "grpo"]
    steps: PositiveInt
    prompts_per_step: PositiveInt
    lr: PositiveFloat = 1e-6
    lr_schedule: Literal["constant", "linear", "cosine"] = "constant"
    min_lr_ratio: Probability = 0.0
    warmup_steps: NonNegativeInt = 0
    weight_decay: NonNegativeFloat = 0.0
    tasks: tuple[str, ...] = Field(default=(), description="only rows of these tasks; empty: all")
    data: DataSection | None = Field(default=None, description="data of this stage; None: the run's")


class TrainSection(Section):
    betas: tuple[float, float] = (0.9, 0.999)
    max_grad_norm: PositiveFloat = 1.0
    micro_batch_tokens: PositiveInt = Field(
        default=16384, description="padded tokens (rows x longest row) of one micro-batch"
    )
    shared_prefix: bool = Field(default=True, description="one row per group where the family can; else separate rows")
    logprob_chunk: PositiveInt = Field(default=1024, description="positions whose full-vocabulary logits exist at once")
    zero_stage: Literal[0, 1, 2, 3] = 0


class ValidationSection(Section):
    before_first: bool = True
    every: NonNegativeInt = Field(default=0, description="steps between validations; 0: only at the ends")
    n: PositiveInt = Field(default=1, description="1: greedy; more: that many samples, mean score")
    batch_size: PositiveInt = 64
    generations: NonNegativeInt = Field(default=8, description="generations shown in the log per validation")


class CheckpointSection(Section):
    every: NonNegativeInt = Field(default=0, description="steps between checkpoints; 0: at stage ends only")
    keep_last: PositiveInt = 2
    best: str | None = Field(default="val/mean", description="score whose best checkpoint is kept; None: none")


class LogSection(Section):
    tensorboard: bool = True
    rollouts_per_step: NonNegativeInt = Field(default=4, description="completions written to rollouts.jsonl a step")
    console: bool = True


class RunConfig(Section):
    """Everything a run needs, read from YAML; resolved.yaml in the run folder repeats it whole."""

    name: str = "run"
    out_dir: str = "runs"
    seed: int = 0
    model: ModelSection
    budgets: dict[str, BudgetClass] = Field(
        default_factory=lambda: {
            "image": BudgetClass.model_validate({}),
            "video": BudgetClass.model_validate({"max_pixels": 768 * 28 * 28}),
        }
    )
    data: DataSection = Field(default_factory=DataSection)
    cache: CacheSection = Field(default_factory=CacheSection)
    rollout: RolloutSection = Field(default_factory=RolloutSection)
    rewards: RewardsSection = Field(default_factory=RewardsSection)
    algorithm: AlgorithmSection = Field(default_factory=AlgorithmSection)
    stages: tuple[StageSection, ...] = ()
    train: TrainSection = Field(default_factory=TrainSection)
    validation: ValidationSection = Field(default_factory=ValidationSection)
    checkpoint: CheckpointSection = Field(default_factory=CheckpointSection)
    log: LogSection = Field(default_factory=LogSection)
