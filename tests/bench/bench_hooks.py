"""Seconds that the hooks of each plug-in add to a step of 64 prompts x 8 completions of 512 tokens, beside the step.

    python tests/bench/bench_hooks.py [--repeats N] [--only NAME ...] [--step-groups N | --step S]

Per plug-in: the hooks of a step (shape_rewards, keep, replay, advantage, columns, policy_loss and regulariser with
their backward pass over the log-probs, aggregate, on_step_end) on a made batch, the losses in 64 micro-batches, less
the same of GRPO without a plug-in; medians. Columns of rewards are there as spans of 8 steps, hidden states are of the
model's size. Not measured here: what a plug-in asks of the engine (second_round, prefixes), of the loader (draw,
frames) and of further passes (NEEDS, models beside the policy); `--left-out` lists it by plug-in. The step: forward and
backward of a 25M-parameter Qwen2.5-VL of random weights over packed groups with one image of 84 pixels, without
generation, so the shares are above those of a run. fp32, one thread.
"""

from __future__ import annotations

import argparse
import inspect
import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from makers.batches import make_batch
from makers.bench_models import medium_model, versions
from makers.rendered import make_image, make_prompt, random_completions

from mmrl.algorithms.algorithm import Algorithm, build_algorithm
from mmrl.algorithms.hooks import HOOKS, load_plugin
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.schema import AlgorithmSection
from mmrl.models.logprobs import token_logprobs
from mmrl.models.packing import group_row, pack
from mmrl.plugins import resolve_module, shipped_names

PROMPTS, GROUP, TOKENS, STEPS = 64, 8, 512, 8
LIMIT = 0.02
OPTIONS: dict[str, dict[str, Any]] = {"rlfr": {"warmup_steps": 0}, "trip_wires": {"prefix": "trip_"}}
MEASURED = (
    *("shape_rewards", "keep", "replay", "advantage", "token_weight", "columns", "policy_loss", "regulariser"),
    *("aggregate", "on_step_end"),
)


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--repeats", type=int, default=3)
    arguments.add_argument("--only", nargs="+", default=())
    arguments.add_argument("--step-groups", type=int, default=1, help="groups of the step that are measured; 64 in all")
    arguments.add_argument("--step", type=float, help="seconds of a step that were measured before, on a quiet machine")
    arguments.add_argument("--left-out", action="store_true", help="only list what is not measured")
    options = arguments.parse_args()
    if options.left_out:
        print("\n".join(left_out()))
        return
    torch.set_num_threads(1)
    model, processor = medium_model()
    size = sum(p.numel() for p in model.parameters()) / 1e6
    hidden = model.lm_head.weight.shape[1]
    step = options.step
    if step is None:
        step = PROMPTS * statistics.median(seconds_of_groups(model, processor, count=options.step_groups))
    print(f"{versions()}; {size:.1f}M parameters; {PROMPTS} x {GROUP} x {TOKENS} tokens, fp32, 1 thread\n")
    print(f"Step without generation: {step:.0f} s, {PROMPTS} times the median of a group's\n")
    base = statistics.median(seconds_of_hooks("", hidden, repeats=options.repeats))
    print("| plug-in | hooks | s | % of the step |\n|---|---|---|---|")
    print(f"| GRPO | built-in | {base:.3f} | {100 * base / step:.3f} |", flush=True)
    total = base
    for name in options.only or measured_plugins():
        more = statistics.median(seconds_of_hooks(name, hidden, repeats=options.repeats)) - base
        total += max(more, 0.0)
        hooks = ", ".join(hook for hook in MEASURED if hook in load_plugin(name).hooks)
        print(f"| `{name}` | {hooks} | {more:.3f} | {100 * more / step:.3f} |", flush=True)
    print(f"| all together | | {total:.3f} | {100 * total / step:.3f} |")
    if total > LIMIT * step and not options.only:
        sys.exit(f"the hooks take more than {100 * LIMIT:g} % of the step")


