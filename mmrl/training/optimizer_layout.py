"""An optimizer's state that was saved by other processes, or under another ZeRO stage, laid out for this run.

Each process saves its own part: flat float32 tensors, made of runs of many parameters' values, and beside it the list
of those runs by parameter name (`pieces`). From the parts of all, each process reads the runs that it needs now, and no
others: files are mapped, not read whole.

    two processes, weight w of 6 values, after a parameter of 4     part 0: w 0..2 at 4      part 1: w 3..5 at 0
    one process                                                     reads 3 + 3 values, places them at 4

DeepSpeed's own tool for this (`ds_to_universal`) unpickles checkpoints and writes a second copy of everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from mmrl.errors import CheckpointError
from mmrl.training import distributed
from mmrl.training.checkpoint import load_optimizer_state

PIECES = "pieces"
# Where each of DeepSpeed's optimizers keeps its flat float32 tensors, and under which names it saves them.
_FLATS = ("single_partition_of_fp32_groups", "fp32_partitioned_groups_flat", "fp32_groups_flat_partition")
_SAVED_FLATS = ("single_partition_of_fp32_groups", "fp32_flat_groups")
_MOMENTS = ("exp_avg", "exp_avg_sq")
_SAVED_STATE = ("base_optimizer_state", "optimizer_state_dict")


@dataclass(frozen=True, slots=True)
class Piece:
    """`numel` values of a parameter from `offset` on; they lie at `start` of flat tensor number `group`."""

    group: int
    start: int
    offset: int
    numel: int


def optimizer_state(engine: Any) -> dict[str, Any]:
    """This process's optimizer state, with the pieces it is made of where DeepSpeed says: what `load_optimizer` takes,
    and `relaid_out`.
    """
    state, pieces = engine.optimizer.state_dict(), pieces_of(engine)
    if pieces is None:
        return state
    return {**state, PIECES: {name: [p.group, p.start, p.offset, p.numel] for name, p in pieces.items()}}


def pieces_of(engine: Any) -> dict[str, Piece] | None:
    """Where this process's flat tensors hold which values of which trained parameter.

    None where DeepSpeed's optimizer does not tell: that of bfloat16 weights without ZeRO.
    """
    optimizer = engine.optimizer
    named = {name: p for name, p in engine.module.named_parameters() if p.requires_grad}
    if hasattr(optimizer, "fp32_partitioned_groups_flat"):  # ZeRO-3: equal parts of each parameter, the last one padded
        return {name: piece for name, p in named.items() if (piece := _partition(optimizer, p)).numel > 0}
    if hasattr(optimizer, "optimizer"):
        if not all(hasattr(p, "_hp_mapping") for p in named.values()):
            return None
        return {name: _fragment(p._hp_mapping) for name, p in named.items() if p._hp_mapping is not None}
    order = {id(p): number for number, p in enumerate(_flats_of(engine))}
    return {name: Piece(order[id(p)], 0, 0, p.numel()) for name, p in named.items()}


def _partition(optimizer: Any, parameter: Any) -> Piece:
    group, start, size = optimizer.grad_position[optimizer.get_param_id(parameter)]
    offset = distributed.rank() * size
    return Piece(group, start, offset, min(size, parameter.ds_numel - offset))


def _fragment(mapping: Any) -> Piece:
    flat, own = mapping.hp_fragment_address, mapping.lp_fragment_address
    return Piece(mapping.param_group_index, flat.start, own.start, own.numel)


def _flats_of(engine: Any) -> list[torch.Tensor]:
    """The tensors that the inner optimizer steps on; without ZeRO in float32 these are the parameters."""
    for name in _FLATS:
        if hasattr(engine.optimizer, name):
            return list(getattr(engine.optimizer, name))
    return [p for group in engine.optimizer.param_groups for p in group["params"]]


class SavedState:
    """The parts of all processes that wrote a checkpoint."""

    def __init__(self, parts: Sequence[Mapping[str, Any]]) -> None:
        self._flats = [_first(part, _SAVED_FLATS) for part in parts]
        self._states = [(_first(part, _SAVED_STATE) or part)["state"] for part in parts]
        self._pieces: dict[str, list[tuple[int, Piece]]] = {}
        for number, part in enumerate(parts):
            for name, values in part[PIECES].items():
                self._pieces.setdefault(name, []).append((number, Piece(*values)))

    @classmethod
    def of(cls, checkpoint: Path, *, processes: int) -> SavedState | None:
        """None for a checkpoint that does not say what its parts are made of."""
        parts = [load_optimizer_state(checkpoint, part=number, mapped=True) for number in range(processes)]
        return cls(parts) if all(PIECES in part for part in parts) else None

    @property
    def step(self) -> torch.Tensor | None:
        """Steps that the moments have seen; None before the first."""
        return next((entry["step"] for state in self._states for entry in state.values()), None)

    @property
    def has_masters(self) -> bool:
        """Whether float32 weights are in it; without ZeRO in float32 they are the model's own."""
        return all(flats is not None for flats in self._flats)

    def read(self, name: str, key: str | None, *, offset: int, numel: int) -> torch.Tensor:
        """`numel` values of a parameter's moment `key` (None: of its float32 weights) from `offset` on.

        CheckpointError, naming it, where no part holds some of them.
        """
        values, found = torch.empty(numel), 0
        for part, piece in self._pieces.get(name, ()):
            first, end = max(offset, piece.offset), min(offset + numel, piece.offset + piece.numel)
            if first < end:
                flat = self._flats[part][piece.group] if key is None else self._states[part][piece.group][key]
                begin = piece.start + first - piece.offset
                values[first - offset : end - offset] = flat.flatten()[begin : begin + end - first]
                found += end - first
        if found != numel:
            raise CheckpointError(f"the optimizer's saved parts hold {found} of {numel} values of {name}")
        return values


def _first(part: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((part[name] for name in names if name in part), None)


@torch.no_grad()
def relaid_out(engine: Any, saved: SavedState) -> None:
    """Give this process's optimizer its share of a saved AdamW state: moments, step count and float32 weights.

    The engine's `pieces_of` are known.
    """
    step, pieces = saved.step, pieces_of(engine)
    assert pieces is not None, "the caller has looked"
    if step is None:
        return
    flats, inner = _flats_of(engine), getattr(engine.optimizer, "optimizer", engine.optimizer)
    for flat in flats:
        moments = {key: torch.zeros_like(flat, memory_format=torch.preserve_format) for key in _MOMENTS}
        inner.state[flat] = {"step": step.clone(), **moments}
    for name, piece in pieces.items():
        for target, key in _targets(flats[piece.group], inner, with_masters=saved.has_masters):
            own = target.view(-1)[piece.start : piece.start + piece.numel]
            own.copy_(saved.read(name, key, offset=piece.offset, numel=piece.numel))


def _targets(flat: torch.Tensor, inner: Any, *, with_masters: bool) -> Iterator[tuple[torch.Tensor, str | None]]:
    yield from ((inner.state[flat][key], key) for key in _MOMENTS)
    if with_masters:
        yield flat.data, None
