"""Training: stage after stage, step after step, with validation and checkpoints. This page is the whole loop."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Protocol

from mmrl.algorithms.hook_order import hook_order
from mmrl.config.checks import located
from mmrl.config.run_checks import check_run
from mmrl.config.schema import RunConfig, StageSection
from mmrl.models.hub import pinned
from mmrl.training import distributed
from mmrl.training.benchmarks import open_benchmarks
from mmrl.training.dpo import DpoStage
from mmrl.training.grpo import GrpoStage
from mmrl.training.journal import Journal
from mmrl.training.prompts import check_shares
from mmrl.training.resume import newest_checkpoint
from mmrl.training.run_folder import only_run_in, open_run_folder
from mmrl.training.runtime import Runtime, open_runtime, stage_data
from mmrl.training.sample_stage import SampleStage
from mmrl.training.schedule import learning_rate, set_hyperparameters
from mmrl.training.sft import SftStage
from mmrl.training.signals import EXIT_TERMINATED, StopRequest, stop_on_sigterm
from mmrl.training.stage_rows import StageRows, check_rows, read_rows, train_loader, val_rows


class Stage(Protocol):
    """A kind of training. `step` trains on the next batch and returns metrics; the rest makes it resumable."""

    def step(self, number: int) -> dict[str, float]: ...

    def state_dict(self) -> dict: ...

    def load_state_dict(self, state: dict) -> None: ...


STAGES = {"sft": SftStage, "grpo": GrpoStage, "dpo": DpoStage, "sample": SampleStage}


def train(config: RunConfig, *, resume: bool = False, overwrite: bool = False) -> int:
    """Run all stages of a configuration. Returns the process's exit code.

    With resume the newest complete checkpoint of the run folder is continued exactly; where there is none yet, the
    run starts from the beginning. SIGTERM ends it after the step under way with a checkpoint and exit code 75.
    """
    if distributed.was_launched():
        distributed.start_processes()
    distributed.on_main(lambda: check_run(located(config), training=True))
    distributed.together(lambda: check_shares(config))
    with ExitStack() as held:
        distributed.on_main(lambda: held.enter_context(only_run_in(Path(config.out_dir) / config.name)))
        code = _train(config, resume=resume, overwrite=overwrite)
        distributed.barrier()  # a launcher ends the others when one process ends
        return code


def _train(config: RunConfig, *, resume: bool, overwrite: bool) -> int:
    place = located(config)
    config = config.model_copy(update={"model": distributed.on_main(lambda: pinned(config.model))})
    # Before anything is written: a run that cannot be continued stays as it is.
    folder = Path(config.out_dir) / config.name
    checkpoint = distributed.on_main(lambda: newest_checkpoint(folder, config)) if resume else None
    folder, changes = distributed.on_main(lambda: open_run_folder(config, resume=resume, overwrite=overwrite))
    model_path = checkpoint / "model" if checkpoint else Path(config.model.path)
    log = None if checkpoint else folder / "skipped.jsonl"
    rows, skipped = distributed.together(lambda: read_rows(config, log=log))
    notes = distributed.together(lambda: check_rows(place, rows, model_path=model_path))
    run = open_runtime(config, folder, model_path=model_path)
    with closing(run), open_benchmarks(run) as benchmarks:
        val = [val_rows(s, r) for s, r in zip(config.stages, rows, strict=True)]
        journal = Journal(run, checkpoint=checkpoint, val=val, benchmarks=benchmarks)
        run.skipped.add(skipped)
        journal.console.opening(changes, [run.attention_note, *notes], hook_order(config))
        with stop_on_sigterm() as stop, journal.told_of_ctrl_c():
            for index in range(journal.position.stage, len(config.stages)):
                if not run_stage(run, journal, index, rows, stop):
                    journal.stopped()
                    return EXIT_TERMINATED
            journal.finish()
    return 0


def run_stage(run: Runtime, journal: Journal, index: int, rows: Sequence[StageRows], stop: StopRequest) -> bool:
    """Train one stage to its end. False when a stop request ended it early."""
    section: StageSection = run.config.stages[index]
    stopping = False
    run.skipped.max_fraction = stage_data(run.config, section).max_skipped_fraction
    stage: Stage = STAGES[section.kind](run, section, train_loader(run, index, rows))
    for number in range(journal.enter_stage(index, section, stage), section.steps):
        lr = learning_rate(section, number)
        set_hyperparameters(run.optimizer, lr=lr, weight_decay=section.weight_decay)
        with run.watch.time("step"):
            metrics = stage.step(number)
        journal.record_step(section, {"lr": lr, **metrics})
        if journal.validation_due(section):
            journal.validate(section)
        if journal.evaluation_due(section):
            journal.evaluate(section)
        finished = number + 1 == section.steps or journal.stops_early(section)
        stopping = distributed.any_rank(stop)
        if journal.checkpoint_due(section) or finished or stopping:
            journal.save(stage, finished=finished)
        if finished or stopping:
            break
    journal.leave_stage()
    return not stopping
