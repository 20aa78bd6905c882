"""A plan as JSON for programs; the tables for people (tables.py) are made of the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from mmrl.plan.memory import has_features, kv_need, value_bytes, vllm_room
from mmrl.plan.plan import Plan
from mmrl.plan.rows import PlannedDataset, PlannedMedium, PlannedRow
from mmrl.plan.spread import LEVELS, percentiles

_ENTRY_BYTES = 1024
"""Of an entry beside its pixels: recipe, source, times."""
_FEATURE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


def plan_json(plan: Plan) -> dict[str, Any]:
    """Everything of the plan, bytes as numbers."""
    return {
        "machine": asdict(plan.machine),
        "fits": not plan.problems,
        "problems": plan.problems,
        "advice": [asdict(advice) for advice in plan.advice],
        "not_predicted": plan.unknown,
        "rows_per_second": round(plan.rows_per_s, 1),
        "media_known_by_decoding_only": plan.inexact,
        "datasets": [_dataset_json(dataset) for dataset in plan.datasets],
        "cache": _cache(plan),
        "model": {
            "weights": None if plan.facts.counts is None else plan.facts.counts.total,
            "trained": None if plan.facts.counts is None else plan.facts.counts.trained,
            "groups": {name: {"weights": n, "trained": t} for name, (n, t) in plan.facts.groups.items()},
        },
        "memory": {f"zero_{stage}": _memory_json(rank) for stage, rank in plan.ranks.items()},
        "zero_stage": plan.config.train.zero_stage,
        "micro_batch_tokens": {"configured": plan.config.train.micro_batch_tokens, "fits": plan.micro_batch},
        "rollout": _rollout_json(plan),
        "stages": list(_stages(plan)),
    }


def _dataset_json(dataset: PlannedDataset) -> dict[str, Any]:
    return {
        "key": dataset.key,
        "name": dataset.name,
        "split": dataset.split,
        "rows": dataset.total,
        "counted": len(dataset.rows),
        "sampled": dataset.sampled,
        "bad": len(dataset.bad),
        "problem": dataset.problem,
        "max_prompt_tokens": dataset.limit,
        "tasks": [
            {"task": task, "rows": len(rows)}
            | {name: dict(zip(_level_names(), percentiles(values), strict=True)) for name, values in columns(rows)}
            for task, rows in by_task(dataset)
        ],
        "too_long": [
            {"where": row.where, "tokens": row.prompt_tokens, "over": row.prompt_tokens - dataset.limit}
            for row in dataset.too_long
        ],
        "media": list(kept_media(dataset.rows)),
    }


def columns(rows: Sequence[PlannedRow]) -> list[tuple[str, list[int]]]:
    return [
        ("prompt_tokens", [row.prompt_tokens for row in rows]),
        ("vision_tokens", [row.vision_tokens for row in rows]),
    ]


def _level_names() -> list[str]:
    return [f"p{level}" if level < 100 else "max" for level in LEVELS]


def by_task(dataset: PlannedDataset) -> list[tuple[str, list[PlannedRow]]]:
    tasks: dict[str, list[PlannedRow]] = {}
    for row in dataset.rows:
        tasks.setdefault(row.task, []).append(row)
    return list(tasks.items())


def kept_media(rows: Sequence[PlannedRow]) -> Iterator[dict[str, Any]]:
    """Per kind and budget class, over distinct media: frames and pixels that the budget keeps of the source's."""
    groups: dict[tuple[str, str], dict[str, PlannedMedium]] = {}
    for row in rows:
        for medium in row.media:
            groups.setdefault((medium.kind, medium.budget), {})[medium.entry] = medium
    for (kind, budget), media in groups.items():
        source_frames = sum(m.source_frames for m in media.values())
        frames = sum(m.frames for m in media.values()) if kind == "video" else source_frames
        source = sum(m.source_frames * m.source_pixels for m in media.values())
        pixels = sum(m.frames * m.pixels for m in media.values())
        yield {
            "kind": kind,
            "budget": budget,
            "media": len(media),
            "source_frames": source_frames,
            "frames": frames,
            "frames_kept": frames / source_frames,
            "pixels_kept": pixels / source,
        }