def left_out() -> list[str]:
    """Of each plug-in the hooks whose work is elsewhere, and what its options by default ask further passes for."""
    lines = ["| plug-in | hooks not measured | asked of a further pass |", "|---|---|---|"]
    for name in shipped_names("algorithms"):
        plugin = load_plugin(name)
        hooks = ", ".join(hook for hook in HOOKS if hook in plugin.hooks and hook not in MEASURED)
        needs = ", ".join(f"`{need}`" for need in sorted(plugin.needs))
        if hooks or needs:
            lines.append(f"| `{name}` | {hooks} | {needs} |")
    return lines


def measured_plugins() -> list[str]:
    return [name for name in shipped_names("algorithms") if set(MEASURED) & load_plugin(name).hooks.keys()]


def seconds_of_groups(model: Any, processor: Any, *, count: int) -> list[float]:
    """Forward and backward of packed groups, after a short one that warms up."""
    image = make_image("qwen2_5_vl", seed=0, height=6, width=6)
    pad_ids = {"image": processor.image_token_id, "video": processor.video_token_id}
    prompt = make_prompt([[1, 2, 3], image, list(range(30))], family="qwen2_5_vl", pad_ids=pad_ids)
    seconds = []
    for number, length in enumerate([16] + [TOKENS] * count):
        completions = random_completions((length,) * GROUP, seed=number)
        micro = pack([group_row(prompt, completions, range(GROUP))], processor)
        start = time.perf_counter()
        model.zero_grad()
        found = token_logprobs(model, micro, processor, temperature=1.0, banned_ids=(), chunk=1024)
        found.logprobs_L.mean().backward()
        seconds.append(time.perf_counter() - start)
    return seconds[1:]


def algorithm_with(name: str) -> Algorithm:
    options = OPTIONS.get(name, {})
    chosen: dict[str, Any] = {"plugins": (name,), "plugin_options": {name: options}} if name else {}
    if name and load_plugin(name, options=options).sequence_level:
        chosen["aggregation"] = "seq-mean-token-mean"
    return build_algorithm(AlgorithmSection(**chosen), max_new_tokens=TOKENS)


def seconds_of_hooks(name: str, hidden: int, *, repeats: int) -> list[float]:
    """Of `repeats` steps of one algorithm on different batches, the first of them, with an empty memory, left out."""
    algorithm, seconds = algorithm_with(name), []
    for number in range(repeats + 1):
        batch = batch_for(name, algorithm, hidden, seed=number)
        start = time.perf_counter()
        run_hooks(algorithm, batch)
        seconds.append(time.perf_counter() - start)
    return seconds[1:]


def run_hooks(algorithm: Algorithm, batch: RolloutBatch) -> None:
    shaped = algorithm.shape_rewards(batch)
    batch = replace(batch, token_rewards_NC=shaped.token_rewards_NC)
    keep_N = algorithm.keep(batch, shaped.rewards_N)
    batch, rewards_N = algorithm.replay(batch.select(keep_N), shaped.rewards_N[keep_N])
    if batch.old_NC is None:  # the trainer adds it after replay
        batch = replace(batch, old_NC=batch.rollout_NC)
    advantage_NC = algorithm.advantage(rewards_N, batch)
    batch = replace(batch, meta={**batch.meta, **algorithm.columns(rewards_N, advantage_NC, batch)})
    denom = algorithm.denominator(batch)
    assert batch.old_NC is not None
    for gid in batch.gid_N.unique().tolist():
        rows = batch.select(batch.gid_N == gid)
        assert rows.old_NC is not None
        policy_NC = (rows.old_NC + 0.01).requires_grad_()
        extra = dict.fromkeys(sorted(algorithm.extra), rows.old_NC)
        weights = (rows.meta["advantage"], rows.meta["weight"])
        loss, _ = algorithm.loss(policy_NC, rows, *weights, denom=denom, extra=extra)
        loss.backward() if loss.requires_grad else None
    algorithm.on_step_end(batch, rewards_N, {})


