"""A plan as tables for people; see docs/plan.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mmrl.plan.memory import trained_stages
from mmrl.plan.plan import Plan
from mmrl.plan.report import by_task, columns, kept_media, plan_json
from mmrl.plan.spread import percentiles

_NAMED = 10
"""Rows above the limit that are named, of each dataset."""


def print_plan(plan: Plan, console: Console) -> None:
    """The tables of docs/plan.md."""
    facts = plan_json(plan)
    console.print(f"plan for {escape(plan.machine.name)}")
    if plan.datasets:
        console.print(_token_table(plan))
        console.print(_counted_line(plan))
        _print_too_long(plan, console)
        console.print(_media_table(plan))
        console.print(_cache_line(facts["cache"]))
    if plan.ranks:
        console.print(_memory_table(plan))
        console.print(_micro_batch_line(plan))
    _print_rollout(facts["rollout"], console)
    if facts["stages"]:
        console.print(_stage_table(facts["stages"]))
    for part, why in plan.unknown.items():
        console.print(f"[yellow]not predicted:[/yellow] {escape(part)}: {escape(why)}")
    for problem in plan.problems:
        console.print(f"[red]problem:[/red] {escape(problem)}")
    for number, advice in enumerate(plan.advice):
        console.print(f"{'change' if number == 0 else '    or'}: {escape(str(advice))}")
    console.print("[red]this does not fit[/red]" if plan.problems else "[green]this fits[/green]")


def _table(title: str, *names: str, left: int = 1) -> Table:
    table = Table(title=title, title_justify="left", show_edge=False)
    for number, column in enumerate(names):
        table.add_column(column, justify="left" if number < left else "right", no_wrap=True)
    return table


def _token_table(plan: Plan) -> Table:
    table = _table("tokens (p50 / p90 / p99 / max)", "dataset", "task", "rows", "prompt", "vision", "too long", left=2)
    for dataset in plan.datasets:
        for task, rows in by_task(dataset):
            spreads = [" / ".join(f"{value:,}" for value in percentiles(values)) for _, values in columns(rows)]
            over = sum(row.prompt_tokens > dataset.limit for row in rows)
            table.add_row(
                f"{dataset.split} {escape(dataset.name)}",
                escape(task),
                f"{len(rows):,}",
                *spreads,
                f"{over:,} > {dataset.limit:,}",
            )
    return table


def _counted_line(plan: Plan) -> str:
    counted = sum(len(dataset.rows) for dataset in plan.datasets)
    bad = sum(len(dataset.bad) for dataset in plan.datasets)
    said = f"{counted:,} rows counted from headers ({plan.rows_per_s:,.0f} rows/s)"
    if bad:
        said += f", {bad:,} bad rows (mmrl check lists them)"
    if any(dataset.sampled for dataset in plan.datasets):
        said += f"; a sample: all have {sum(dataset.total for dataset in plan.datasets):,} rows"
    if plan.inexact:
        said += f"; {plan.inexact} broken clips are counted as if whole"
    return said


def _print_too_long(plan: Plan, console: Console) -> None:
    for dataset in plan.datasets:
        rows = dataset.too_long
        for row in rows[:_NAMED]:
            over = row.prompt_tokens - dataset.limit
            fact = f"{row.prompt_tokens:,} tokens, {over:,} more than {dataset.limit:,}"
            console.print(f"[yellow]too long:[/yellow] {escape(row.where)}: {fact}")
        if len(rows) > _NAMED:
            console.print(f"... and {len(rows) - _NAMED:,} more of {escape(dataset.name)}; --json lists all")


def _media_table(plan: Plan) -> Table:
    table = _table(
        "media that budgets keep", "dataset", "kind", "budget", "media", "frames", "kept", "pixels kept", left=3
    )
    for dataset in plan.datasets:
        for kept in kept_media(dataset.rows):
            frames = f"{kept['frames']:,} of {kept['source_frames']:,}" if kept["kind"] == "video" else "-"
            share = f"{kept['frames_kept']:.1%}" if kept["kind"] == "video" else "-"
            table.add_row(
                f"{dataset.split} {escape(dataset.name)}",
                kept["kind"],
                escape(kept["budget"]),
                f"{kept['media']:,}",
                frames,
                share,
                f"{kept['pixels_kept']:.1%}",
            )
    return table


def _cache_line(cache: dict[str, Any]) -> str:
    features = cache["feature_bytes"]
    more = "" if features is None else f", and {_size(features)} of features"
    return f"cache: {cache['entries']:,} entries, {_size(cache['pixel_bytes'])} of pixels{more}"


def _memory_table(plan: Plan) -> Table:
    names = (
        "ZeRO",
        "weights",
        "master",
        "optimizer",
        "gradients",
        "activations",
        "reference",
        "EMA",
        "backward",
        "step",
        "sampling",
        "host",
        "fits",
    )
    table = _table(f"memory of one process of {plan.machine.processes} (GB = 1e9 bytes)", *names)
    for stage, rank in plan.ranks.items():
        parts, acts = rank.states, rank.activations
        numbers = [parts.weights, parts.master, parts.optimizer, parts.gradients + parts.buckets + parts.standing]
        numbers = [_gb(n) for n in numbers] + ["-" if acts is None else _gb(max(acts.peak, acts.forward))]
        numbers += [_gb(n) for n in (parts.reference, parts.ema, rank.training, rank.step, rank.sampling, parts.host)]
        mark = "*" if stage == plan.config.train.zero_stage else " "
        table.add_row(f"{stage}{mark}", *numbers, "yes" if rank.peak <= plan.machine.process_bytes else "no")
    return table


def _micro_batch_line(plan: Plan) -> str:
    configured, fits = plan.config.train.micro_batch_tokens, plan.micro_batch
    if not trained_stages(plan.config):
        return "micro-batch: no stage trains"
    if fits is None:
        why = "activations are not predicted" if plan.facts.shape.text is None else "not even the longest row fits"
        return f"micro-batch: {configured:,} tokens configured; {why}"
    more = "or more" if fits >= 4_000_000 else "at most"
    return f"micro-batch: {configured:,} tokens configured; {fits:,} fit ({more})"


def _print_rollout(rollout: dict[str, Any], console: Console) -> None:
    if "concurrency" not in rollout:
        return
    p99, longest = rollout["tokens_p99"], rollout["tokens_max"]
    title = f"keys and values of rollouts ({rollout['engine']}, {rollout['bytes_per_token']:,} bytes a token)"
    table = _table(title, "sequences", f"p99: {p99:,} tokens", f"longest: {longest:,} tokens", left=0)
    for line in rollout["concurrency"]:
        table.add_row(f"{line['sequences']:,}", _size(line["p99"]), _size(line["max"]))
    console.print(table)
    if "vllm" in rollout:
        room, count = rollout["vllm"], rollout["vllm"]["sequences_that_fit"]
        fact = f"{count:,} of the longest sequences fit at once, max_num_seqs is {room['max_num_seqs']}"
        console.print(f"vLLM: {_size(room['kv_bytes'])} for keys and values; {fact}")


def _stage_table(stages: Sequence[dict[str, Any]]) -> Table:
    table = _table("stages", "stage", "kind", "rows", "steps", "prompts a step", "steps an epoch", "epochs", left=2)
    for stage in stages:
        known = stage["steps_per_epoch"] is not None
        rows = "-" if stage["rows"] is None else f"{stage['rows']:,}"
        spans = [f"{stage['steps_per_epoch']:,.1f}", f"{stage['epochs']:,.2f}"] if known else ["-", "-"]
        table.add_row(
            escape(stage["name"]), stage["kind"], rows, f"{stage['steps']:,}", f"{stage['prompts_per_step']:,}", *spans
        )
    return table


def _gb(size: int) -> str:
    return f"{size / 1e9:.3g}" if size else "-"


def _size(size: int) -> str:
    """In the unit that leaves few digits.

    >>> _size(950), _size(36_864), _size(4_831_838_208)
    ('950 B', '36.9 kB', '4.83 GB')
    """
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size} B"
