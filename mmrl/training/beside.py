"""The models beside the policy that hooks asked for: loaded once a stage, read in the log-prob pass, perhaps trained.

A trained one is an engine like the policy's, with an optimizer of its own: `run.beside`. Checkpoints hold its weights
in `beside/NAME`, an ordinary model folder, and its optimizer's state in `optimizer-NAME-<rank>.pt`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from mmrl.algorithms.algorithm import Algorithm
from mmrl.algorithms.batch import Row
from mmrl.algorithms.beside import PREFIX
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.schema import ModelSection
from mmrl.errors import CheckpointError, ConfigError
from mmrl.models.families import FamilyProcessor
from mmrl.models.load import load_policy, processor_of
from mmrl.training import distributed
from mmrl.training.checkpoint import load_optimizer_state, load_state
from mmrl.training.media_cache import reads_pixels
from mmrl.training.reference import Reference, open_frozen
from mmrl.training.runtime import Runtime
from mmrl.training.schedule import build_optimizer, set_hyperparameters
from mmrl.training.step import Grids, LogprobSettings, logprob_pass, optimizer_step
from mmrl.training.zero import build_engine, engine_config, load_optimizer, optimizer_layout


class Beside:
    """The models of one stage by name. Every process opens them, and calls each method, together with the others."""

    def __init__(self, run: Runtime, algorithm: Algorithm, settings: LogprobSettings) -> None:
        self.algorithm, self.settings = algorithm, settings
        self._models: dict[str, Reference] = {}
        for name, wanted in algorithm.models.items():
            section = run.config.model.model_copy(update={"path": wanted.path, "revision": None})
            distributed.together(lambda s=section, n=name: _check_tokens(s, run.processor, name=n))
            if wanted.lr is None:
                self._models[name] = open_frozen(run, section)
            else:
                self._models[name] = run.beside[name] = _open_trained(run, section, name=name)

    def with_logprobs(self, batch: RolloutBatch, rows: Sequence[Row], wanted: Sequence[str]) -> RolloutBatch:
        """The batch with the log-probs of those models that are wanted."""
        shape = (len(batch), batch.mask_NC.shape[1])
        for name in wanted:
            if name.startswith(PREFIX):
                model = self._models[name.removeprefix(PREFIX)]
                batch = batch.with_grids({name: logprob_pass(model, rows, settings=self.settings, shape=shape)[0]})
        return batch

    def learn(self, batch: RolloutBatch, rows_of_batch: Callable[[], Sequence[Row]]) -> dict[str, float]:
        """One step of each model that learns, on the mean of its loss over the completions of all processes."""
        metrics = {}
        learning = {name: wanted.lr for name, wanted in self.algorithm.models.items() if wanted.lr is not None}
        for name, lr in learning.items():
            [count] = distributed.sum_over_ranks([float(len(batch))])
            engine: Any = self._models[name]
            set_hyperparameters(engine.optimizer, lr=lr, weight_decay=0.0)
            how = {"settings": self.settings, "num_tokens": batch.mask_NC.shape[1]}
            sums = optimizer_step(engine, rows_of_batch(), self._loss(name, batch, count=count), **how)
            metrics |= {f"{name}/loss": sums["loss/total"], f"{name}/grad_norm": sums["grad_norm"]}
        return metrics

    def _loss(self, name: str, batch: RolloutBatch, *, count: float) -> Any:
        def loss(logprobs_NC: torch.Tensor, sequences: torch.Tensor, extra: Grids) -> tuple[torch.Tensor, dict]:
            return self.algorithm.model_loss(name, logprobs_NC, batch.select(sequences)).sum() / count, {}

        return loss


def _open_trained(run: Runtime, section: ModelSection, *, name: str) -> Any:
    """The engine around a model that learns; that of a continued stage goes on from the checkpoint."""
    checkpoint = run.continues
    if checkpoint is not None:
        folder = checkpoint / "beside" / name
        if not folder.is_dir():
            raise CheckpointError(
                f"{folder} is missing: the run was begun without a model {name!r} that learns; begin another run"
                f" (name=...) with model.path={checkpoint / 'model'}"
            )
        section = section.model_copy(update={"path": str(folder)})
    model, _ = distributed.together(lambda: load_policy(section))
    train = run.config.train
    settings = engine_config(model_section=run.config.model, train=train)
    other_eyes = reads_pixels(run.cache, model, run.processor)
    engine = build_engine(model, build_optimizer(model, train), settings)
    engine.reads_pixels = other_eyes
    if checkpoint is not None:
        _restore(run, engine, checkpoint, name=name)
    return engine


def _restore(run: Runtime, engine: Any, checkpoint: Path, *, name: str) -> None:
    layout = optimizer_layout(model_section=run.config.model, train=run.config.train)
    if load_state(checkpoint)["optimizer"] != layout:
        run.warnings.append(f"the optimizer of model {name!r} starts anew: its state was saved for another layout")
        return
    part = distributed.rank() if layout["processes"] > 1 else 0
    load_optimizer(engine, distributed.together(lambda: load_optimizer_state(checkpoint, part=part, name=name)))


def _check_tokens(section: ModelSection, policy: FamilyProcessor, *, name: str) -> None:
    """ConfigError unless the model reads the policy's prompts and completions as they are."""
    own = processor_of(section)
    if own.family.name != policy.family.name:
        raise ConfigError(
            f"model {name!r} ({section.path}) is of the family {own.family.name}, the policy of {policy.family.name};"
            " it would read other pictures: name one of the policy's family"
        )
    if own.tokenizer.get_vocab() != policy.tokenizer.get_vocab():
        raise ConfigError(
            f"model {name!r} ({section.path}) has other tokens than the policy; its log-probs of the policy's tokens"
            " would mean nothing: name one with the same tokenizer"
        )
