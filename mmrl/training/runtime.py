"""What all stages of a run share: model, engines, cache, router, logs. Built once, closed once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from mmrl.config.schema import DataSection, RunConfig, StageSection, VideoSection
from mmrl.data.decoder import MediaOpener
from mmrl.data.feature_cache import MediaCache
from mmrl.data.prepare import Prepared, Preparer
from mmrl.data.read_ahead import ReadAhead
from mmrl.data.sample import GeometryKind, Sample
from mmrl.data.skipped import SkippedLog
from mmrl.models.attention import attention_way
from mmrl.models.families import FamilyProcessor
from mmrl.models.load import load_policy
from mmrl.models.logprobs import ValueHead
from mmrl.models.merged import merged_parameters
from mmrl.models.trained_with import trained_with, write_trained_with
from mmrl.rollout.open import open_engine
from mmrl.rollout.types import Engine
from mmrl.scoring.router import Router
from mmrl.training import distributed
from mmrl.training.ema import Ema
from mmrl.training.media_cache import engine_note, open_cache
from mmrl.training.metrics import JsonLines, Stopwatch
from mmrl.training.schedule import build_optimizer
from mmrl.training.step import LogprobSettings
from mmrl.training.value_head import value_head_for
from mmrl.training.zero import build_engine, engine_config, is_partitioned, whole_tensors, whole_weights


@dataclass
class Runtime:
    """The parts of a running job.

    policy: the trained model. value_head: what is trained beside it where the algorithm needs values. trainer: the
    DeepSpeed engine around both, whose forward pass is `token_logprobs`. is_engine_stale: whether the rollout engine
    has yet to get the policy's present weights. background: one thread, in which completions may be sampled during
    training. feature_gap_known: whether cached features were compared with pixels. warnings: what the console has yet
    to say. beside: engines of further models that the stage under way trains, by name. continues: the checkpoint, of
    the middle of a stage, that the run goes on from, until it does.
    """

    config: RunConfig
    folder: Path
    policy: torch.nn.Module
    processor: FamilyProcessor
    trainer: Any
    optimizer: torch.optim.Optimizer
    rollout: Engine
    router: Router
    cache: MediaCache
    skipped: SkippedLog
    rollouts_log: JsonLines
    ema: Ema | None = None
    value_head: ValueHead | None = None
    watch: Stopwatch = field(default_factory=Stopwatch)
    policy_version: int = 0
    is_engine_stale: bool = True
    openers: dict[tuple[VideoSection, int], MediaOpener] = field(default_factory=dict)
    reward_events: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    background: Executor = field(default_factory=lambda: ThreadPoolExecutor(1, "sampling", use_device))
    skips_shared: int = 0
    ahead: ReadAhead = field(default_factory=ReadAhead)
    feature_gap_known: bool = False
    beside: dict[str, Any] = field(default_factory=dict)
    continues: Path | None = None

    def prepare(self, samples: Sequence[Sample], data: DataSection) -> list[Prepared]:
        """Media from the cache, prompts rendered, answers in the model's space. Skipped samples are missing."""
        with self.watch.time("media"):
            self.ahead.settle()
            return self._preparer(data).prepare(samples)

    def read_ahead(self, samples: Sequence[Sample], data: DataSection) -> None:
        """Open the media of samples that are expected next, in a thread."""
        pin = torch.cuda.is_available() and data.pin_memory is not False
        if samples:
            self.ahead.begin(self._preparer(data), samples, pin=pin)

    def _preparer(self, data: DataSection) -> Preparer:
        return Preparer(
            cache=self.cache,
            opener=self.opener_of(data),
            processor=self.processor,
            config=self.config,
            data=data,
            skipped=self.skipped,
            geometry_kind=self.geometry_kind,
            ready=self.ahead.take,
        )

    def share_skipped(self) -> None:
        """Tell all processes of the rows that each left out: the list is whole, and its limit is that of the run."""
        new = self.skipped.rows[self.skips_shared :] if distributed.world_size() > 1 else ()
        for rows in distributed.gather_objects(new):
            for row in rows:
                self.skipped.skip(row)
        self.skips_shared = len(self.skipped.rows)
        distributed.together(self.skipped.check)

    def opener_of(self, data: DataSection) -> MediaOpener:
        """The opener with this section's reader and decoder processes; stages with the same settings share one."""
        settings = (data.video, data.decode_workers)
        if settings not in self.openers:
            self.openers[settings] = MediaOpener(data.video, workers=data.decode_workers)
        return self.openers[settings]

    def geometry_kind(self, task: str) -> GeometryKind | None:
        """What kind of place a task's answers are; None for other answers and for tasks without a reward (sft only)."""
        return self.router.geometry_kind(task) if task in self.config.rewards.tasks else None

    def logprob_settings(self, *, temperature: float) -> LogprobSettings:
        return LogprobSettings(
            processor=self.processor,
            temperature=temperature,
            banned_ids=self.rollout.banned_ids,
            chunk=self.config.train.logprob_chunk,
            micro_batch_tokens=self.config.train.micro_batch_tokens,
            attention=self.config.train.attention,
            padded=not self.config.train.padding_free or self._attention == "sdpa",
        )

    @property
    def _attention(self) -> str:
        return attention_way(self.config.train.attention, self.policy, distributed.device())

    @property
    def attention_note(self) -> str:
        """What is said at start of how packed rows attend."""
        padding = "rows are padded" if self.logprob_settings(temperature=1.0).padded else "no padding"
        return f"attention of packed rows: {self._attention}, {padding} (train.attention {self.config.train.attention})"

    def updated(self) -> None:
        """After the weights were trained: count the version, and let the average take them in. The rollout engine gets
        them before it samples again.
        """
        self.policy_version += 1
        self.is_engine_stale = True
        if self.ema is not None:
            self.ema.update(self.policy)

    def send_weights(self) -> None:
        """Give the rollout engine, which is awake, the policy's present weights."""
        with self.watch.time("sync"):
            self.rollout.sync_weights(self._weights(), self.policy_version)
        self.is_engine_stale = False

    @contextmanager
    def sampling(self) -> Iterator[None]:
        """Within the block the rollout engine is awake, with the present weights, and completions may be sampled, by
        each process as often as it likes; entered by all together. Outside of it the engine sleeps: its memory is the
        trainer's.

        Under ZeRO-3 an engine that shares the trainer's modules has the whole model gathered for it meanwhile.
        """
        with whole_weights(self.trainer) if self.shares_modules else nullcontext():
            self.rollout.wake()
            if self.is_engine_stale or not self.rollout.has_weights:
                self.send_weights()
            yield
            self.rollout.sleep()

    @property
    def shares_modules(self) -> bool:
        """Whether the rollout engine's model is the policy itself."""
        return getattr(self.rollout, "model", None) is self.policy

    def _weights(self) -> Iterable[tuple[str, torch.Tensor]]:
        """The policy's weights by name, whole; those of shared modules as they are, for nothing is to be copied.

        An engine with a model of its own gets them merged, without adapters.
        """
        if self.shares_modules:
            return self.policy.named_parameters()
        if is_partitioned(self.policy):
            # Cloned: each is valid until the next only, and an engine may hold several until a fused layer is complete.
            return ((name, tensor.clone()) for name, tensor in whole_tensors(self.policy.named_parameters()))
        return merged_parameters(self.policy)

    @contextmanager
    def evaluated(self) -> Iterator[None]:
        """Within the block the policy has the weights that are validated: the averages, if any.

        So has the rollout engine once it samples, whether it shares the policy's modules or not.
        """
        if self.ema is None:
            yield
            return
        with self.ema.applied(self.policy):
            self.is_engine_stale = True
            yield
        self.is_engine_stale = True

    def close(self) -> None:
        """End everything. What the engine still generates in the background ends with it, and is waited for."""
        self.rollout.close()
        self.background.shutdown(cancel_futures=True)
        self.router.close()
        self.ahead.close()
        for opener in self.openers.values():
            opener.close()