def _cache(plan: Plan) -> dict[str, Any]:
    """Distinct media of all datasets: entries of pixels, and of features where the run has them."""
    media = {medium.entry: medium for dataset in plan.datasets for row in dataset.rows for medium in row.media}
    found: dict[str, Any] = {
        "entries": len(media),
        "pixel_bytes": sum(medium.stored_bytes + _ENTRY_BYTES for medium in media.values()),
        "feature_bytes": None,
    }
    vision = plan.facts.shape.vision
    if has_features(plan.config, plan.facts) and vision is not None and plan.facts.shape.text is not None:
        stored = plan.config.cache.feature_dtype
        size = value_bytes(plan.config) if stored == "model" else _FEATURE_BYTES[stored]
        width = plan.facts.shape.text.layer.hidden * vision.levels * size
        found["feature_bytes"] = sum(medium.tokens * width + _ENTRY_BYTES for medium in media.values())
    return found


def _memory_json(rank: Any) -> dict[str, Any]:
    acts = rank.activations
    return {
        "parts": asdict(rank.states),
        "activations": None if acts is None else {**asdict(acts), "peak": acts.peak},
        "rollout": None if rank.rollout is None else asdict(rank.rollout),
        "gathered": rank.gathered,
        "vllm": rank.vllm_bytes,
        "process": rank.base,
        "backward": rank.training,
        "step": rank.step,
        "sampling": rank.sampling,
        "peak": rank.peak,
    }


def _rollout_json(plan: Plan) -> dict[str, Any]:
    """KV cache at several concurrencies, at the p99 and the longest prompt with its completion."""
    config = plan.config
    p99, longest = (
        level + config.rollout.max_new_tokens for level in percentiles([r.prompt_tokens for r in plan.rows])[2:]
    )
    found: dict[str, Any] = {"engine": config.rollout.engine, "tokens_p99": p99, "tokens_max": longest}
    if plan.facts.shape.text is None:
        return found
    found["bytes_per_token"] = kv_need(plan.facts, config, tokens=1, sequences=1)
    found["concurrency"] = [
        {
            "sequences": n,
            **{
                name: kv_need(plan.facts, config, tokens=t, sequences=n) for name, t in (("p99", p99), ("max", longest))
            },
        }
        for n in _concurrencies(plan)
    ]
    room = vllm_room(config, plan.facts, plan.machine, longest)
    if room is not None:
        found["vllm"] = {
            "kv_bytes": room[0],
            "sequences_that_fit": room[1],
            "max_num_seqs": config.rollout.vllm.max_num_seqs,
        }
    return found


def _concurrencies(plan: Plan) -> list[int]:
    """One group, those of a step on one process, and what the engine decodes together at most."""
    config, group = plan.config, plan.config.rollout.group_size
    step = [
        -(-stage.prompts_per_step // plan.machine.processes) * group for stage in config.stages if stage.kind != "sft"
    ]
    rank = plan.rank
    most = [rank.rollout.sequences] if rank is not None and rank.rollout is not None else []
    most += [config.rollout.vllm.max_num_seqs] if config.rollout.engine != "hf" else []
    return sorted({group, *step, *most})


def _stages(plan: Plan) -> Iterator[dict[str, Any]]:
    """Rows of an epoch, steps of one, and the epochs that the stage's steps are."""
    for number, stage in enumerate(plan.config.stages):
        prefix = f"stages.{number}.data.train." if stage.data is not None else "data.train."
        datasets = [d for d in plan.datasets if d.key.startswith(prefix)]
        shares = [len(d.trained) / max(1, len(d.rows)) * (d.total - len(d.bad)) for d in datasets]
        rows = sum(
            round(n) if not stage.tasks else sum(r.task in stage.tasks for r in d.trained)
            for n, d in zip(shares, datasets, strict=True)
        )
        yield {
            "name": stage.name,
            "kind": stage.kind,
            "rows": rows if stage.rows_from is None else None,
            "steps": stage.steps,
            "prompts_per_step": stage.prompts_per_step,
            "steps_per_epoch": rows / stage.prompts_per_step if rows else None,
            "epochs": stage.steps * stage.prompts_per_step / rows if rows else None,
        }
