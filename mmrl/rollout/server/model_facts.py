"""What a trainer and its rollout servers must agree on, in a form that can be compared."""

from __future__ import annotations

import hashlib
from typing import Any

from mmrl.models.families import FamilyProcessor
from mmrl.rollout.server.wire import PROTOCOL
from mmrl.rollout.weight_names import ExpectedWeights


def model_facts(processor: FamilyProcessor, expected: ExpectedWeights, *, dtype: str) -> dict[str, Any]:
    """Short values under names that an error can show."""
    shapes = "\n".join(f"{name} {tuple(shape)}" for name, shape in sorted(expected.shapes.items()))
    return {
        "protocol": PROTOCOL,
        "family": processor.family.name,
        "model.dtype": dtype,
        "names and shapes of weights": _digest(shapes),
        "ids that are banned or end a completion": _digest(f"{processor.banned_ids} {processor.eos_ids}"),
        "how pixels become patches": _digest(repr(processor.geometry)),
    }


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