def batch_for(name: str, algorithm: Algorithm, hidden: int, *, seed: int) -> RolloutBatch:
    """Groups with rewards of 0 and 1 and completions of 256 to 512 tokens that share beginnings, with all that a
    plug-in reads.
    """
    generator = torch.Generator().manual_seed(seed)
    size = PROMPTS * GROUP
    lengths = torch.randint(TOKENS // 2, TOKENS + 1, (size,), generator=generator)
    lengths[0] = TOKENS
    gid = torch.arange(PROMPTS).repeat_interleave(GROUP)
    rewards = torch.randint(0, 2, (size,), generator=generator).float()
    batch = make_batch(lengths.tolist(), gid=gid.tolist(), rewards=rewards.tolist(), step=seed, total_steps=10)
    shape, mask_NC = batch.mask_NC.shape, batch.mask_NC

    def grid(low: float, high: float) -> torch.Tensor:
        return (low + (high - low) * torch.rand(shape, generator=generator)) * mask_NC

    ids_NC = torch.randint(0, 4000, shape, generator=generator)
    ids_NC[:, : TOKENS // 16] = (
        ids_NC[gid * GROUP, : TOKENS // 16] + (torch.rand(size, 1, generator=generator) < 0.3).int()
    )
    parts = text_options(name)
    rollout_NC = grid(-2.0, -0.1)
    requests = sorted(request for request in algorithm.needs if request not in ("old", "ref", "entropy", "value"))
    span_NC = torch.where(mask_NC, (torch.arange(shape[1]) * STEPS // TOKENS).expand(shape), torch.nan)
    spans = {name: torch.where(mask_NC, grid(0.0, 1.0).double(), torch.nan) for name in parts}
    return replace(
        batch,
        ids_NC=ids_NC * mask_NC,
        reward_names=("r", *parts),
        rewards_NK=torch.cat([rewards[:, None], torch.rand(size, len(parts), generator=generator)], 1),
        weights_NK=torch.tensor([1.0] + [0.0] * len(parts)),
        rollout_NC=rollout_NC,
        old_NC=rollout_NC + 0.01 * grid(-1.0, 1.0),
        ref_NC=grid(-2.0, -0.1),
        entropy_NC=grid(0.1, 2.0),
        value_NC=grid(-0.5, 0.5),
        task=("t",) * size,
        dataset=("d",) * size,
        meta={
            "greedy_reward": torch.full((size,), 0.4),
            **{request: requested(request, ids_NC, rollout_NC, hidden, generator) for request in requests},
            **spans,
            **{f"{part}.span": span_NC for part in parts},
        },
    )


def text_options(name: str) -> tuple[str, ...]:
    """Options of a plug-in that are texts: most name a column that it reads."""
    factory = getattr(resolve_module(name, kind="algorithms")[0], "Plugin", None) if name else None
    defaults = [p.default for p in inspect.signature(factory).parameters.values()] if factory else []
    return tuple(dict.fromkeys(value for value in defaults if isinstance(value, str)))


def requested(
    request: str, ids_NC: torch.Tensor, logprobs_NC: torch.Tensor, hidden: int, generator: torch.Generator
) -> torch.Tensor:
    if request.startswith("hidden:"):
        return torch.randn(*ids_NC.shape, hidden, generator=generator)
    if request.startswith("top:"):
        count = int(request.partition(":")[2])
        others = torch.arange(4000, 4000 + count - 1).expand(*ids_NC.shape, count - 1)
        rest = torch.full(others.shape, -5.0)
        return torch.cat([ids_NC[..., None], others, logprobs_NC[..., None], rest], -1)
    return logprobs_NC - 0.5


if __name__ == "__main__":
    main()
