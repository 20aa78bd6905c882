"""Training a reward model: read, encode, fit the head, measure, save."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mmrl.errors import ConfigError, MmrlError
from mmrl.reward_models.clips import Encoders, Pair
from mmrl.reward_models.config import RewardModelConfig
from mmrl.reward_models.files import save_reward_model
from mmrl.reward_models.heads import Head, make_head
from mmrl.reward_models.kinds import KINDS, Metrics, RewardKind


@dataclass(frozen=True, slots=True)
class Fitted:
    """A trained head, its last measurement on `data.val` (empty without), and facts that scoring needs."""

    head: Head
    metrics: Metrics
    facts: dict[str, Any]


def train_reward(config: RewardModelConfig, *, say: Callable[[str], None] = print) -> Fitted:
    """Train and write `out`: model.safetensors, reward_model.json, metrics.jsonl.

    The same seed on the same machine gives the same weights. ConfigError for encoders that cannot be loaded and for an
    `out` that holds something already; DataError for a row that cannot be used.
    """
    out = Path(config.out)
    if out.exists() and any(out.iterdir()):
        raise ConfigError(f"out: {out} is not empty; name another folder, or remove it")
    encoders = Encoders.of(config)
    kind = KINDS[config.kind](config)
    train: Any = kind.read("train", encoders)
    held_out: Any = kind.read("val", encoders) if config.data.val else []
    say(f"{len(train)} to train on, {len(held_out)} held out; {encoders.pictures.computed} pictures encoded")
    one = train[0].first if isinstance(train[0], Pair) else train[0]
    head = first_head(
        config, picture_width=one.frames_FD.shape[1], text_width=0 if one.text_E is None else len(one.text_E)
    )
    out.mkdir(parents=True, exist_ok=True)
    metrics = _fit(head, kind, train, held_out, out=out, say=say)
    fitted = Fitted(head, metrics, kind.facts(train))
    save_reward_model(out, head, config=config, facts=fitted.facts, metrics=metrics)
    say(f"saved to {out}")
    return fitted


def first_head(config: RewardModelConfig, *, picture_width: int, text_width: int) -> Head:
    """The untrained head of a seed, on the device that the configuration names."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        return make_head(config, picture_width=picture_width, text_width=text_width).to(config.fit.device)


def _fit(head: Head, kind: RewardKind, train: Any, held_out: Any, *, out: Path, say: Callable[[str], None]) -> Metrics:
    """All steps; the last measurement. Dropout draws from torch's generator, seeded here and put back after."""
    fit, metrics = kind.config.fit, {}
    optimizer = torch.optim.AdamW(head.parameters(), lr=fit.lr, weight_decay=fit.weight_decay)
    rng, start = np.random.default_rng(kind.config.seed), time.perf_counter()
    with torch.random.fork_rng(devices=[]), (out / "metrics.jsonl").open("w", encoding="utf-8") as journal:
        torch.manual_seed(kind.config.seed + 1)
        losses = []
        for step in range(1, fit.steps + 1):
            losses.append(_step(head.train(), kind.loss(head, train, rng), optimizer))
            if step % fit.measure_every == 0 or step == fit.steps:
                metrics = kind.measure(head.eval(), held_out) if held_out else {}
                row = {"step": step, "loss": sum(losses) / len(losses), **metrics}
                journal.write(json.dumps(row | {"seconds": round(time.perf_counter() - start, 2)}) + "\n")
                journal.flush()
                say("  ".join(f"{key} {value:.4g}" for key, value in row.items()))
                losses = []
    head.eval()
    return metrics


def _step(head: Head, loss: torch.Tensor, optimizer: torch.optim.Optimizer) -> float:
    value = float(loss.detach())
    if not math.isfinite(value):
        raise MmrlError(f"the loss became {value}; lower fit.lr")
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(head.parameters(), 1.0)
    optimizer.step()
    return value