def open_runtime(config: RunConfig, folder: Path, *, model_path: Path) -> Runtime:
    """Load the model from `model_path` (the base or a checkpoint) and start every part. The caller closes it."""
    distributed.start_processes()
    router = Router(config.rewards)
    distributed.together(router.validate)
    section = config.model.model_copy(update={"path": str(model_path)})
    model, processor = distributed.together(lambda: load_policy(section))
    cache = distributed.together(lambda: open_cache(config, model, processor))
    if distributed.is_main():
        write_trained_with(trained_with(config, processor, policy_version=0), folder)
    value_head = value_head_for(config, model)
    ratio = config.algorithm.value.lr_ratio
    optimizer = build_optimizer(model, config.train, value_head=value_head, value_lr_ratio=ratio)
    settings = engine_config(model_section=config.model, train=config.train)
    trainer = build_engine(model, optimizer, settings, value_head=value_head)
    run = Runtime(
        config=config,
        folder=folder,
        policy=model,
        processor=processor,
        trainer=trainer,
        optimizer=optimizer,
        rollout=open_engine(config, model, processor),
        value_head=value_head,
        ema=None if config.train.ema_decay is None else Ema(model, decay=config.train.ema_decay),
        router=router,
        cache=cache,
        skipped=SkippedLog(
            folder / "skipped.jsonl" if distributed.is_main() else None, max_fraction=config.data.max_skipped_fraction
        ),
        rollouts_log=JsonLines(folder / "rollouts.jsonl"),
    )
    note = engine_note(config, cache, processor)
    run.warnings.extend([] if note is None else [note])
    run.send_weights()  # weights that do not fit the engine end the run here
    run.rollout.sleep()
    return run


def use_device() -> None:
    """Make this process's GPU the present one of a new thread, which would else use the machine's first."""
    if torch.cuda.is_available():
        torch.cuda.set_device(distributed.device())


def stage_data(config: RunConfig, stage: StageSection) -> DataSection:
    """The data section of a stage; of one that takes another one's rows it is that one's."""
    if stage.rows_from is not None:
        return stage_data(config, next(earlier for earlier in config.stages if earlier.name == stage.rows_from))
    return stage.data or config.data
