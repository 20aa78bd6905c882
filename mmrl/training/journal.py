"""The bookkeeping of a run: where it stands, metrics, validation, checkpoints, console. Keeps the loop one page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mmrl.config.schema import StageSection
from mmrl.data.sample import Sample
from mmrl.training import distributed
from mmrl.training.benchmarks import OpenBenchmark, evaluate
from mmrl.training.checkpoint import (
    checkpoint_name,
    load_optimizer_state,
    load_stage_state,
    load_state,
    prune_checkpoints,
    restore_random_state,
    save_checkpoint,
)
from mmrl.training.closing import Closing, closing_lines, interrupted_line, stopped_line
from mmrl.training.console import TrainConsole, score_table
from mmrl.training.early_stop import should_stop
from mmrl.training.ema import AVERAGED
from mmrl.training.metrics import MetricsLog, peak_memory_gib
from mmrl.training.model_folder import beside_weights, policy_weights, save_beside, save_policy_folder
from mmrl.training.optimizer_layout import SavedState, optimizer_state, pieces_of, relaid_out
from mmrl.training.resume import stage_record
from mmrl.training.run_folder import command_to_go_on
from mmrl.training.runtime import Runtime, stage_data
from mmrl.training.schedule import checkpoint_due, evaluation_due, reset_optimizer, validation_due
from mmrl.training.signals import ToldInterrupt
from mmrl.training.trackers import TrackedRun, Tracker, open_trackers, record_id
from mmrl.training.validate import validate
from mmrl.training.value_head import load_value_head
from mmrl.training.zero import load_optimizer, optimizer_layout


@dataclass
class Position:
    """Where a run stands; what state.json of a checkpoint holds.

    stage: index of the stage under way. stage_step: its finished steps. step: finished steps of the run.
    validations: (label, step, metrics) so far; those of the stage under way begin at `first_validation`.
    evaluation: (step, metrics) of the benchmarks' last run. best: (score, checkpoint name) or None.
    seconds: per part of the run.
    unscored: per step of reinforcement learning so far, summed, the share of completions that no reward could score;
    scored_steps: how many such steps.
    """

    stage: int = 0
    stage_step: int = 0
    step: int = 0
    policy_version: int = 0
    validations: list[tuple[str, int, dict[str, float]]] = field(default_factory=list)
    first_validation: int = 0
    evaluation: tuple[int, dict[str, float]] | None = None
    best: tuple[float, str] | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    unscored: float = 0.0
    scored_steps: int = 0


class Journal:
    """Everything around a step. `checkpoint` is the one to continue from, or None for a fresh run."""

    def __init__(
        self,
        run: Runtime,
        *,
        checkpoint: Path | None,
        val: Sequence[Sequence[Sample]],
        benchmarks: Sequence[OpenBenchmark] = (),
    ) -> None:
        self.run, self.config, self.checkpoint = run, run.config, checkpoint
        self._val, self._benchmarks = val, benchmarks
        self.console = TrainConsole(enabled=self.config.log.console and distributed.is_main())
        state = load_state(checkpoint) if checkpoint else None
        self.position = Position(**state["position"]) if state else Position()
        self._saved_step = self.position.step
        self.metrics = MetricsLog(run.folder, self._trackers(resumed=state is not None))
        self._logs = (self.metrics.lines, run.rollouts_log, run.skipped)
        self._stage_state: dict[str, Any] | None = None
        if checkpoint and state:
            self._restore(checkpoint, state)

    def enter_stage(self, index: int, section: StageSection, stage: Any) -> int:
        """Restore or reset what belongs to a stage, validate before its first step. Returns the step to start at."""
        position = self.position
        if self._stage_state is not None:
            stage.load_state_dict(self._stage_state)
            self._stage_state = self.run.continues = None
        else:
            position.stage, position.stage_step = index, 0
            position.first_validation = len(position.validations)
            reset_optimizer(self.run.trainer.optimizer)
            if self.run.ema is not None:
                self.run.ema.restart(self.run.policy)
        validated = bool(position.validations) and position.validations[-1][1] == position.step
        if not position.stage_step and self.config.validation.before_first and not validated:
            self.validate(section, label=f"before {section.name}")
        evaluated = position.evaluation is not None and position.evaluation[0] == position.step
        if not position.stage_step and self.config.evaluate.before_first and not evaluated:
            self.evaluate(section)
        self.console.start_stage(section.name, done=position.stage_step, total=section.steps)
        return position.stage_step

    def leave_stage(self) -> None:
        self.console.end_stage()
        self.run.beside.clear()

    def record_step(self, section: StageSection, values: dict[str, float]) -> None:
        """Write the metrics row of a step and move on."""
        position = self.position
        position.stage_step, position.step = position.stage_step + 1, position.step + 1
        if "reward/unscored" in values:
            position.unscored += values["reward/unscored"]
            position.scored_steps += 1
        row = {**values, **self._machine_metrics(values)}
        if distributed.is_main():
            self.metrics.write(position.step, section.name, row)
        self.console.step(position.stage_step, row)
        self.console.reward_events(self.run.reward_events)
        while self.run.warnings:
            self.console.print(f"warning: {self.run.warnings.pop(0)}")

    def validation_due(self, section: StageSection) -> bool:
        return validation_due(self.config, section, done=self.position.stage_step)

    def evaluation_due(self, section: StageSection) -> bool:
        return evaluation_due(self.config, section, done=self.position.stage_step)

    def checkpoint_due(self, section: StageSection) -> bool:
        """At the stage's end, every `checkpoint.every` steps, and whenever the watched score is the best so far."""
        return checkpoint_due(self.config, section, done=self.position.stage_step) or self._is_best()

    def stops_early(self, section: StageSection) -> bool:
        """Whether the stage's held-out score has stopped rising: said by the validations of the stage so far."""
        rows = [metrics for _, _, metrics in self.position.validations[self.position.first_validation :]]
        return section.early_stop is not None and should_stop(section.early_stop, rows)

    def validate(self, section: StageSection, *, label: str | None = None) -> None:
        """Score the held-out rows of the stage's data, if there are any."""
        position, samples = self.position, self._val[self.position.stage]
        if not samples:
            return
        with self.run.watch.time("validation"), self.run.evaluated():
            result = validate(self.run, samples, stage_data(self.config, section))
        position.validations.append((label or f"{section.name} {position.stage_step}", position.step, result.metrics))
        if distributed.is_main():
            self.metrics.write(position.step, section.name, result.metrics)
            self.metrics.show(position.step, result.generations)
            for generation in result.generations:
                self.run.rollouts_log.write({"step": position.step, "split": "val", **generation.row})
        self.console.validation(position.step, result.metrics, [generation.row for generation in result.generations])

    def evaluate(self, section: StageSection) -> None:
        """Run the benchmarks, if there are any."""
        position = self.position
        if not self._benchmarks:
            return
        with self.run.watch.time("evaluation"), self.run.evaluated():
            metrics = evaluate(self.run, self._benchmarks, step=position.step)
        position.evaluation = (position.step, metrics)
        if distributed.is_main():
            self.metrics.write(position.step, section.name, metrics)
        self.console.evaluation(position.step, metrics)

    def save(self, stage: Any, *, finished: bool) -> None:
        """Write a checkpoint, note the best, prune the rest. A finished stage's checkpoint starts the next one."""
        position = self.position
        position.policy_version = self.run.policy_version
        if self._is_best():
            position.best = (self._watched_score(), checkpoint_name(position.step))
        where = {"stage": position.stage + 1, "stage_step": 0} if finished else {}
        state = {
            "position": {**asdict(position), **where},
            "stage_state": None if finished else stage.state_dict(),
            "log_sizes": [log.size for log in self._logs],
            "stages": stage_record(self.config),
            "optimizer": self._optimizer_layout,
        }
        is_shared_out = self._optimizer_layout["processes"] > 1
        is_writing = is_shared_out or distributed.is_main()
        weights, beside = policy_weights(self.run), beside_weights(self.run)
        self.metrics.flush()  # what a checkpoint covers is not logged again when the run continues

        def save_models(folder: Path) -> None:
            save_policy_folder(self.run, folder, weights)
            save_beside(self.run, folder.parent, beside)

        self.checkpoint = save_checkpoint(
            self.run.folder,
            step=position.step,
            state=state,
            optimizer_state=optimizer_state(self.run.trainer) if is_writing else None,
            beside_states={n: optimizer_state(e) for n, e in self.run.beside.items()} if is_writing else {},
            save_model=save_models,
        )
        self._saved_step = position.step
        best, keep_last = position.best[1] if position.best else None, self.config.checkpoint.keep_last
        distributed.on_main(lambda: prune_checkpoints(self.run.folder, keep_last=keep_last, best=best))

    def finish(self) -> None:
        """The closing table, below whatever the trackers say at their end."""
        position = self.position
        self._take_seconds()  # of the last validation and checkpoint
        self.metrics.close()
        if position.validations:
            self.console.print(score_table([(label, metrics) for label, _, metrics in self._milestones()]))
        assert self.checkpoint is not None
        best = position.best
        closing = Closing(
            folder=self.run.folder,
            latest=(self.checkpoint, self._watched_score()),
            best=(self.checkpoint.with_name(best[1]), best[0]) if best else None,
            watched=self.config.checkpoint.best,
            cache=self.run.cache.metrics(),
            seconds=position.seconds,
            model="model" if self.run.ema is None else AVERAGED,
            unscored=position.unscored / position.scored_steps if position.scored_steps else 0.0,
            has_rollouts=self.run.rollouts_log.size > 0,
            tensorboard="tensorboard" in self.config.log.trackers,
        )
        self.console.print(closing_lines(closing))

    def stopped(self) -> None:
        """Say, after a stop request, how far the run came and how it goes on."""
        self.metrics.close()
        assert self.checkpoint is not None
        self.console.print(stopped_line(self.position.step, self.checkpoint, command=self._command))

    @contextmanager
    def told_of_ctrl_c(self) -> Iterator[None]:
        """Within the block Ctrl-C also says which steps are lost and how the run goes on."""
        try:
            yield
        except KeyboardInterrupt as interrupt:
            self.console.end_stage()
            said = {"saved_step": self._saved_step, "checkpoint": self.checkpoint, "command": self._command}
            line = interrupted_line(self.position.step, **said)
            self.console.print(line)
            raise ToldInterrupt("" if self.config.log.console else line) from interrupt

    @property
    def _command(self) -> str:
        flag = "--resume" if self.checkpoint else "--overwrite"
        return command_to_go_on(self.run.folder, processes=distributed.world_size(), flag=flag)

    def _trackers(self, *, resumed: bool) -> list[Tracker]:
        """Opened on the main rank only."""
        if not distributed.is_main():
            return []
        run = TrackedRun(
            folder=self.run.folder,
            project=self.config.log.project,
            name=self.config.name,
            record_id=record_id(self.run.folder),
            config=self.config.model_dump(mode="json"),
            next_step=self.position.step + 1 if resumed else None,
        )
        names = self.config.log.trackers
        trackers = open_trackers(names, run)
        for name, tracker in zip(names, trackers, strict=True):
            if tracker.address:
                self.console.print(f"{name}: {tracker.address}")
        return trackers

    def _restore(self, checkpoint: Path, state: dict[str, Any]) -> None:
        """Continue from a checkpoint: stage, optimizer, random states, and the logs cut back to it."""
        self._stage_state = load_stage_state(checkpoint, state)
        self.run.continues = None if self._stage_state is None else checkpoint
        self.run.policy_version = self.position.policy_version
        self.run.is_engine_stale = True  # it has these weights under the number of a fresh run
        self._restore_optimizer(checkpoint, saved=state.get("optimizer", self._optimizer_layout))
        restore_random_state(checkpoint)
        if self.run.ema is not None:
            self.run.ema.load(checkpoint)
        if self.run.value_head is not None:
            load_value_head(self.run.value_head, checkpoint)
        over = self.position.stage == len(self.config.stages)
        left = "; all stages are finished, nothing is left to train" if over else ""
        self.console.print(f"continuing from {checkpoint} ({self.position.step} steps done){left}")
        if distributed.is_main():
            for log, size in zip(self._logs, state["log_sizes"], strict=True):
                log.cut(size)

    @property
    def _optimizer_layout(self) -> dict[str, Any]:
        return optimizer_layout(model_section=self.config.model, train=self.config.train)

    def _restore_optimizer(self, checkpoint: Path, *, saved: dict[str, Any]) -> None:
        """Put the optimizer's state back, laid out anew where other processes or another stage saved it."""
        layout = self._optimizer_layout
        if saved != layout:
            self._restore_other_layout(checkpoint, saved=saved)
            return
        part = distributed.rank() if layout["processes"] > 1 else 0
        state = distributed.together(lambda: load_optimizer_state(checkpoint, part=part))
        load_optimizer(self.run.trainer, state)

    def _restore_other_layout(self, checkpoint: Path, *, saved: dict[str, Any]) -> None:
        """AdamW's state goes on; that of other optimizers, or of other types of weights, starts anew, which is said."""
        layout = self._optimizer_layout
        changed = ", ".join(f"{k} {saved.get(k)} -> {v}" for k, v in layout.items() if saved.get(k) != v)
        same_kind = all(saved.get(key) == layout[key] for key in ("dtype", "optimizer"))
        state = None
        if same_kind and layout["optimizer"] == "adamw" and pieces_of(self.run.trainer) is not None:
            state = distributed.together(lambda: SavedState.of(checkpoint, processes=saved["processes"]))
        if state is None:
            self.console.print(
                f"the optimizer starts anew: its state was saved for another layout ({changed}). Weights, steps, data "
                "order and scores continue; moments (and float32 master weights of bfloat16 models) do not"
            )
            return
        distributed.together(lambda: relaid_out(self.run.trainer, state))
        self.console.print(f"the optimizer's state was saved for another layout ({changed}) and is laid out anew")

    def _milestones(self) -> list[tuple[str, int, dict[str, float]]]:
        """The first validation and the last one of every stage, at most."""
        by_stage: dict[str, tuple[str, int, dict[str, float]]] = {}
        for entry in self.position.validations:
            by_stage[entry[0].rsplit(" ", 1)[0] if not entry[0].startswith("before") else "start"] = entry
        return list(by_stage.values())

    def _watched_score(self) -> float:
        """The score `checkpoint.best` names, if it was measured at this very step; else minus infinity."""
        position, key = self.position, self.config.checkpoint.best
        measured = [(step, metrics) for _, step, metrics in position.validations[-1:]]
        measured += [position.evaluation] if position.evaluation else []
        scores = [metrics[key] for step, metrics in measured if step == position.step and key in metrics]
        return scores[0] if scores else float("-inf")

    def _is_best(self) -> bool:
        score, best = self._watched_score(), self.position.best
        return score > (best[0] if best else float("-inf"))

    def _machine_metrics(self, values: dict[str, float]) -> dict[str, float]:
        """Numbers that depend on the machine: seconds per part, throughput, cache, memory."""
        taken = self._take_seconds()
        machine = {f"perf/seconds_{part}": seconds for part, seconds in taken.items()}
        if taken.get("step") and "tokens" in values:
            machine["perf/tokens_per_second"] = values["tokens"] / taken["step"]
            machine["perf/data_stall"] = taken.get("data", 0.0) / taken["step"]
        counts = self.run.cache.metrics()
        cache = {f"perf/cache_{key}": value for key, value in counts.items()}
        cache["perf/cache_hit_rate"] = counts["hits"] / max(1, counts["hits"] + counts["misses"])
        return {**machine, **cache, **peak_memory_gib()}

    def _take_seconds(self) -> dict[str, float]:
        """Seconds per part since the last call, added to those of the run."""
        taken = self.run.watch.take()
        totals = defaultdict(float, self.position.seconds)
        for part, seconds in taken.items():
            totals[part] += seconds
        self.position.seconds = dict(totals)
        return taken
