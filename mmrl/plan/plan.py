"""`mmrl check --plan`: what a run will need, before anything is loaded; see docs/plan.md."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mmrl.config.checks import Located, located
from mmrl.config.schema import RunConfig
from mmrl.errors import ConfigError
from mmrl.models.families import FamilyProcessor
from mmrl.models.hub import model_folder
from mmrl.models.load import processor_of
from mmrl.plan.advice import Advice, Adviser, trained_rows
from mmrl.plan.memory import Machine, RankMemory, fitting_micro_batch, needs_reference, rank_memory
from mmrl.plan.model import ModelFacts, read_model
from mmrl.plan.rows import PlannedDataset, PlannedRow, RowPlanner
from mmrl.scoring.router import Router


@dataclass
class Plan:
    """Everything that was predicted. ranks: ZeRO stage -> one process's memory. rows: as training sees them.

    unknown: part -> why it is not predicted. problems: what does not fit, one line each.
    """

    config: RunConfig
    machine: Machine
    facts: ModelFacts
    datasets: list[PlannedDataset] = field(default_factory=list)
    rows: list[PlannedRow] = field(default_factory=list)
    rows_per_s: float = 0.0
    inexact: int = 0
    ranks: dict[int, RankMemory] = field(default_factory=dict)
    micro_batch: int | None = None
    unknown: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    advice: list[Advice] = field(default_factory=list)

    @property
    def rank(self) -> RankMemory | None:
        """Of the configured ZeRO stage."""
        return self.ranks.get(self.config.train.zero_stage)

    @property
    def exit_code(self) -> int:
        return 1 if self.problems else 0


def make_plan(config: RunConfig, machine: Machine, *, rows: int | None = None) -> Plan:
    """The plan of a run on a machine. rows: count only so many of each dataset. ConfigError for a model that is not
    there.
    """
    place = located(config)
    processor, why = _processor(place)
    facts = replace(_facts(place), reference=needs_reference(config))
    plan = Plan(config, machine, facts, unknown=dict(facts.unknown))
    if processor is None:
        plan.unknown["prompt and vision tokens"] = why
    with Router(config.rewards) as router:
        planner = None if processor is None else RowPlanner(config, processor, router, rows_per_dataset=rows)
        if planner is not None:
            plan.datasets = planner.datasets(place.data_sections())
            plan.rows_per_s = planner.counted / planner.seconds if planner.seconds else 0.0
            plan.inexact = len(planner.inexact)
        plan.rows = trained_rows(plan.datasets) or [_longest_allowed(config, plan)]
        _add_memory(plan)
        adviser = Adviser(config, facts, machine, planner, plan.datasets)
        _judge(plan, adviser)
    return plan


def _processor(place: Located) -> tuple[FamilyProcessor | None, str]:
    """The processor, or why there is none although the model's folder is there."""
    try:
        return processor_of(place.config.model), ""
    except ConfigError as error:
        try:
            folder = model_folder(place.config.model, weights=False)
        except ConfigError:
            folder = Path(place.config.model.path)
        if (folder / "config.json").is_file():
            return None, str(error)
        raise ConfigError(place.at("model.path", f"key 'model.path': {error}")) from error


def _facts(place: Located) -> ModelFacts:
    try:
        return read_model(place.config.model)
    except ConfigError as error:
        key = next((key for key in ("model.lora", "model.freeze") if str(error).startswith(key)), "model.path")
        raise ConfigError(place.at(key, str(error))) from error


def _longest_allowed(config: RunConfig, plan: Plan) -> PlannedRow:
    """In the place of rows that cannot be counted: a prompt of the greatest length that is allowed, without media."""
    plan.unknown.setdefault("lengths", "no rows were counted: memory is that of prompts of data.max_prompt_tokens")
    return PlannedRow(0, "", "", config.data.max_prompt_tokens, 0)


def _add_memory(plan: Plan) -> None:
    config, facts = plan.config, plan.facts
    for stage in range(4):
        found = rank_memory(config, facts, plan.rows, plan.machine, stage=stage)
        if found is not None:
            plan.ranks[stage] = found
    plan.micro_batch = fitting_micro_batch(config, facts, plan.rows, plan.machine)
    if facts.counts is not None and (plan.rank is None or plan.rank.activations is None) and config.stages:
        plan.unknown.setdefault("activations", "; ".join(facts.shape.unknown.values()) or "no stage trains")


def _judge(plan: Plan, adviser: Adviser) -> None:
    """Problems, and for each kind of them what to change."""
    lengths = [problem for dataset in plan.datasets for problem in _length_problems(dataset)]
    if any(dataset.too_long for dataset in plan.datasets):
        plan.advice += adviser.of_lengths()
    rank, most = plan.rank, plan.machine.process_bytes
    memory = []
    if rank is not None and rank.peak > most:
        memory.append(
            f"a process needs {rank.peak / 1e9:.1f} GB of {most / 1e9:.1f} (highest: {rank.highest}, ZeRO stage "
            f"{plan.config.train.zero_stage})"
        )
        plan.advice += adviser.of_memory()
    plan.problems += lengths + memory + _rollout_problems(plan)


def _length_problems(dataset: PlannedDataset) -> list[str]:
    name = f"{dataset.split} {dataset.name}"
    if dataset.problem is not None:
        return [f"{name}: {dataset.problem}"]
    found, data = [], dataset.data
    too_long = len(dataset.too_long)
    if too_long and data.too_long == "error":
        found.append(f"{name}: {too_long} of {len(dataset.rows)} prompts are longer than {dataset.limit} tokens")
    if dataset.unshrinkable:
        found.append(f"{name}: {dataset.unshrinkable} prompts cannot be shrunk to {dataset.limit} tokens")
    skipped = len(dataset.bad) + (too_long if data.too_long == "skip" else 0)
    counted = len(dataset.rows) + len(dataset.bad) if dataset.sampled else dataset.total
    if skipped > data.max_skipped_fraction * counted:
        share = f"more than data.max_skipped_fraction={data.max_skipped_fraction:g}"
        found.append(f"{name}: {skipped} of {counted} rows would be left out, {share}")
    return found


def _rollout_problems(plan: Plan) -> list[str]:
    """A prompt and completion that hf_engine refuses."""
    config = plan.config
    longest = max(row.prompt_tokens for row in plan.rows) + config.rollout.max_new_tokens
    samples: Any = [stage for stage in config.stages if stage.kind in ("grpo", "sample")]
    if config.rollout.engine != "hf" or not samples or longest <= config.rollout.max_batch_tokens:
        return []
    plan.advice.append(
        Advice(
            f"raise rollout.max_batch_tokens from {config.rollout.max_batch_tokens:,} to {longest:,}",
            "the longest prompt with its completion is decoded",
        )
    )
    return [f"the longest prompt and completion, {longest:,} tokens, are more than rollout.max_batch_tokens"]
